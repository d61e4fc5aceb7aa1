"""Panels of chapter 1: the gradient along a stack, and the residual tape."""

import math

import numpy as np
import torch

from addnorm_lib.course.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PLAIN,
    PREDICTION,
    RESIDUAL,
    VERMILION,
    house_style,
    new_figure,
)
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, slider
from addnorm_lib.messages import _
from addnorm_lib.probes import gradients_by_layer

MAX_DEPTH = 48
WIDTH = 64
PROBES = 16


def _power(value: float) -> str:
    return f"{value:.2f}" if 0.01 <= value < 100 else f"{value:.1e}"


@house_style
def gradient_panel(n_blocks: int = 32, gain: float = 0.5, seed: int = 0) -> Panel:
    """Return a panel: the gradient that arrives at every layer of a plain and of a residual stack.

    The branches are random matrices J_l (64, 64) with ‖J_l‖_F/√D = s on average. The root mean square gradient at
    layer l is s^(L−l) in the plain stack and √(1 + s²)^(L−l) in the residual one, drawn dotted.
    """
    generator = torch.Generator().manual_seed(seed)
    unit = torch.randn(MAX_DEPTH, WIDTH, WIDTH, generator=generator, dtype=torch.float64) / math.sqrt(WIDTH)
    arriving = torch.randn(PROBES, WIDTH, generator=generator, dtype=torch.float64)
    arriving = arriving / arriving.norm(dim=1, keepdim=True)

    figure, ax = new_figure(8.6, 3.4)
    ax.set_yscale("log")
    ax.set_xlim(-0.5, MAX_DEPTH + 0.5)
    ax.set_ylim(1e-13, 1e13)
    ax.set_yticks([10.0**p for p in range(-12, 13, 4)])
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set_xlabel(_("layer l (the loss sits at layer L, on the right)"))
    ax.set_ylabel(_(r"gradient norm $\Vert\partial\,\mathrm{loss}/\partial x_l\Vert$"))
    (plain,) = ax.plot([], [], label=_("plain: ∏ J"), markevery=2, **PLAIN)
    (residual,) = ax.plot([], [], label=_("residual: ∏ (I + J)"), markevery=2, **RESIDUAL)
    (plain_law,) = ax.plot([], [], label=_("predicted"), **PREDICTION)
    (residual_law,) = ax.plot([], [], **PREDICTION)
    ax.legend(loc="upper right", ncols=3)

    def update(L: int, s: float) -> str:
        layers = np.arange(L + 1)
        jacobians = s * unit[:L]
        ends = {}
        for line, law, is_residual, factor in (
            (plain, plain_law, False, s),
            (residual, residual_law, True, math.sqrt(1 + s * s)),
        ):
            norms = gradients_by_layer(jacobians, arriving, residual=is_residual)
            line.set_data(layers, norms)
            law.set_data(layers, factor ** (L - layers.astype(float)))
            ends[is_residual] = norms[0].item(), factor**L
        return _(
            "L = {L}, s = {s:.2f}. Gradient at layer 0: plain {plain} (predicted {plain_law}), "
            "residual {residual} (predicted {residual_law})."
        ).format(
            L=L,
            s=s,
            plain=_power(ends[False][0]),
            plain_law=_power(ends[False][1]),
            residual=_power(ends[True][0]),
            residual_law=_power(ends[True][1]),
        )

    return Panel(
        title=_("The gradient that arrives at every layer"),
        try_this=_("Drag s down: the plain gradient dies first. Drag it up to 1: now the residual one explodes."),
        controls={
            "L": slider(_("depth L"), n_blocks, 1, MAX_DEPTH, whole=True),
            "s": slider(_("branch gain s"), gain, 0.05, 1.5, 0.05),
        },
        canvas=LiveCanvas(figure, [plain_law, residual_law, plain, residual]),
        update=update,
    )


TAPE = (1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 1.5, -0.5)


@house_style
def tape_panel(scale: float = 0.5, direction: int = 0) -> Panel:
    """Return a panel: x, F(x) and x + F(x) for eight numbers, with F(x) = −a·(x·u)u.

    u is one of eight orthonormal cosine patterns (the DCT-II basis): pattern 0 is constant, so that erasing it takes
    away the mean; higher patterns alternate faster. a = 1 erases x's component along u, other scales do not.
    """
    x = np.array(TAPE)
    size = len(x)
    positions = np.arange(size)
    patterns = np.cos(np.pi * (positions + 0.5) * np.arange(size)[:, None] / size)
    patterns /= np.linalg.norm(patterns, axis=1, keepdims=True)

    figure, axes = new_figure(8.6, 2.8, columns=3, sharey=True)
    axes[0].set_ylim(-4.6, 4.6)
    bars = []
    for ax, title, colour, hatch in zip(
        axes,
        ("x", "F(x) = −a (x·u) u", _("x + F(x), with x marked –")),
        (BLUE, VERMILION, GREEN),
        ("", "///", "..."),
        strict=True,
    ):
        bars.append(ax.bar(positions, np.zeros(size), color=colour, edgecolor="white", hatch=hatch))
        ax.axhline(0, color=BLACK, linewidth=0.8)
        ax.set_title(title)
        ax.set_xticks(positions)
        ax.set_xlabel(_("feature"))
    axes[0].set_ylabel(_("value"))
    (pattern_line,) = axes[1].plot([], [], color=BLACK, marker="o", markersize=3, linewidth=1, linestyle=":")
    (before_line,) = axes[2].plot(positions, x, color=BLUE, marker="_", markersize=14, linestyle="")

    def update(a: float, k: int) -> str:
        unit = patterns[k]
        branch = -a * (x @ unit) * unit
        for container, heights in zip(bars, (x, branch, x + branch), strict=True):
            for bar, height in zip(container, heights, strict=True):
                bar.set_height(height)
        pattern_line.set_data(positions, 3 * unit)
        return _(
            "a = {a:.2f}, pattern {k}. Along u: {before:.2f} before, {after:.2f} after; length of the vector: "
            "{length:.2f} before, {new_length:.2f} after."
        ).format(
            a=a,
            k=k,
            before=x @ unit,
            after=round((x + branch) @ unit, 9) + 0.0,  # rounding noise would print as −0.00
            length=np.linalg.norm(x),
            new_length=np.linalg.norm(x + branch),
        )

    return Panel(
        title=_("The tape: x, F(x) and their sum"),
        try_this=_("Set a to 1: the pattern u (dotted) is gone, for good. Set it to 2: turned over, but not lost."),
        controls={
            "a": slider(_("branch scale a"), scale, 0, 2, 0.05),
            "k": slider(_("direction u: cosine pattern k"), direction, 0, size - 1, whole=True),
        },
        canvas=LiveCanvas(figure, [*(bar for container in bars for bar in container), pattern_line, before_line]),
        update=update,
    )
