"""Layer norm, number by number: one token, with ε, γ and β live."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import EPS
from addnorm_lib.course.figures.numbers import short
from addnorm_lib.course.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, slider
from addnorm_lib.course.panels.vector import MAX_FEATURES, numbered, vector_controls, vector_links
from addnorm_lib.messages import _

Array = NDArray[np.float64]


def _near_one(value: float, rest: float) -> str:
    """Return a number that may be hard to tell from 1, given 1 − value as well."""
    return short(value) if rest >= 1e-3 else _("1 − {rest}").format(rest=short(rest, 1))


def _listed(values: Sequence[float], digits: int = 3) -> str:
    return f"[{', '.join(short(value, digits) for value in values)}]"


def _bars(heights: np.ndarray, width: float = 0.7) -> Path:
    """Return bars over 0, 1, … as one path: one hatched patch is drawn in a third of the time that four take."""
    left, zero = np.arange(len(heights)) - width / 2, np.zeros(len(heights))
    xs, ys = (left, left, left + width, left + width), (zero, heights, heights, zero)
    return Path.make_compound_path_from_polys(np.stack([np.stack(xs, -1), np.stack(ys, -1)], -1))


LOW, HIGH = 1e-9, 1e4  # deviations that the curve shows


class _LayerNormPicture:
    """Bars for x, x̂ and y, and below them x̂'s deviation σ/√(σ² + ε) against x's own."""

    def __init__(self) -> None:
        self.figure, axes = new_figure(8.6, 3.9)
        self.figure.delaxes(axes)
        grid = self.figure.add_gridspec(2, 3, height_ratios=(1.25, 1))
        self._draw_bars([self.figure.add_subplot(grid[0, column]) for column in range(3)])
        self._draw_curve(self.figure.add_subplot(grid[1, :]))
        of_the_curve = [self.curve, self.knee, self.knee_name, self.point, self.point_name]
        self.moving = [*of_the_curve, self.unit, self.before, *self.affine]
        for bars, texts in zip(self.bars, self.numbers, strict=True):
            self.moving += [bars, *texts]

    def _draw_bars(self, tops: Sequence[Axes]) -> None:
        self.tops, self.bars, self.numbers, places = tops, [], [], np.arange(MAX_FEATURES)
        styles = ((BLUE, "", 6.5), (ORANGE, "///", 2.4), (GREEN, "...", 7.5))
        for ax, (colour, hatch, limit) in zip(tops, styles, strict=True):
            style = {"facecolor": colour, "edgecolor": "white", "linewidth": 0, "hatch": hatch}
            self.bars.append(ax.add_patch(PathPatch(_bars(np.zeros(1)), **style)))
            self.numbers.append([ax.text(place, 0, "", ha="center", fontsize=10) for place in places])
            ax.axhline(0, color=BLACK, linewidth=0.8)
            ax.set_ylim(-limit, limit)
            ax.set_xlim(-0.6, MAX_FEATURES - 0.4)
            ax.set_xticks(places, [f"{i}" for i in places + 1])
            ax.set_xlabel(_("feature"))
            ax.grid(False, axis="x")
        left, middle, right = tops
        left.set_title(_("input x"))
        middle.set_title(_("x̂ = (x − μ)/√(σ² + ε)"))
        right.set_title(_("y = γ·x̂ + β  (x̂ marked –)"))
        self.unit = left.text(1, 1.04, "", transform=left.transAxes, ha="right", fontsize=10, color=GREY)
        self.affine = [
            right.text(place, -7.3, "", ha="center", va="bottom", fontsize=9, color=GREY) for place in places
        ]
        (self.before,) = right.plot([], [], color=BLACK, marker="_", markersize=26, linestyle="")

    def _draw_curve(self, ax: Axes) -> None:
        ax.set_xscale("log")
        ax.set_xlim(LOW, HIGH)
        ax.set_xticks([10.0**p for p in range(-8, 5, 2)])
        ax.set_ylim(-0.08, 1.4)
        ax.set_yticks([0, 0.5, 1])
        ax.set_xlabel(_("σ, the input's standard deviation"))
        ax.set_ylabel(_("deviation of x̂"))
        (self.curve,) = ax.plot([], [], color=BLACK, linewidth=1.4)
        (self.knee,) = ax.plot([], [], color=GREY, linewidth=1)
        self.knee_name = ax.text(0, 0.04, "", color=GREY)
        (self.point,) = ax.plot([], [], color=VERMILION, marker="o", markersize=10, linestyle="", clip_on=False)
        self.point_name = ax.text(0, 0, "", color=VERMILION, va="bottom")

    def move_bars(
        self, x: Sequence[float], scale: float, normal: Array, y: Array, weight: Sequence[float], bias: Sequence[float]
    ) -> None:
        """Show x in units of `scale`, x̂ and y, with γ and β below."""
        for texts in (*self.numbers, self.affine):
            for i, text in enumerate(texts):
                text.set_visible(i < len(x))
        heights = (np.array(x) / scale, normal, y)
        for bars, texts, values, shown, ax in zip(
            self.bars, self.numbers, heights, (x, normal, y), self.tops, strict=True
        ):
            gap = 0.03 * ax.get_ylim()[1]
            bars.set_path(_bars(values))
            for text, height, value in zip(texts, values, shown, strict=False):
                text.set_text(short(value))
                text.set_y(height + (gap if height >= 0 else -gap))
                text.set_va("bottom" if height >= 0 else "top")
        for text, g, b in zip(self.affine, weight, bias, strict=False):
            text.set_text(f"γ {short(g, 2)}\nβ {short(b, 2)}")
        self.before.set_data(np.arange(len(x)), normal)
        self.unit.set_text("" if scale == 1 else _("axis: x / {scale}").format(scale=short(scale)))

    def move_curve(self, eps: float, deviation: float, out: float, out_text: str) -> None:
        """Show the curve for ε, its knee at √ε, and the token on it."""
        deviations = np.geomspace(LOW, HIGH, 140)
        self.curve.set_data(deviations, deviations / np.sqrt(deviations**2 + eps))
        self.knee.set_data([math.sqrt(eps)] * 2, [-0.08, 1.08])
        self.knee_name.set_text(_(" √ε = {root}").format(root=short(math.sqrt(eps))))
        self.knee_name.set_x(math.sqrt(eps))
        at = min(max(deviation, LOW), HIGH)
        self.point.set_data([at], [out])
        self.point_name.set_text(_("  σ = {before} gives {after}  ").format(before=short(deviation), after=out_text))
        # Above the curve, on the side where it is empty.
        self.point_name.set_x(at)
        self.point_name.set_y(max(out + 0.06, 0.1))
        self.point_name.set_ha("left" if at < 1e-7 else "right")


@house_style
def layer_norm_panel() -> Panel:
    """Return a panel: layer norm of one token of one to four features, with ε, γ and β live.

    x̂ = (x − μ)/√(σ² + ε), y = γ·x̂ + β, in float64; below it, x̂'s deviation σ/√(σ² + ε) against x's own.
    """
    picture, controls = _LayerNormPicture(), {**vector_controls(), "eps": slider("ε", EPS, -12, 1, log=True)}
    x_names, gammas, betas = map(numbered, ("x", "gamma", "beta"))

    def update(x: tuple[float, ...], scale: float, eps: float, **others: Any) -> str:
        count = len(x)
        for i in range(MAX_FEATURES):
            for name in (x_names[i], gammas[i], betas[i]):
                controls[name].layout.display = None if i < count else "none"
        weight = [others[name] for name in gammas[:count]]
        bias = [others[name] for name in betas[:count]]
        # Layer norm does not see a common shift; without this one rounding would keep a constant x from giving β.
        shifted = np.array(x) - x[0]
        normal = reference.layer_norm(shifted, eps=eps)
        y = reference.layer_norm(shifted, weight, bias, eps)
        mean, var = float(np.mean(x)), float(shifted.var())
        out = float(normal.std())
        rest = eps / (var + eps)
        out_text = _near_one(out, -math.expm1(math.log1p(-rest) / 2) if rest < 1 else 1.0)
        picture.move_bars(x, scale, normal, y, weight, bias)
        picture.move_curve(eps, math.sqrt(var), out, out_text)
        return _(
            "x = {x}: μ = {mean}, σ² = {var}. With ε = {eps}, σ²/(σ² + ε) = {ratio}. "
            "Normalised {normal}, standard deviation {out}. With γ = {weight}, β = {bias}: y = {y}."
        ).format(
            x=_listed(x, 6),
            mean=short(mean),
            var=short(var),
            eps=short(eps, 2),
            ratio=_near_one(1 - rest, rest),
            normal=_listed(normal),
            out=out_text,
            weight=_listed(weight),
            bias=_listed(bias),
            y=_listed(y),
        )

    return Panel(
        title=_("Layer norm, number by number"),
        try_this=_(
            "Predict, then drag: does the scale of x change the normalised bars? How far down until they are half as "
            "tall? What brings them back: γ, or a smaller ε? Back at scale 1: which ε halves them? Type numbers of "
            "your own, one to four."
        ),
        controls=controls,
        canvas=LiveCanvas(picture.figure, picture.moving),
        update=update,
        rows=[("preset", "x"), ("scale", "eps"), x_names, gammas, betas],
        links=vector_links(),
    )
