"""Panels of chapter 3: layer norm's numbers, who shares a statistic, batch-mates, leaks, and the sphere."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray
from torch import Tensor

from addnorm_lib import reference
from addnorm_lib.course.figures.numbers import fixed, short
from addnorm_lib.course.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SERIES,
    SKY,
    VERMILION,
    house_style,
    new_figure,
)
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.course.panels.vector import MAX_FEATURES, numbered, vector_controls, vector_links
from addnorm_lib.messages import N_, _
from addnorm_lib.probes import moved_by

Array = NDArray[np.float64]
EPS = 1e-5


def _near_one(value: float, rest: float) -> str:
    """Return a number that may be hard to tell from 1, given 1 − value as well."""
    return short(value) if rest >= 1e-3 else _("1 − {rest}").format(rest=short(rest, 1))


def _listed(values: Sequence[float], digits: int = 3) -> str:
    return f"[{', '.join(short(value, digits) for value in values)}]"


# Layer norm's numbers -------------------------------------------------------------------------------------------------


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


# Who shares a statistic -----------------------------------------------------------------------------------------------

BATCH, TOKENS, FEATURES = 2, 3, 4
Norm = Callable[[Tensor], Tensor]


def _channels_second(norm: Norm) -> Norm:
    """Return the norm of (B, T, D) that `norm`, made for (B, D, T), is."""
    return lambda x: norm(x.transpose(1, 2)).transpose(1, 2)


def _running(features: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(features, dtype=torch.float64), torch.ones(features, dtype=torch.float64)


NORMS: dict[str, tuple[str, Norm]] = {
    "layer": (N_("LayerNorm(D), the Transformer's"), lambda x: F.layer_norm(x, x.shape[-1:])),
    "rms": (N_("RMSNorm(D)"), lambda x: F.rms_norm(x, x.shape[-1:], eps=EPS)),
    "batch": (
        N_("BatchNorm1d(D), training"),
        _channels_second(lambda x: F.batch_norm(x, None, None, training=True)),
    ),
    "batch, eval": (
        N_("BatchNorm1d(D), evaluation"),
        _channels_second(lambda x: F.batch_norm(x, *_running(x.shape[1]))),
    ),
    "instance": (N_("InstanceNorm1d(D), over time"), _channels_second(F.instance_norm)),
    "group": (N_("GroupNorm(2, D), over time too"), _channels_second(lambda x: F.group_norm(x, 2))),
    "group of a token": (
        N_("GroupNorm(2, D), token by token"),
        lambda x: F.group_norm(x.flatten(0, 1), 2).unflatten(0, x.shape[:2]),
    ),
    "layer of a sequence": (N_("LayerNorm((T, D)), a trap"), lambda x: F.layer_norm(x, x.shape[1:])),
}


def _cells(ax: Any, rows: int, columns: int, empty: str = "") -> tuple[list[Rectangle], list[Any]]:
    """Draw rows × columns cells with `empty` in them; return their paint, row by row from the top, and texts on it."""
    ax.set_xlim(-0.5, columns - 0.5)
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_xticks(range(columns))
    ax.set_yticks(range(rows))
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    places = [(row, column) for row in range(rows) for column in range(columns)]
    boxes = [Rectangle((c - 0.48, r - 0.47), 0.96, 0.94) for r, c in places]
    for (row, column), box in zip(places, boxes, strict=True):
        ax.add_patch(
            Rectangle((column - 0.48, row - 0.47), 0.96, 0.94, facecolor="white", edgecolor=GREY, linewidth=0.8)
        )
        ax.add_patch(box)
        ax.text(column, row, empty, ha="center", va="center")
    return boxes, [ax.text(c, r, "", ha="center", va="center") for r, c in places]


def _paint(box: Rectangle, colour: str, *, hatched: bool = False, bold: bool = False) -> None:
    edge = BLACK if bold else "white" if hatched else GREY  # the hatch has the edge's colour
    box.set(facecolor=colour, hatch="//" if hatched else None, edgecolor=edge, linewidth=3 if bold else 0.8)
    box.set_visible(bold or colour != "white")  # an empty cell is in the background: that saves a quarter of a redraw


def _statistics(norm: str, group: Tensor) -> tuple[float, float, str]:
    """Return what a norm subtracts from x and adds ε to, for the x that share a statistic, and its name."""
    if norm == "batch, eval":
        return 0.0, 1.0, _("running mean and variance")
    if norm == "rms":
        return 0.0, group.square().mean().item(), _("mean square of the hatched x")
    return group.mean().item(), group.var(correction=0).item(), _("mean and variance of the hatched x")


def _extent(moved: Tensor) -> str:
    """Return in words where in (B, T, D) a boolean tensor is True."""
    touched = [where.unique().tolist() for where in moved.nonzero(as_tuple=True)]
    return ", ".join(
        _("all {axis}").format(axis=axis)
        if len(places) == size
        else _("{axis} = {values}").format(axis=axis, values="/".join(map(str, places)))
        for axis, size, places in zip("btd", moved.shape, touched, strict=True)
    )


@house_style
def axis_panel(seed: int = 0) -> Panel:
    """Return a panel: which numbers of a (B, T, D) = (2, 3, 4) block share a cell's statistic, for eight norms.

    The picture follows no rule: the chosen element is poked, PyTorch's norm runs again, and the outputs that change
    are hatched (`probes.moved_by`).
    """
    generator = torch.Generator().manual_seed(seed)
    x = (3 * torch.randn(BATCH, TOKENS, FEATURES, generator=generator, dtype=torch.float64)).round(decimals=1)

    figure, axes = new_figure(8.6, 2.9, columns=BATCH)
    boxes, inputs, outputs = [], [], []
    frames = [Rectangle((0, 0), 0.96, 0.94, facecolor="none", edgecolor=BLACK, linewidth=3) for _b in range(BATCH)]
    for b, ax in enumerate(axes):
        cells = _cells(ax, TOKENS, FEATURES)
        boxes += cells[0]
        for text in cells[1]:
            column, row = text.get_position()
            text.set(y=row - 0.2, fontsize=12)
            outputs.append(ax.text(column, row + 0.24, "", ha="center", va="center", fontsize=10))
        inputs += cells[1]
        ax.add_patch(frames[b])
        ax.set_title(_("sequence b = {b}: x, and y below it").format(b=b))
        ax.set_xlabel(_("feature d"))
        ax.set_ylabel(_("token t"))

    def update(norm: str, b: int, t: int, d: int) -> str:
        name, function = NORMS[norm]
        y = function(x)
        moved = moved_by(function, x, (b, t, d))
        for index, box, above, below in zip(np.ndindex(x.shape), boxes, inputs, outputs, strict=True):
            lit = bool(moved[index])
            _paint(box, SKY if lit else "white", hatched=lit)
            above.set_text(fixed(x[index].item(), 1))
            below.set_text(fixed(y[index].item()))
        for sequence, frame in enumerate(frames):
            frame.set_xy((d - 0.48, t - 0.47))
            frame.set_visible(sequence == b)
        mean, spread, what = _statistics(norm, x[moved])
        return _(
            "{norm}: poking x[{b}, {t}, {d}] moves {count} of {size} outputs: {extent}. "
            "There y = ({value} − {mean})/√({spread:.2f} + 1e−5) = {y}, with the {what}."
        ).format(
            norm=_(name),
            b=b,
            t=t,
            d=d,
            count=int(moved.sum()),
            size=moved.numel(),
            extent=_extent(moved),
            value=fixed(x[b, t, d].item(), 1),
            mean=fixed(mean) if round(mean, 2) >= 0 else f"({fixed(mean)})",
            spread=spread,
            y=fixed(y[b, t, d].item()),
            what=what,
        )

    return Panel(
        title=_("Who shares a statistic?"),
        try_this=_(
            "Predict which cells are hatched (they move) when the bold one is poked; then choose the norm. Which norm "
            "lets a token feel its batch-mates? Which lets it feel later tokens?"
        ),
        controls={
            "norm": choice(_("norm"), [(_(name), key) for key, (name, _norm) in NORMS.items()], "layer", menu=True),
            "b": slider("b", 0, 0, BATCH - 1, whole=True),
            "t": slider("t", 1, 0, TOKENS - 1, whole=True),
            "d": slider("d", 2, 0, FEATURES - 1, whole=True),
        },
        canvas=LiveCanvas(figure, [*boxes, *inputs, *outputs, *frames]),
        update=update,
        rows=[("b", "t", "d")],
    )


# Batch-mates ----------------------------------------------------------------------------------------------------------

DRAWS = 100
LARGEST_BATCH = 128


@house_style
def batch_noise_panel(seed: int = 0) -> Panel:
    """Return a panel: what batch norm and layer norm make of one fixed sample in 100 random batches of size B.

    On the left the deviation of the batch mean over those batches, and the law 1/√B.
    """
    generator = torch.Generator().manual_seed(seed)
    mates = torch.randn(LARGEST_BATCH, DRAWS, FEATURES, generator=generator, dtype=torch.float64)
    sample = torch.tensor([1.0, -0.5, 0.25, -1.0], dtype=torch.float64)
    sizes = 2 ** np.arange(0, LARGEST_BATCH.bit_length())

    def spread(size: int) -> float:
        return mates[:size].mean(dim=0).std(dim=0).square().mean().sqrt().item()

    figure, (law_ax, out_ax) = new_figure(8.6, 3.0, columns=2, width_ratios=(1, 1.5))
    law_ax.set_xscale("log", base=2)
    law_ax.set_yscale("log")
    law_ax.set_xlim(0.8, 1.3 * LARGEST_BATCH)
    law_ax.set_ylim(0.05, 2)
    law_ax.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
    law_ax.set_yticks([0.1, 0.3, 1], ["0.1", "0.3", "1"])
    law_ax.minorticks_off()
    law_ax.set_xlabel(_("batch size B"))
    law_ax.set_ylabel(_("deviation / σ"))
    law_ax.set_title(_("deviation of the batch mean"))
    law_ax.plot(sizes, sizes**-0.5, color=GREY, linestyle=":")
    law_ax.plot(sizes, [spread(int(size)) for size in sizes], color=BLUE, marker="o", linestyle="")
    law_ax.text(3.2, 0.75, "1/√B", color=GREY)
    (mark,) = law_ax.plot([], [], color=BLACK, marker="o", markersize=13, markerfacecolor="none", linestyle="")
    out_ax.set_xlim(-1, DRAWS)
    out_ax.set_ylim(-1.7, 3.2)
    out_ax.set_yticks(range(-1, 4))
    out_ax.set_ylabel(_("output y₁"))
    out_ax.set_xlabel(_("draw of the batch-mates"))
    out_ax.set_title(_("output of one fixed sample (feature 1)"))
    draws = np.arange(DRAWS)
    (batch,) = out_ax.plot([], [], **{**SERIES[1], "linestyle": ""}, label=_("batch norm"))
    (layer,) = out_ax.plot([], [], color=BLUE, label=_("layer norm"))
    refusal = out_ax.text(DRAWS / 2, -0.5, "", ha="center", color=VERMILION)
    out_ax.legend(loc="lower right", ncols=2, borderaxespad=0)

    def update(B: int, value: float, mode: str) -> str:
        token = sample.clone()
        token[0] = value
        together = mates[:B].clone()
        together[0] = token
        alone = F.layer_norm(together[0], (FEATURES,))[:, 0]
        layer.set_data(draws, alone)
        mark.set_data([B], [spread(B)])
        try:
            # One channel for each draw and feature: all the batches in one call.
            channels = together.flatten(1)
            outputs = F.batch_norm(channels, *_running(channels.shape[1]), training=mode == "train")[0]
        except ValueError as error:
            batch.set_data([], [])
            refusal.set_text(_("batch norm refuses B = 1"))
            said = _('batch norm refuses: "{error}"').format(error=str(error).split(",")[0])
        else:
            outputs = outputs.reshape(DRAWS, FEATURES)[:, 0]
            batch.set_data(draws, outputs)
            refusal.set_text("")
            low, high = outputs.min().item(), outputs.max().item()
            said = _("batch norm gives the sample's feature 1 anything from {low} to {high}, deviation {std}")
            if low == high:
                said = _("batch norm's running statistics (mean 0, variance 1) give {low}, the same each time")
            said = said.format(low=fixed(low), high=fixed(high), std=short(outputs.std().item(), 2))
        same = bool((alone == alone[0]).all())
        return _(
            "B = {B}, feature 1 of the sample is {value:.2f}. Deviation of the batch mean {mean:.2f} "
            "(1/√B = {law:.2f}). Over {draws} draws of batch-mates {said}; layer norm gives {layer}, {constant}."
        ).format(
            B=B,
            value=value,
            mean=spread(B),
            law=B**-0.5,
            draws=DRAWS,
            said=said,
            layer=fixed(alone[0].item()),
            constant=_("the same bits each time") if same else _("not the same each time"),
        )

    return Panel(
        title=_("One sample, a hundred batches"),
        try_this=_(
            "Predict: how many batch-mates does it take to halve the noise? Drag B. Go down to 2, then to 1. "
            "Is the noise gone in evaluation mode, and what is it that batch norm uses there?"
        ),
        controls={
            "B": slider(_("batch size B"), 8, 1, LARGEST_BATCH, whole=True),
            "value": slider(_("the sample's feature 1"), 1, 0, 2, 0.05),
            "mode": choice(_("batch norm in mode"), [(_("training"), "train"), (_("evaluation"), "eval")], "train"),
        },
        canvas=LiveCanvas(figure, [mark, batch, layer, refusal]),
        update=update,
    )


# Leaks ----------------------------------------------------------------------------------------------------------------

LENGTH = 6
LEAKING = ("batch", "batch, eval", "layer", "layer of a sequence")


@house_style
def leak_panel(seed: int = 0) -> Panel:
    """Return a panel: which tokens' outputs move when padding, or one later token, changes in a (2, 6, 4) batch.

    Either token j of sequence 0 changes, by a times a fixed random vector, or all from token j on are padding that
    changes from 0 to a times that vector. Each cell says by how much the token's output moves (the largest of its
    features).
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(BATCH, LENGTH, FEATURES, generator=generator, dtype=torch.float64)
    direction = torch.randn(FEATURES, generator=generator, dtype=torch.float64)

    figure, axes = new_figure(8.6, 3.2, rows=2, columns=2)
    boxes, texts = [], []
    for key, ax in zip(LEAKING, axes.flat, strict=True):
        cells = _cells(ax, BATCH, LENGTH, empty="0")
        boxes.append(cells[0])
        texts.append(cells[1])
        ax.set_title(_(NORMS[key][0]))
        ax.set_yticks(range(BATCH), [f"b = {b}" for b in range(BATCH)])
    for ax in axes[1]:
        ax.set_xlabel(_("token t"))
    figure.supxlabel(
        _("number: the largest |change| of that token's outputs; bold frame: its input changed; hatched: a leak"),
        fontsize=10,
    )

    def update(what: str, j: int, a: float) -> str:
        before, after = tokens.clone(), tokens.clone()
        changed = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        if what == "padding":
            changed[0, j:] = True
            before[changed] = 0
            after[changed] = a * direction
            watched = ~changed
        else:
            changed[0, j] = True
            after[0, j] += a * direction
            watched = torch.zeros_like(changed)
            watched[0, :j] = True
        verdicts = []
        for key, cells, words in zip(LEAKING, boxes, texts, strict=True):
            name, function = NORMS[key]
            moved = (function(after) - function(before)).abs().amax(dim=-1)
            for index, box, text in zip(np.ndindex(changed.shape), cells, words, strict=True):
                leak = bool(moved[index] > 0 and not changed[index])
                colour = ORANGE if leak else SKY if changed[index] else "white"
                _paint(box, colour, hatched=leak, bold=bool(changed[index]))
                text.set_text("0" if moved[index] == 0 else f"{moved[index].item():.2f}")
                text.set_visible(box.get_visible())
            most = moved[watched].max().item()
            most_text = f"{most:.2f}" if most else _("exactly 0")
            verdicts.append(_("{most} under {norm}").format(most=most_text, norm=_(name)))
        told = (
            _("The padding (tokens {j} to {last} of sequence 0) changes from 0 to size {a}: real tokens move by up to")
            if what == "padding"
            else _("Token {j} of sequence 0 changes by {a}: the tokens before it move by up to")
        )
        return f"{told.format(j=j, last=LENGTH - 1, a=fixed(a))} {'; '.join(verdicts)}."

    return Panel(
        title=_("What leaks: padding, and the future"),
        try_this=_(
            "Predict: under which norms do the tokens before j feel the change? Then choose padding: who feels what "
            "should not be there at all?"
        ),
        controls={
            "what": choice(_("what changes"), [(_("one token"), "token"), (_("padding"), "padding")], "token"),
            "j": slider(_("position j"), 4, 1, LENGTH - 1, whole=True),
            "a": slider(_("size a of the change"), 2, -5, 5, 0.25),
        },
        canvas=LiveCanvas(figure, [artist for group in (*boxes, *texts) for artist in group]),
        update=update,
        rows=[("j", "a")],
    )


# The sphere -----------------------------------------------------------------------------------------------------------

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
