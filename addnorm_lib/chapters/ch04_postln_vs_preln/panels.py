"""Panels of chapter 4: where the norm stands, at initialisation and in training; and the shortcut through the norms."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.chapters.ch04_postln_vs_preln.figures import GUESS, STYLES
from addnorm_lib.course.figures.numbers import fixed, typeset
from addnorm_lib.course.figures.style import BLUE, GREY, ORANGE, PREDICTION, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.course.panels.training_bench import bench
from addnorm_lib.experiments.placement_training import training_grid
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import one_thread
from addnorm_lib.layers import deepnorm
from addnorm_lib.messages import _

MAX_DEPTH = 32
WIDTH = 64
SEEDS = 8
TOKENS = 4


class Signals(NamedTuple):
    """What a stack of L layers does at initialisation. Norms are geometric means over tokens and seeds.

    gradient (L+1,): of the gradient at the stream x_0 … x_L, when one of norm 1 arrives at the top.
    second_weight (L,): of the gradient of every layer's W₂, the feed-forward's second matrix.
    variance (L+1,): of the stream over its features, the mean over tokens and seeds.
    """

    gradient: NDArray[np.float64]
    second_weight: NDArray[np.float64]
    variance: NDArray[np.float64]


@functools.cache
def _drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Return W_v, W_o, W_1, W_2 (4, L, S, D, D) with Xavier's variance, tokens and arriving gradients (S, B, D)."""
    generator = torch.Generator().manual_seed(0)
    weights, tokens, arriving = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((4, MAX_DEPTH, SEEDS, WIDTH, WIDTH), *[(SEEDS, TOKENS, WIDTH)] * 2)
    )
    return weights / math.sqrt(WIDTH), tokens, F.normalize(arriving, dim=-1)


def _gains(init: str, depth: int) -> tuple[float, float, float, float]:
    """Return what W_v, W_o, W_1 and W_2 are multiplied with."""
    if init == "deepnorm":
        return (deepnorm(depth).beta,) * 4
    closing = 1 / math.sqrt(2 * depth) if init == "gpt2" else 1.0
    return 1.0, closing, 1.0, closing


@functools.lru_cache(maxsize=4096)
def _signals(
    placement: str,
    depth: int,
    *,
    norm: str = "layer",
    final_norm: bool = False,
    alpha: float = 1.0,
    gains: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
    shortcut_only: bool = False,
) -> Signals:
    """Measure encoder layers that one token enters, so that attention is W_o W_v x. D = d_ff = 64, float64.

    With `shortcut_only` no gradient flows through the branches.
    """
    weights, tokens, arriving = _drawn()

    def normalise(x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,)) if norm == "layer" else F.rms_norm(x, (WIDTH,), eps=1e-5)

    with one_thread():
        x = tokens.clone().requires_grad_()
        stream, hidden, updates = [x], [], []
        for layer in range(depth):
            for first, second in ((0, 1), (2, 3)):  # attention, feed-forward
                z = x.detach() if shortcut_only else x
                z = normalise(z) if placement in ("pre", "sandwich") else z
                h = gains[first] * (z @ weights[first, layer])
                h = torch.relu(h) if first else h
                update = gains[second] * (h @ weights[second, layer])
                if first:
                    hidden.append(h)
                    updates.append(update)
                update = normalise(update) if placement in ("sandwich", "branch") else update
                x = alpha * x + update
                x = normalise(x) if placement == "post" else x
            stream.append(x)
        top = normalise(x) if final_norm else x
        gradients = torch.autograd.grad(top, stream if shortcut_only else stream + updates, arriving)
    at_stream, at_updates = gradients[: depth + 1], gradients[depth + 1 :]
    # One token's gradient of W₂ is an outer product: its norm is the product of the two.
    second_weight = _norms(hidden) * _norms(at_updates) if at_updates else np.full((depth, 1), np.nan)
    return Signals(
        _typical(_norms(at_stream)),
        _typical(second_weight),
        torch.stack(stream).detach().var(-1, correction=0).mean((1, 2)).numpy(),
    )


def _norms(vectors: Sequence[Tensor]) -> NDArray[np.float64]:
    return torch.stack(list(vectors)).detach().norm(dim=-1).flatten(1).numpy()


def _typical(norms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(np.log(norms).mean(axis=1))


def _number(value: float) -> str:
    if 0.01 <= value < 1000:
        return fixed(value, 2 if value < 10 else 0)
    return typeset(f"{value:.0e}")


def _freeze_layout(figure: Figure) -> None:
    """Lay the axes out for the widest numbers that `_fit` may bring, once: the layout is most of a full redraw."""
    for ax in figure.axes:
        ax.set_ylim(1e-32, 1e-16)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _fit(ax: Axes, canvas: LiveCanvas, low: float, high: float, values: NDArray[np.float64]) -> None:
    """Widen a logarithmic axis until it holds the values; from a few widths only, as a change costs a full redraw."""
    while values.min() < low:
        low *= low
    while values.max() > high:
        high *= high
    if (low, high) != ax.get_ylim():
        ax.set_ylim(low, high)
        canvas.forget_background()


def _heading(ax: Axes) -> Text:
    """Return a text above the axes that may change: the layout sees the empty title in its place."""
    ax.set_title(" ")
    return ax.text(0, 1.03, "", transform=ax.transAxes, weight="bold")


def _name_of(placement: str) -> str:
    names = {"post": _("post"), "pre": _("pre"), "sandwich": _("sandwich"), "branch": _("branch")}
    return names.get(placement, "DeepNorm")


def _placements(*names: str, value: str) -> widgets.ValueWidget:
    return choice(_("placement"), [(_name_of(name), name) for name in names], value)


@house_style
def placement_panel() -> Panel:
    """Return a panel: the gradient of every layer's W₂ and the stream's variance at initialisation, for one token.

    Grey: plain Post-LN, and Pre-LN with its final norm, of the same depth (layer norm, α = 1, Xavier).
    """
    figure, (gradients, variances) = new_figure(8.6, 3.4, columns=2)
    for ax in (gradients, variances):
        ax.set_yscale("log")
        ax.set_xlim(-0.5, MAX_DEPTH + 5)  # room for the names
    gradients.set_xlabel(_("layer l (the loss sits above layer L)"))
    gradients.set_ylabel(_(r"gradient norm of layer l's $W_2$"))
    variances.set_xlabel(_("after layer l (0: the embedding)"))
    variances.set_ylabel(_("variance of the stream"))
    lines = [ax.plot([], [], **STYLES["post"])[0] for ax in (gradients, variances)]
    titles = [_heading(ax) for ax in (gradients, variances)]
    classic = {}
    for name in ("post", "pre"):
        for ax in (gradients, variances):
            (line,) = ax.plot([], [], color=GREY, linewidth=1.2, linestyle=STYLES[name]["linestyle"])
            upper = (name == "post") == (ax is gradients)
            text = ax.text(0, 0, _name_of(name), color=GREY, fontsize=9, va="bottom" if upper else "top")
            classic[name, ax] = line, text
    canvas = LiveCanvas(figure, [*(a for pair in classic.values() for a in pair), *lines, *titles])
    _freeze_layout(figure)
    norms = {"layer": _("layer norm"), "rms": _("RMS norm")}
    inits = {"xavier": "Xavier", "deepnorm": _("DeepNorm's β"), "gpt2": _("1/√(2L)")}

    def update(placement: str, norm: str, final_norm: bool, alpha: float, init: str, depth: int) -> str:
        alpha = round(alpha, 2)
        signals = _signals(placement, depth, norm=norm, final_norm=final_norm, alpha=alpha, gains=_gains(init, depth))
        l = np.arange(depth + 1)
        for line, x, y in zip(lines, (l[1:], l), (signals.second_weight, signals.variance), strict=True):
            line.set_data(x, y)
            line.set(**STYLES[placement])
        seen = {gradients: [signals.second_weight], variances: [signals.variance]}
        for name in ("post", "pre"):
            usual = _signals(name, depth, final_norm=name == "pre")
            for ax, x, y in ((gradients, l[1:], usual.second_weight), (variances, l, usual.variance)):
                line, text = classic[name, ax]
                line.set_data(x, y)
                text.set_position((depth + 1, y[-1]))
                seen[ax].append(y)
        _fit(gradients, canvas, 0.1, 30.0, np.concatenate(seen[gradients]))
        _fit(variances, canvas, 0.3, 300.0, np.concatenate(seen[variances]))
        for (_name, ax), (_line, text) in classic.items():
            text.set_visible(ax.get_ylim()[1] < 1e8)  # else the two names stand on each other
        trend = np.log(signals.second_weight)
        if placement != "post" and alpha > 1:  # the stream grows by this factor at every sum
            law = _("a factor of {factor:.2f} from layer to layer").format(
                factor=math.exp(np.polyfit(l[1:], trend, 1)[0])
            )
        else:
            law = _("about as l^{power}").format(power=fixed(np.polyfit(np.log(l[1:]), trend, 1)[0], 1))
        last = _("with a final norm") if final_norm else _("no final norm")
        setting = f"{_name_of(placement)}, {norms[norm]}, {last}, {inits[init]}"
        titles[0].set_text(f"{_name_of(placement)}, {norms[norm]}, {last}")
        deep = deepnorm(depth).alpha
        titles[1].set_text(
            _("{init}, α = {alpha:.2f} (DeepNorm {deep:.2f})").format(init=inits[init], alpha=alpha, deep=deep)
        )
        return _(
            "{setting}, α = {alpha:.2f}, L = {depth}: the gradient of W₂ is {first} in layer 1 and {end} in layer L, "
            "{law}. The stream's variance after the last layer: {variance}. (DeepNorm for this L: α = {deep:.2f}.)"
        ).format(
            setting=setting,
            alpha=alpha,
            depth=depth,
            first=_number(signals.second_weight[0]),
            end=_number(signals.second_weight[-1]),
            law=law,
            variance=_number(signals.variance[-1]),
            deep=deep,
        )

    return Panel(
        title=_("Where the norm stands: the first step's gradients"),
        try_this=_(
            "Choose pre, then take its final norm away. Which placements keep the stream's variance at 1, and which "
            "keep it small? Set DeepNorm's β, and its α for this depth."
        ),
        controls={
            "placement": _placements("post", "pre", "sandwich", "branch", value="post"),
            "norm": choice(_("norm"), [(text, name) for name, text in norms.items()], "layer"),
            "final_norm": choice(_("final norm"), [(_("off"), False), (_("on"), True)], False),
            "init": choice(_("initialisation"), [(text, name) for name, text in inits.items()], "xavier"),
            "alpha": slider(_("shortcut's factor α"), 1, 1, 4, 0.05),
            "depth": slider(_("depth L"), 12, 2, MAX_DEPTH, whole=True),
        },
        canvas=canvas,
        update=update,
    )


def warmup_bench(seed: int = 0) -> Panel:
    """Return a panel that trains one Transformer to reverse six tokens, 200 steps of Adam: see `bench`.

    64 sequences a step; depth 12 takes about four seconds.
    """
    rates, steps = (3e-4, 1e-3, 3e-3, 1e-2, 2e-2), 200

    def run(placement: str, depth: int, lr: float, warmup: int) -> Run:
        return training_grid(
            [placement], [depth], [warmup], [lr], steps=steps, batch_size=64, seeds=[seed], record_every=steps
        )[0]

    def describe(placement: str, depth: int, lr: float, warmup: int) -> tuple[str, str]:
        schedule = _("rate {lr:.2g}, warm-up {warmup}").format(lr=lr, warmup=warmup)
        return f"{_name_of(placement)}, L = {depth}", schedule

    return bench(
        title=_("The warm-up bench: reverse six tokens"),
        try_this=_(
            "Press train. Then give it 100 warm-up steps and train again; then pre without any. "
            "(The stop button interrupts.)"
        ),
        controls={
            "placement": _placements("post", "pre", "sandwich", "branch", "deepnorm", value="post"),
            "depth": slider(_("depth L"), 12, 1, 24, whole=True),
            "lr": choice(_("learning rate"), [(f"{rate:g}", rate) for rate in rates], 3e-3),
            "warmup": slider(_("warm-up steps"), 0, 0, steps, 10, whole=True),
        },
        run=run,
        describe=describe,
        steps=steps,
        losses=(2e-3, 6),
        bounds=(0.1, 1),
        guessing=GUESS,
    )


@house_style
def jacobian_panel() -> Panel:
    """Return a panel: the gradient that arrives along the pure shortcut path, against the whole one.

    The branches' last matrices are s times Xavier's, so that an input of variance 1 gives the attention's update the
    variance s² and the feed-forward's s²/2. Post-LN: each norm divides by the sum's deviation (∂LN/∂x is
    (I − 11ᵀ/D − x̂x̂ᵀ/D)/σ), in one layer by √((1 + s²)(1 + s²/2)), and the branches add as much again. Pre-LN: the
    shortcut is the identity, and the whole gradient grows as √((1 + 3s²L/2)/(1 + 3s²l/2)). Dotted: these predictions.
    """
    figure, ax = new_figure(8.6, 3.4)
    ax.set_yscale("log")
    ax.set_xlim(-0.5, MAX_DEPTH + 0.5)
    ax.set_xlabel(_("layer l (a gradient of norm 1 arrives above layer L, on the right)"))
    ax.set_ylabel(_("gradient norm at layer l"))
    (whole,) = ax.plot([], [], color=BLUE, marker="o", label=_("the whole gradient"))
    (shortcut,) = ax.plot([], [], color=ORANGE, marker="v", linestyle="--", label=_("along the shortcut alone"))
    laws = [ax.plot([], [], **PREDICTION)[0] for _which in range(2)]
    laws[0].set_label(_("predicted"))
    ax.legend(loc="lower right")
    title = _heading(ax)
    canvas = LiveCanvas(figure, [shortcut, whole, *laws, title])
    _freeze_layout(figure)

    def update(placement: str, s: float, depth: int) -> str:
        s = round(s, 2)
        gains = (1.0, s, 1.0, s)
        l = np.arange(depth + 1.0)
        per_layer = math.sqrt((1 + s * s) * (1 + s * s / 2)) if placement == "post" else 1.0
        grown = (1 + 1.5 * s * s * depth) / (1 + 1.5 * s * s * l) if placement == "pre" else np.ones(depth + 1)
        predicted = np.sqrt(grown), per_layer ** (l - depth)
        measured = [_signals(placement, depth, gains=gains, shortcut_only=alone).gradient for alone in (False, True)]
        for line, law, norms, curve in zip((whole, shortcut), laws, measured, predicted, strict=True):
            line.set_data(l, norms)
            law.set_data(l, curve)
        _fit(ax, canvas, 1e-3, 30.0, np.concatenate([*measured, *predicted]))
        title.set_text(f"{_name_of(placement)}, s = {s:.2f}")
        return _(
            "{placement}, L = {depth}, s = {s:.2f}. Gradient at layer 0: the whole {whole} (predicted {whole_law}), "
            "along the shortcut alone {alone} (predicted {alone_law}): a factor of {factor:.2f} a layer."
        ).format(
            placement=_name_of(placement),
            depth=depth,
            s=s,
            whole=_number(measured[0][0]),
            whole_law=_number(predicted[0][0]),
            alone=_number(measured[1][0]),
            alone_law=_number(predicted[1][0]),
            factor=measured[1][0] ** (1 / depth),
        )

    return Panel(
        title=_("The shortcut through the norms"),
        try_this=_(
            "Post: how much of the gradient at layer 0 came along the shortcut alone? Drag s down until it is half. "
            "Then choose pre."
        ),
        controls={
            "placement": _placements("post", "pre", value="post"),
            "s": slider(_("branch scale s"), 1, 0, 2, 0.05),
            "depth": slider(_("depth L"), 16, 1, MAX_DEPTH, whole=True),
        },
        canvas=canvas,
        update=update,
    )
