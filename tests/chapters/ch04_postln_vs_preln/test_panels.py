"""The panels of chapter 4 say what the library's own layers do, one token and one seed at a time."""

import math

import numpy as np
import pytest
import torch

from addnorm_lib.chapters.ch04_postln_vs_preln import panels
from addnorm_lib.chapters.ch04_postln_vs_preln.measures import signals
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.parts import number
from addnorm_lib.layers import Encoder, deepnorm

INIT_NAMES = {"xavier": "Xavier", "deepnorm": "DeepNorm's β", "gpt2": "1/√(2L)"}
NORM_NAMES = {"layer": "layer norm", "rms": "RMS norm"}


def encoders(depth, gains, *, norm="layer", **options):
    """Yield an encoder with the panel's weights, and its tokens and arriving gradients (B, 1, D), for every seed."""
    weights, tokens, arriving = signals.drawn()
    width = tokens.shape[2]
    for seed in range(len(tokens)):
        made = Encoder(depth, width, 1, width, norm=norm, **options).double()
        for l, layer in enumerate(made.layers):
            matrices = (
                layer.self_attention.value,
                layer.self_attention.output,
                layer.feed_forward.linear1,
                layer.feed_forward.linear2,
            )
            for linear, gain, weight in zip(matrices, gains, weights[:, l, seed], strict=True):
                linear.weight.data = gain * weight.T.contiguous()
        yield made, tokens[seed].unsqueeze(1), arriving[seed].unsqueeze(1)


def typical(norms):
    return np.exp(np.log(np.array(norms)).mean(axis=0))


@pytest.mark.parametrize(
    ("where", "norm", "final_norm", "alpha", "init", "depth"),
    [
        ("post", "layer", False, 1.0, "xavier", 4),
        ("post", "rms", True, 1.7, "deepnorm", 3),
        ("pre", "layer", True, 1.0, "gpt2", 4),
        ("pre", "rms", False, 1.5, "xavier", 2),
        ("sandwich", "layer", True, 1.25, "deepnorm", 3),
        ("branch", "rms", False, 1.0, "xavier", 3),
    ],
)
def test_the_placement_panels_readout_is_that_of_the_layers(where, norm, final_norm, alpha, init, depth):
    last = 1 / math.sqrt(2 * depth) if init == "gpt2" else 1.0
    gains = (deepnorm(depth).beta,) * 4 if init == "deepnorm" else (1.0, last, 1.0, last)
    norms, variances = [], []
    options = {"norm": norm, "placement": where, "alpha": alpha, "final_norm": final_norm}
    for made, tokens, arriving in encoders(depth, gains, **options):
        w2 = [layer.feed_forward.linear2.weight for layer in made.layers]
        for token, gradient in zip(tokens, arriving, strict=True):
            output = made(token.unsqueeze(0))
            found = torch.autograd.grad(output, w2, gradient.unsqueeze(0))
            norms.append([g.norm().item() for g in found])
        made.final_norm = None
        variances.append(made(tokens).var(-1, correction=0).mean().item())
    gradient, l = typical(norms), np.arange(1, depth + 1)
    if where != "post" and alpha > 1:
        law = f"a factor of {math.exp(np.polyfit(l, np.log(gradient), 1)[0]):.2f} from layer to layer"
    else:
        law = f"about as l^{round(np.polyfit(np.log(l), np.log(gradient), 1)[0], 1) + 0.0:.1f}".replace("-", "−")
    panel = panels.placement_panel()
    readout = panel.set(placement=where, norm=norm, final_norm=final_norm, alpha=alpha, init=init, depth=depth)
    assert readout == (
        f"{where}, {NORM_NAMES[norm]}, {'with a' if final_norm else 'no'} final norm, {INIT_NAMES[init]}, "
        f"α = {alpha:.2f}, L = {depth}: the gradient of W₂ is {number(gradient[0])} in layer 1 and "
        f"{number(gradient[-1])} in layer L, {law}. The stream's variance after the last layer: "
        f"{number(np.mean(variances))}. (DeepNorm for this L: α = {deepnorm(depth).alpha:.2f}.)"
    )


@pytest.mark.parametrize(
    ("where", "s", "depth"), [("post", 1.0, 4), ("post", 0.3, 6), ("pre", 1.0, 5), ("pre", 2.0, 3)]
)
def test_the_shortcuts_gradient_is_the_product_of_the_norms_jacobians(where, s, depth):
    whole, shortcut = [], []
    for made, tokens, arriving in encoders(depth, (1.0, s, 1.0, s), placement=where, final_norm=False):
        x = tokens.clone().requires_grad_()
        (found,) = torch.autograd.grad(made(x), x, arriving)
        whole.extend(found.norm(dim=-1).flatten().tolist())
        sums, x = [], tokens
        for layer in made.layers:
            for part in (layer.self_attention, layer.feed_forward):
                if where == "post":
                    sums.append((x + part(x)).detach())
                    x = torch.nn.functional.layer_norm(sums[-1], x.shape[-1:])
        g = arriving
        for total in reversed(sums):
            deviation = total.std(-1, correction=0, keepdim=True)
            normal = (total - total.mean(-1, keepdim=True)) / deviation
            g = (g - g.mean(-1, keepdim=True) - normal * (normal * g).mean(-1, keepdim=True)) / deviation
        shortcut.extend(g.norm(dim=-1).flatten().tolist())
    whole, shortcut = typical(whole), typical(shortcut)
    whole_law = math.sqrt(1 + 1.5 * s * s * depth) if where == "pre" else 1.0
    shortcut_law = ((1 + s * s) * (1 + s * s / 2)) ** (-depth / 2) if where == "post" else 1.0
    assert panels.jacobian_panel().set(placement=where, s=s, depth=depth) == (
        f"{where}, L = {depth}, s = {s:.2f}. Gradient at layer 0: the whole {number(whole)} (predicted "
        f"{number(whole_law)}), along the shortcut alone {number(shortcut)} (predicted {number(shortcut_law)}): "
        f"a factor of {shortcut ** (1 / depth):.2f} a layer."
    )
    assert whole == pytest.approx(whole_law, rel=0.25)
    assert shortcut == pytest.approx(shortcut_law, rel=0.25)


def test_the_shortcut_alone_dies_out_in_post_and_the_whole_gradient_does_not():
    panel = panels.jacobian_panel()
    panel.set(placement="post", s=1, depth=signals.MAX_DEPTH)
    shortcut, whole = (line.get_ydata() for line in panel._canvas.moving[:2])
    assert shortcut[0] < 1e-6 and whole.min() > 0.3
    panel.set(placement="pre")
    shortcut, whole = (line.get_ydata() for line in panel._canvas.moving[:2])
    np.testing.assert_allclose(shortcut, 1, rtol=1e-12)
    assert whole[0] > 5


def test_an_axis_grows_until_it_holds_everything_drawn():
    panel = panels.placement_panel()
    for values in ({"placement": "pre", "alpha": 4, "depth": signals.MAX_DEPTH}, {"final_norm": True}, {"alpha": 1}):
        panel.set(**values)
        for ax in panel._canvas.figure.axes:
            low, high = ax.get_ylim()
            drawn = np.concatenate([line.get_ydata() for line in ax.lines])
            assert low <= drawn.min() and drawn.max() <= high
    assert high == 300  # and shrinks again


def test_the_warmup_bench_trains_when_asked_and_keeps_earlier_curves():
    bench = panels.warmup_bench()
    assert "Next: pre, L = 1, rate 0.003, warm-up 0." in bench.set(depth=1, placement="pre")
    assert bench.set(train=True) == "pre, L = 1, rate 0.003, warm-up 0: final loss below 0.1."
    assert bench.values["train"] is False
    assert "post, L = 2, rate 0.003, warm-up 50: final loss" in bench.set(
        depth=2, placement="post", warmup=50, train=True
    )
    drawn = [artist for artist in bench._canvas.moving if hasattr(artist, "get_xdata") and len(artist.get_xdata())]
    assert len(drawn) == 2
