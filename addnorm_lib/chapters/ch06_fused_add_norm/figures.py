"""Figures of chapter 6: what Add & Norm moves, what the machine can move, and what one program of the kernel does."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from addnorm_lib.course.figures.numbers import fixed
from addnorm_lib.course.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PREDICTION,
    SERIES,
    SKY,
    Picture,
    house_style,
    new_figure,
)
from addnorm_lib.course.figures.sweeps import doubling_axis
from addnorm_lib.messages import _
from addnorm_lib.microscope.interpreter import Steps
from addnorm_lib.microscope.roofline import Machine
from addnorm_lib.microscope.traffic import Access, How, large_tensors

READ: dict[str, Any] = {"facecolor": SKY, "edgecolor": BLACK, "linewidth": 0.8}
WRITE: dict[str, Any] = {"facecolor": ORANGE, "edgecolor": BLACK, "linewidth": 0.8, "hatch": "///"}


def how_name(how: How) -> str:
    """Return the reader's words for a way to compute Add & Norm."""
    return {"written out": _("written out"), "eager": _("two lines"), "fused": _("fused")}[how]


def _operator_blocks(ax: Axes, y: float, accesses: Sequence[Access], rows: int, features: int) -> int:
    """Draw one box for each large tensor that is read or written; return how many there are."""
    at = 0
    for access in accesses:
        start = at
        for count, style in zip(large_tensors([access], rows, features), (READ, WRITE), strict=True):
            for _box in range(count):
                ax.add_patch(Rectangle((at, y - 0.3), 1, 0.6, **style))
                at += 1
        if at > start:
            ax.plot([start, start], [y - 0.42, y + 0.42], color=BLACK, linewidth=2.2)
    return at


@house_style
def traffic_boxes(
    forward: Mapping[How, Sequence[Access]], backward: Mapping[How, Sequence[Access]], rows: int, features: int
) -> Picture:
    """Draw every tensor of rows × features that each way reads (plain) or writes (hatched), forward and backward."""
    figure, axes = new_figure(8.6, 2.7, columns=2, sharey=False, width_ratios=(15, 7))
    counts = {}
    for ax, part, title in zip(axes, (forward, backward), (_("forward"), _("backward, Pre-LN")), strict=True):
        for y, (how, accesses) in enumerate(part.items()):
            count = counts[title, how] = _operator_blocks(ax, -y, accesses, rows, features)
            ax.text(count + 0.2, -y, str(count), va="center", fontweight="bold")
        ax.set_yticks([-y for y in range(len(part))], [how_name(how) for how in part])
        ax.set_ylim(-len(part) + 0.45, 0.6)
        ax.set_xlim(-0.2, max(count for (t, _how), count in counts.items() if t == title) + 1.2)
        ax.set_xlabel(_("tensors read or written"))
        ax.set_title(title)
        ax.grid(False)
    handles = [Rectangle((0, 0), 1, 1, **READ), Rectangle((0, 0), 1, 1, **WRITE)]
    axes[0].legend(handles, [_("read"), _("written")], loc="lower right", fontsize=9)
    lines = "; ".join(
        _("{title}, {how}: {count}").format(title=title, how=how_name(how), count=count)
        for (title, how), count in counts.items()
    )
    text = _("Tensors of rows × features elements that are read or written; a bar opens each operator. {lines}.")
    return Picture(figure, text.format(lines=lines))


@house_style
def roofline(machine: Machine, intensities: Mapping[str, float]) -> Picture:
    """Draw the roofline of a measured machine, and where computations of these operations a byte lie under it."""
    figure, ax = new_figure(8, 3.4)
    x = np.logspace(-1.3, 3, 200)
    giga = 1e9
    ax.plot(x, [machine.attainable(i) / giga for i in x], color=BLACK, linewidth=2.2)
    low = machine.attainable(x[0]) / giga
    right = max((i for i in intensities.values() if i <= machine.ridge), default=0)
    for (name, intensity), style in zip(intensities.items(), SERIES, strict=False):
        height = machine.attainable(intensity) / giga
        ax.plot([intensity], [height], color=style["color"], marker=style["marker"], markersize=9, linestyle="")
        at_roof = intensity > machine.ridge
        ax.annotate(
            f"{name}: {intensity:.2g}" if intensity < 10 else f"{name}: {intensity:.0f}",
            (intensity, height),
            xytext=(0, 9) if at_roof else (9, -9) if intensity == right else (-9, 5),
            textcoords="offset points",
            ha="center" if at_roof else "left" if intensity == right else "right",
            color=style["color"],
            fontsize=9,
        )
    ax.axvline(machine.ridge, color=GREY, linewidth=0.8, linestyle="--")
    ax.annotate(_("ridge"), (machine.ridge, low), xytext=(5, 0), textcoords="offset points", color=GREY)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(0.015, 1200)
    ax.set_ylim(low / 2, 4 * machine.arithmetic / giga)
    ax.set_xlabel(_("arithmetic intensity (operations a byte)"))
    ax.set_ylabel(_("10⁹ operations a second"))
    sides = {True: [], False: []}
    for name, intensity in intensities.items():
        sides[intensity < machine.ridge].append(name)
    text = _(
        "The roofline of this machine. Left of the ridge, under the slope that the copy sets: {left}. Right: {right}."
    )
    return Picture(figure, text.format(left=", ".join(sides[True]) or _("none"), right=", ".join(sides[False]) or "–"))


def _cells(
    ax: Axes,
    values: ArrayLike,
    mask: ArrayLike,
    corner: tuple[float, float],
    *,
    width: float,
    digits: int,
    colour: str,
) -> None:
    """Draw a matrix from its upper left `corner`, one box of `width` a number; what `mask` leaves out is hatched."""
    for (row, column), value in np.ndenumerate(np.asarray(values)):
        left, bottom = corner[0] + width * column, corner[1] - row - 1
        inside = bool(np.asarray(mask)[row, column])
        box = {"facecolor": colour, "hatch": ""} if inside else {"facecolor": "#EEEEEE", "hatch": "////"}
        ax.add_patch(Rectangle((left, bottom), width, 1, edgecolor=GREY, linewidth=0.7, **box))
        if inside:
            ax.text(left + width / 2, bottom + 0.5, fixed(value, digits), ha="center", va="center", fontsize=8)


@house_style
def tile_steps(steps: Steps) -> Picture:
    """Draw what each program of a small launch held: s, the rows' mean and rstd, xhat, y; masked lanes hatched."""
    rows, lanes = steps.programs[0].mask.shape
    apart = rows + 0.6
    figure, ax = new_figure(10, 0.45 + 0.42 * len(steps.programs) * apart)
    words = []
    for number, program in enumerate(steps.programs):
        real = program.mask.any(axis=1)[:, None]
        blocks = (
            ("s = x + r", program.s, program.mask, 1, 1, "#CDE6F7", 1),
            (_("mean"), program.mean[:, None], real, 1.6, 2, "#FFFFFF", 0.3),
            ("rstd", program.rstd[:, None], real, 1.6, 2, "#FFFFFF", 1),
            ("x̂", program.xhat, program.mask, 1, 1, "#CFE8D8", 1),
            ("y", program.y, program.mask, 1, 1, "#F6D9B8", 0),
        )
        left, top = 0.0, -number * apart
        for name, values, mask, width, digits, colour, gap in blocks:
            _cells(ax, values, mask, (left, top), width=width, digits=digits, colour=colour)
            whole = width * values.shape[1]
            if number == 0:
                ax.text(left + whole / 2, 0.25, name, ha="center", fontsize=10)
            left += whole + gap
        ax.text(-0.4, top - rows / 2, _("program {pid}").format(pid=program.pid), ha="right", va="center")
        means = ", ".join(fixed(mean) for mean in program.mean[real[:, 0]])
        words.append(
            _("program {pid}: {masked} of {all} lanes masked, means {means}").format(
                pid=program.pid, masked=int((~program.mask).sum()), all=rows * lanes, means=means
            )
        )
    ax.set_xlim(-3.6, left + 0.1)
    ax.set_ylim(0.5 - len(steps.programs) * apart, 0.8)
    ax.axis("off")
    text = _("What each program held; hatched lanes are masked. {words}.")
    return Picture(figure, text.format(words="; ".join(words)))


@house_style
def call_times(rows: Sequence[int], times: Sequence[float], features: int) -> Picture:
    """Draw the time of one call against its number of rows, with the line of a time proportional to the bytes."""
    figure, ax = new_figure(8, 3.1)
    micro = 1e6 * np.asarray(times)
    ax.plot(rows, micro, **SERIES[0])
    ax.plot(rows, micro[-1] * np.asarray(rows) / rows[-1], **PREDICTION)
    ax.annotate(_("in proportion to the bytes"), (rows[-4], micro[-1] * rows[-4] / rows[-1]), xytext=(12, -14),
                textcoords="offset points", fontsize=9)  # fmt: skip
    ax.annotate(_("the call itself"), (rows[0], micro[0]), xytext=(4, 8), textcoords="offset points", color=BLUE)
    ax.set_yscale("log")
    doubling_axis(ax, rows, _("rows of {features} float32 numbers").format(features=features))
    ax.set_ylabel(_("µs a call"))
    flat = micro[-1] / micro[0] < rows[-1] / rows[0] / 8
    text = _("Time of one call of add_norm against its rows: {verdict}.")
    verdict = (
        _("level for few rows, growing with the bytes for many") if flat else _("growing with the rows throughout")
    )
    return Picture(figure, text.format(verdict=verdict))
