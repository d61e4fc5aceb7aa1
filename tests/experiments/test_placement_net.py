"""The stacked networks of all placements are the library's layers."""

import math

import numpy as np
import pytest
import torch

from addnorm_lib import reference
from addnorm_lib.experiments import stacked
from addnorm_lib.experiments.network_stack import build
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.layers import Encoder, deepnorm

ALL = ("post", "pre", "sandwich", "branch", "scaled", "deepnorm")


def network(seed=0, **options):
    return build(Run(PlacementNet, options, dtype="float64"), seed)


def tokens(n_tokens=6, vocabulary=8, batch=3):
    return torch.randint(vocabulary, (batch, n_tokens), generator=torch.Generator().manual_seed(1))


def shake(net):
    """Give every parameter a value of its own: at initialisation biases are 0 and γ is 1."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net


def through_the_library(net, x):
    return net.readout(net.encoder(net.embedding(x) + net.position))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("place", ["post", "pre", "sandwich", "branch", "deepnorm"])
def test_the_network_is_the_librarys_layers(place, norm, causal):
    net = shake(network(placement=place, depth=3, norm=norm, causal=causal))
    torch.testing.assert_close(net(tokens()), through_the_library(net, tokens()), rtol=1e-10, atol=1e-10)
    single = net.float()
    torch.testing.assert_close(single(tokens()), through_the_library(single, tokens()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{"residual": False}, {"alpha": 1.7}, {"final_norm": False}, {"n_heads": 4}])
@pytest.mark.parametrize("place", ["post", "pre"])
def test_options_reach_the_librarys_layers(place, options):
    net = shake(network(placement=place, depth=2, **options))
    torch.testing.assert_close(net(tokens()), through_the_library(net, tokens()), rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad(net(tokens()).square().sum(), net.encoder.layers[0].self_attention.query.weight)
    wanted = torch.autograd.grad(
        through_the_library(net, tokens()).square().sum(), net.encoder.layers[0].self_attention.query.weight
    )
    torch.testing.assert_close(gradients, wanted, rtol=1e-9, atol=1e-10)


def test_scaled_is_pre_with_gamma_divided_by_the_root_of_the_layer():
    scaled, pre = network(placement="scaled", depth=3), network(placement="pre", depth=3)
    with torch.no_grad():
        for l, layer in enumerate(pre.encoder.layers, 1):
            layer.add_norm1.norm.weight.div_(math.sqrt(l))
            layer.add_norm2.norm.weight.div_(math.sqrt(l))
    torch.testing.assert_close(scaled(tokens()), through_the_library(pre, tokens()), rtol=1e-10, atol=1e-10)


def test_deepnorm_has_its_constants():
    net = network(placement="deepnorm", depth=4, d_model=64, d_ff=64)
    constants = deepnorm(4)
    assert net.encoder.layers[0].add_norm1.alpha == constants.alpha
    std = net.encoder.layers[2].feed_forward.linear1.weight.std().item()
    assert std == pytest.approx(constants.beta / 8, rel=0.05)


def test_without_norm_and_simplified_are_their_formulas():
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 8))
    none = network(depth=1, d_model=8, n_heads=1, norm=None, init="simplified")
    state = {name: p[None] for name, p in none.named_parameters()}
    weight = {name: p.detach().numpy() for name, p in none.named_parameters()}
    value = weight["encoder.layers.0.self_attention.value.weight"]
    first, second = (weight[f"encoder.layers.0.feed_forward.linear{i}.weight"] for i in (1, 2))
    h = reference.residual_sum(x, np.broadcast_to((x @ value.T).mean(2, keepdims=True), x.shape))
    h = reference.residual_sum(h, np.maximum(h @ first.T, 0) @ second.T)
    got = none.layers_stacked(state, torch.from_numpy(x), lambda _name, _value: None)
    np.testing.assert_allclose(got.detach().numpy(), h, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "prenorm"}, "placement: one of 'post', 'pre'"),
        ({"norm": "batch"}, "norm: one of 'layer', 'rms', None wanted, got 'batch'"),
        ({"init": "he"}, "init: one of"),
        ({"init": "simplified"}, "n_heads: 1 wanted"),
        ({"norm": None, "final_norm": True}, "final_norm"),
        ({"placement": "deepnorm", "alpha": 2.0}, "placement: 'deepnorm' brings its own"),
        ({"depth": 0}, "n_layers"),
        ({"n_heads": 5}, "n_heads"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PlacementNet(**options)


def test_all_placements_start_from_the_same_weights_and_are_different_functions():
    nets = {place: network(placement=place, depth=2) for place in ALL if place != "deepnorm"}
    for name, parameter in nets["post"].named_parameters():
        assert all(torch.equal(parameter, dict(net.named_parameters())[name]) for net in nets.values())
    outputs = [net(tokens()) for net in nets.values()]
    for i, a in enumerate(outputs):
        assert all((a - b).abs().max() > 0.01 for b in outputs[:i])


def test_a_family_is_the_networks_themselves():
    family = stacked.Family([2, 3], [4, 5], {"d_model": 16})
    for place in ALL:
        net, state = family.member(place, 2)
        for i, seed in enumerate((4, 5)):
            alone = network(seed, placement=place, depth=2, d_model=16).float()
            x = torch.randn(1, 2, 6, 16, generator=torch.Generator().manual_seed(0))
            # The first layers of a deeper network of the same seed: what follows them in the module differs.
            if place == "deepnorm":
                got = net.layers_stacked(state, x.expand(2, -1, -1, -1), lambda _name, _value: None)[i]
                torch.testing.assert_close(got, alone.encoder(x[0]), rtol=1e-5, atol=1e-5)
            else:
                own = {name.removeprefix("encoder."): v[i] for name, v in state.items() if name.startswith("encoder")}
                library = Encoder(
                    2, 16, 2, 32, placement="pre" if place == "scaled" else place, final_norm=place != "post"
                )
                library.load_state_dict(own)
                if place == "scaled":
                    library.layers[1].add_norm1.norm.weight.data.div_(math.sqrt(2))
                    library.layers[1].add_norm2.norm.weight.data.div_(math.sqrt(2))
                got = net.layers_stacked(state, x.expand(2, -1, -1, -1), lambda _name, _value: None)[i]
                torch.testing.assert_close(got, library(x[0]), rtol=1e-5, atol=1e-5)
