"""Who shares a statistic: one number of a (B, T, D) block is poked, and what moves is hatched."""

import numpy as np
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.cells import cells, paint
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import BATCH, FEATURES, NORMS, TOKENS
from addnorm_lib.course.figures.numbers import fixed
from addnorm_lib.course.figures.style import BLACK, SKY, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.messages import _
from addnorm_lib.probes import moved_by


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
        grid = cells(ax, TOKENS, FEATURES)
        boxes += grid[0]
        for text in grid[1]:
            column, row = text.get_position()
            text.set(y=row - 0.2, fontsize=12)
            outputs.append(ax.text(column, row + 0.24, "", ha="center", va="center", fontsize=10))
        inputs += grid[1]
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
            paint(box, SKY if lit else "white", hatched=lit)
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
