"""The shortcut through the norms: what arrives along it alone, against the whole gradient."""

import math

import numpy as np

from addnorm_lib.chapters.ch04_postln_vs_preln.measures.signals import MAX_DEPTH, signals
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.parts import (
    fit,
    freeze_layout,
    heading,
    name_of,
    number,
    placements,
)
from addnorm_lib.course.figures.style import BLUE, ORANGE, PREDICTION, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, slider
from addnorm_lib.messages import _


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
    title = heading(ax)
    canvas = LiveCanvas(figure, [shortcut, whole, *laws, title])
    freeze_layout(figure)

    def update(placement: str, s: float, depth: int) -> str:
        s = round(s, 2)
        gains = (1.0, s, 1.0, s)
        l = np.arange(depth + 1.0)
        per_layer = math.sqrt((1 + s * s) * (1 + s * s / 2)) if placement == "post" else 1.0
        grown = (1 + 1.5 * s * s * depth) / (1 + 1.5 * s * s * l) if placement == "pre" else np.ones(depth + 1)
        predicted = np.sqrt(grown), per_layer ** (l - depth)
        measured = [signals(placement, depth, gains=gains, shortcut_only=alone).gradient for alone in (False, True)]
        for line, law, norms, curve in zip((whole, shortcut), laws, measured, predicted, strict=True):
            line.set_data(l, norms)
            law.set_data(l, curve)
        fit(ax, canvas, 1e-3, 30.0, np.concatenate([*measured, *predicted]))
        title.set_text(f"{name_of(placement)}, s = {s:.2f}")
        return _(
            "{placement}, L = {depth}, s = {s:.2f}. Gradient at layer 0: the whole {whole} (predicted {whole_law}), "
            "along the shortcut alone {alone} (predicted {alone_law}): a factor of {factor:.2f} a layer."
        ).format(
            placement=name_of(placement),
            depth=depth,
            s=s,
            whole=number(measured[0][0]),
            whole_law=number(predicted[0][0]),
            alone=number(measured[1][0]),
            alone_law=number(predicted[1][0]),
            factor=measured[1][0] ** (1 / depth),
        )

    return Panel(
        title=_("The shortcut through the norms"),
        try_this=_(
            "Post: how much of the gradient at layer 0 came along the shortcut alone? Drag s down until it is half. "
            "Then choose pre."
        ),
        controls={
            "placement": placements("post", "pre", value="post"),
            "s": slider(_("branch scale s"), 1, 0, 2, 0.05),
            "depth": slider(_("depth L"), 16, 1, MAX_DEPTH, whole=True),
        },
        canvas=canvas,
        update=update,
    )
