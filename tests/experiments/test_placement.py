"""Placement: the stacked networks are the library's layers, and the measurements agree with theory and autograd."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from addnorm_lib import reference
from addnorm_lib.experiments import data, placement, placement_training
from addnorm_lib.experiments.placement import PlacementNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import build, train
from addnorm_lib.layers import AddNorm, Encoder, deepnorm

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
    family = placement._Family([2, 3], [4, 5], {"d_model": 16})
    for place in ALL:
        net, state = family.member(place, 2)
        for i, seed in enumerate((4, 5)):
            alone = network(seed, placement=place, depth=2, d_model=16).float()
            x = torch.randn(1, 2, 6, 16, generator=torch.Generator().manual_seed(0))
            # The first layers of a deeper network of the same seed: what follows them in the module differs.
            if place == "deepnorm":
                stacked = net.layers_stacked(state, x.expand(2, -1, -1, -1), lambda _name, _value: None)[i]
                torch.testing.assert_close(stacked, alone.encoder(x[0]), rtol=1e-5, atol=1e-5)
            else:
                own = {name.removeprefix("encoder."): v[i] for name, v in state.items() if name.startswith("encoder")}
                library = Encoder(
                    2, 16, 2, 32, placement="pre" if place == "scaled" else place, final_norm=place != "post"
                )
                library.load_state_dict(own)
                if place == "scaled":
                    library.layers[1].add_norm1.norm.weight.data.div_(math.sqrt(2))
                    library.layers[1].add_norm2.norm.weight.data.div_(math.sqrt(2))
                stacked = net.layers_stacked(state, x.expand(2, -1, -1, -1), lambda _name, _value: None)[i]
                torch.testing.assert_close(stacked, library(x[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("one_target", [False, True])
def test_gradients_are_those_of_a_loss_on_the_librarys_layers(place, one_target):
    measured = placement.gradient_by_layer(
        (place,), 3, seeds=(2,), tokens=4, one_target=one_target, d_model=16, n_heads=2
    )
    _net, state = placement._Family([3], [2], {"d_model": 16, "d_ff": 16, "vocabulary": 16, "n_heads": 2}).member(
        place, 3
    )
    library = Encoder(3, 16, 2, 16, placement=place, final_norm=place == "pre")
    library.load_state_dict({n.removeprefix("encoder."): v[0] for n, v in state.items() if n.startswith("encoder")})
    x = placement._normal([2], 1, 4, 16, salt=1_000_003)[0]
    targets = torch.randint(16, (4,), generator=torch.Generator().manual_seed(2))
    targets = targets[:1].expand(4) if one_target else targets
    logits = F.linear(library(x)[0], state["readout.weight"][0], state["readout.bias"][0])
    weights = [layer.feed_forward.linear2.weight for layer in library.layers]
    whole = torch.autograd.grad(F.cross_entropy(logits, targets), weights, retain_graph=True)
    np.testing.assert_allclose(measured.norm[place][0], [float(g.norm()) for g in whole], rtol=1e-4)
    single = [
        torch.autograd.grad(F.cross_entropy(logits[t], targets[t]), weights[-1], retain_graph=True)[0].norm()
        for t in range(4)
    ]
    rms = torch.stack(single).square().mean().sqrt().item()
    assert measured.per_token[place][0, -1] == pytest.approx(rms, rel=1e-4)
    unit = F.normalize(library(x)[0], dim=1)
    similarity = ((unit @ unit.T).sum() - 4).item() / 12
    assert measured.similarity[place][0, 0] == pytest.approx(similarity, abs=1e-5)


def test_the_last_gradient_falls_with_depth_in_pre_and_not_in_post():
    measured = placement.gradient_against_depth(depths=(2, 4, 8, 16), d_model=32)
    assert abs(measured.slope("post").value) < 0.1
    assert -0.6 < measured.slope("pre").value < -0.3
    bare = placement.gradient_against_depth(("pre",), (2, 4, 8, 16), d_model=32, final_norm=False)
    assert bare.slope("pre").value > measured.slope("pre").value + 0.2


def test_the_stream_obeys_lemma_2():
    simplified = {"init": "simplified", "n_heads": 1, "seeds": range(16)}
    post = placement.stream_statistics("post", 8, **simplified)
    np.testing.assert_allclose(post.square_norm[:, 1:], 1, rtol=1e-3)
    np.testing.assert_allclose(post.before_norm.mean(), 1.5, rtol=0.1)
    pre = placement.stream_statistics("pre", 8, **simplified)
    mean, l = pre.square_norm.mean(0), pre.layers
    assert np.all(mean > 0.9 * (1 + l / 2)) and np.all(mean < 1.1 * (1 + 1.5 * l))


def test_stream_statistics_are_those_of_the_librarys_layers():
    net = network(3, placement="sandwich", depth=2).float()
    measured = placement.stream_statistics("sandwich", 2, seeds=(3,), batch=2, tokens=5, d_model=32)
    states = [placement._normal([3], 2, 5, 32)[0]]
    for layer in net.encoder.layers:
        states.append(layer(states[-1]))
    for l, h in enumerate(states):
        assert measured.variance[0, l] == pytest.approx(h.var(-1, correction=0).mean().item(), rel=1e-4)
        assert measured.square_norm[0, l] == pytest.approx(h.square().mean().item(), rel=1e-4)
    cosine = F.cosine_similarity(states[0], states[1], dim=-1).mean().item()
    assert measured.cosine[0, 0] == pytest.approx(cosine, abs=1e-5)
    pairs = [F.cosine_similarity(states[2][:, i], states[2][:, j], dim=-1) for i in range(5) for j in range(i)]
    assert measured.similarity[0, 2] == pytest.approx(torch.stack(pairs).mean().item(), abs=1e-5)


def test_growth_is_linear_in_pre_and_logarithmic_when_scaled():
    grown = {place: placement.stream_statistics(place, 16).variance.mean(0)[-1] for place in ("post", "pre", "scaled")}
    assert grown["post"] == pytest.approx(1, rel=1e-3)
    assert grown["pre"] > 10 and grown["scaled"] < 5


def test_noise_grows_with_depth_in_post_and_not_in_deepnorm():
    change = placement.noise_amplification(depths=(2, 4, 8, 16), noise=0.003, d_model=32)
    growth = {place: (values.mean(0)[-1] / values.mean(0)[0]) for place, values in change.items()}
    assert growth["post"] > 1.5 * growth["pre"] > 1.5 * growth["deepnorm"]
    assert growth["deepnorm"] == pytest.approx(1, rel=0.2)


def test_ranks_collapse_without_the_skip():
    alone = placement.rank_collapse(5, skip=False)
    assert np.all(alone[:, -1] < 1e-12) and np.all(alone[:, 0] > 0.9)
    order = np.log(alone[:, 3]) / np.log(alone[:, 2])
    assert np.all((order > 2.5) & (order < 4.5))
    assert np.all(placement.rank_collapse(5, skip=True)[:, -1] > 0.7)
    assert np.all(placement.rank_collapse(16, skip=True, branch_scale="1/sqrt(L)")[:, -1] > 0.9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: placement.gradient_against_depth(depths=(4,)),
        lambda: placement.gradient_against_depth(seeds=()),
        lambda: placement.noise_amplification(depths=(0, 2)),
        lambda: placement.rank_collapse(skip=True, seeds=()),
    ],
)
def test_measurements_name_what_they_want(call):
    with pytest.raises(ValueError, match="wanted, got"):
        call()


def test_full_dropout_leaves_x_in_pre_and_its_norms_in_post():
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    norm = torch.nn.LayerNorm(8)
    blocks = {place: [AddNorm(8, place, dropout=1.0).train() for _ in range(2)] for place in ("post", "pre")}
    for place, wanted in {"pre": x, "post": norm(norm(x))}.items():
        h = x
        for block in blocks[place]:
            h = block(h, torch.nn.Linear(8, 8))
        torch.testing.assert_close(h, wanted)


def test_grids_name_their_runs():
    runs = placement_training.training_grid(("post", "deepnorm"), (2, 3), (0, 5), (1e-3, 1e-2), steps=7, d_model=16)
    assert len(runs) == 16 and all(run.steps == 7 and run.options["d_model"] == 16 for run in runs)
    assert {(r.value("placement"), r.value("depth"), r.warmup, r.lr) for r in runs} == {
        (p, d, w, lr) for p in ("post", "deepnorm") for d in (2, 3) for w in (0, 5) for lr in (1e-3, 1e-2)
    }
    assert [(r.value("residual"), r.value("norm")) for r in placement_training.ablation(2)] == [
        (False, None),
        (False, "layer"),
        (True, None),
        (True, "layer"),
    ]


def test_trained_streams_are_measured_before_and_after():
    runs = placement_training.training_grid(("pre",), (2,), (0,), steps=30, seeds=(0, 1), keep_state=True)
    record = train(runs, workers=1)[0]
    assert record.activation_std.shape == (2, 1, 2)
    before, after = (placement.stream_of_record(record, trained=trained) for trained in (False, True))
    fresh = placement._stacked(dict(record.run.options), (0, 1))
    x = torch.from_numpy(data.load("reverse", length=6, vocabulary=8).x_test[:128])
    embedded = fresh["embedding.weight"][1][x] + fresh["position"][1]
    assert before.variance[1, 0] == pytest.approx(embedded.var(-1, correction=0).mean().item(), rel=1e-4)
    assert np.all(after.variance[:, -1] > before.variance[:, -1])
    with pytest.raises(ValueError, match="keep_state=True"):
        placement.stream_of_record(train(placement_training.ablation(1, steps=1, seeds=(0,))[3], workers=1)[0])


def test_text_is_predicted_causally():
    run = placement_training.text_grid(("pre",), (1,), (0,), steps=20, seeds=(0,))[0]
    record = train(run)[0]
    assert record.loss[0, 0] > 4 > record.train_loss[0]
    net = build(run, 0)
    x = torch.from_numpy(data.load("text", length=16).x_test[:2])
    y = x.clone()
    y[:, 9] = (y[:, 9] + 1) % 90
    assert torch.equal(net(x)[:, :9], net(y)[:, :9]) and not torch.equal(net(x)[:, 9:], net(y)[:, 9:])


def test_a_grid_trains_what_it_names():
    """That Post-LN wants warm-up at twelve layers and Pre-LN does not is claimed, and trained for, in chapter 4."""
    results = train(placement_training.training_grid(depths=(2,), warmups=(0, 20), steps=40, seeds=(0, 1)), workers=1)
    loss = {(p, w): results.one(placement=p, warmup=w).loss for p in ("post", "pre") for w in (0, 20)}
    for place in ("post", "pre"):
        at_once, warmed = loss[place, 0], loss[place, 20]
        np.testing.assert_array_equal(at_once[:, 0], warmed[:, 0])  # the same weights and the same batch
        assert np.all(at_once[:, 5:10].mean(1) < warmed[:, 5:10].mean(1))  # small steps get less far at first
        assert np.all(warmed[:, -1] < warmed[:, 0] - 0.3) and np.all(at_once[:, -1] < at_once[:, 0] - 0.3)
    assert np.all(loss["post", 0][:, 0] != loss["pre", 0][:, 0])
