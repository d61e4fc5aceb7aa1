"""The sphere: tokens of three features on their way through layer norm or RMSNorm."""

import math

import numpy as np
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import EPS
from addnorm_lib.course.figures.numbers import fixed, short
from addnorm_lib.course.figures.style import BLACK, BLUE, GREY, SERIES, SKY, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.messages import N_, _

Array = NDArray[np.float64]
RADIUS = math.sqrt(3)
ONES = np.ones(3) / RADIUS
PLANE = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])  # an orthonormal basis of the plane x·(1, 1, 1) = 0
FAMILIES = (
    (N_("c·a: token a, scaled"), np.array([1.2, -0.3, 0.1]) * np.linspace(0.4, 2.2, 6)[:, None]),
    (N_("b + c: token b, c added to every feature"), np.array([-0.6, 0.9, -0.2]) + np.linspace(-1.3, 1.6, 6)[:, None]),
)


def _on_the_way(x: Array, stage: float, norm: str, eps: float) -> Array:
    """Return tokens (N, 3) at a stage from 0, the input, to 2, the norm's output; at 1 layer norm has centred them."""
    if norm == "rms":
        return x + stage / 2 * (reference.rms_norm(x, eps=eps) - x)
    centred = x - x.mean(axis=1, keepdims=True)
    if stage <= 1:
        return x + stage * (centred - x)
    return centred + (stage - 1) * (reference.layer_norm(x, eps=eps) - centred)


def _seen_from(turn: float) -> Array:
    """Return the projection (3, 2) onto the page for an eye `turn` degrees round the third axis, 22° above."""
    a, tilt = math.radians(turn), math.radians(22)
    right = np.array([-math.sin(a), math.cos(a), 0])
    up = np.array([-math.sin(tilt) * math.cos(a), -math.sin(tilt) * math.sin(a), math.cos(tilt)])
    return np.stack([right, up], axis=1)


@house_style
def sphere_panel(seed: int = 0) -> Panel:
    """Return a panel: tokens of three features on their way through layer norm, in space and within its plane.

    Layer norm projects onto the plane x₁ + x₂ + x₃ = 0 and then moves every point to the circle of radius √3 in it:
    the length of x̂ is √(D·σ²/(σ² + ε)). RMSNorm moves to the sphere of radius √3, without the projection.
    """
    cloud = np.random.default_rng(seed).normal(size=(14, 3)) * 1.2
    groups = [*FAMILIES, (N_("other tokens"), cloud)]
    figure, (space, plane) = new_figure(8.6, 4.5, columns=2)
    for ax in (space, plane):
        ax.set_xlim(-3.4, 3.4)
        ax.set_ylim(-3.0, 3.0)
        ax.set_aspect("equal")
    space.set_axis_off()
    space.set_title(_("in space, with the plane and the circle"))
    plane.set_title(_("the plane, seen along (1, 1, 1)"))
    plane.set_xlabel(_("(x₁ − x₂)/√2"))
    plane.set_ylabel(_("(x₁ + x₂ − 2x₃)/√6"))
    angles = np.linspace(0, 2 * np.pi, 73)
    circle = RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    plane.plot(*circle.T, color=BLACK, linewidth=1)
    plane.annotate("√3", RADIUS * np.array([0.72, 0.72]), color=BLACK, fontsize=11)
    space.plot(*circle.T, color=GREY, linewidth=0.8, linestyle=":")  # the sphere's outline is a circle from anywhere
    square = Polygon(np.zeros((4, 2)), closed=True, facecolor=SKY, alpha=0.25, edgecolor=BLUE)
    space.add_patch(square)
    (ring,) = space.plot([], [], color=BLACK, linewidth=1)
    (axle,) = space.plot([], [], color=GREY, linestyle="--", linewidth=1)
    axle_name = space.text(0, 0, "(1, 1, 1)", color=GREY, fontsize=9, ha="center")
    rods = [space.plot([], [], color=GREY, linewidth=0.8)[0] for _axis in range(3)]
    rod_names = [space.text(0, 0, f"x{'₁₂₃'[i]}", color=GREY, ha="center", va="center") for i in range(3)]
    dots = []
    for ax in (space, plane):
        dots.append(
            [
                ax.plot([], [], **{**style, "linestyle": ""}, markersize=6, label=_(name))[0]
                for (name, _points), style in zip(groups, SERIES, strict=False)
            ]
        )
    corner = plane.text(0.02, 0.98, "", transform=plane.transAxes, va="top")
    figure.legend(handles=dots[1], loc="outside lower center", ncols=3, handletextpad=0.1)
    piles = [plane.text(0, 0, "", va="center", color=line.get_color()) for line in dots[1][: len(FAMILIES)]]

    def update(norm: str, stage: float, turn: int, eps: float) -> str:
        view = _seen_from(turn)
        square.set_xy(2.3 * np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) @ PLANE @ view)
        ring.set_data(*(circle @ PLANE @ view).T)
        for artist in (square, ring):  # RMSNorm knows no plane
            artist.set_visible(norm == "layer")
        axle.set_data(*(np.array([-2.8, 3.2])[:, None] * ONES @ view).T)
        axle_name.set_position(3.2 * ONES @ view + [0, 0.15])
        for i, (rod, name) in enumerate(zip(rods, rod_names, strict=True)):
            end = np.eye(3)[i]
            rod.set_data(*(np.array([0, 2.5])[:, None] * end @ view).T)
            name.set_position((2.5 + 0.25 / max(0.2, np.linalg.norm(end @ view))) * end @ view)
        corner.set_text(_("step {stage:.2f}, ε = {eps}").format(stage=stage, eps=short(eps, 2)))
        points = [_on_the_way(x, stage, norm, eps) for _name, x in groups]
        for lines, seen in zip(dots, (view, PLANE.T), strict=True):
            for line, x in zip(lines, points, strict=True):
                line.set_data(*(x @ seen).T)
        everything = np.concatenate(points)
        lengths = np.linalg.norm(everything, axis=1)
        gaps, places = [], []
        for x, pile in zip(points, piles, strict=False):
            gaps.append(max(np.linalg.norm(p - q) for p in x for q in x))
            together = gaps[-1] < 0.005
            places.append(_(" (all {count} at one place)").format(count=len(x)) if together else "")
            across = x[0] @ PLANE.T
            pile.set(
                text=_("{count} in one").format(count=len(x)) if together else "",
                position=across - [0.2 * np.sign(across[0]), 0],
                ha="right" if across[0] > 0 else "left",
            )
        return _(
            "{norm}, step {stage:.2f} of 2, ε = {eps}, seen from {turn}°. Farthest from the plane: {off:.2f}. Lengths "
            "{low:.2f} to {high:.2f} (√3 = 1.73). Largest gap among the scaled points {scaled:.2f}{scaled_place}, "
            "among the shifted {shifted:.2f}{shifted_place}."
        ).format(
            norm=_("Layer norm") if norm == "layer" else _("RMSNorm"),
            stage=stage,
            eps=short(eps, 2),
            turn=fixed(turn, 0),
            off=np.abs(everything @ ONES).max(),
            low=lengths.min(),
            high=lengths.max(),
            scaled=gaps[0],
            scaled_place=places[0],
            shifted=gaps[1],
            shifted_place=places[1],
        )

    return Panel(
        title=_("The sphere"),
        try_this=_(
            "Step 2, the output, is shown: six tokens c·a (scaled) lie at one place, six tokens b + c (shifted) at "
            "another. Predict where they came from; then drag the step back to 1 (centred) and 0 (input), and turn. "
            "At step 2 again, choose RMSNorm: which family stays spread out? Then raise ε."
        ),
        controls={
            "norm": choice(_("norm"), [(_("layer norm"), "layer"), (_("RMSNorm"), "rms")], "layer"),
            "stage": slider(_("step"), 2, 0, 2, 0.05),
            "turn": slider(_("turn (°)"), -15, -180, 175, 5, whole=True),
            "eps": slider("ε", EPS, -5, 1, log=True),
        },
        canvas=LiveCanvas(
            figure, [square, ring, axle, axle_name, *rods, *rod_names, *dots[0], *dots[1], *piles, corner]
        ),
        update=update,
        rows=[("stage", "turn", "eps")],
    )
