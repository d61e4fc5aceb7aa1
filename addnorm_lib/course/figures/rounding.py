"""What short floating-point numbers do to a variance."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from addnorm_lib.course.figures.numbers import short
from addnorm_lib.course.figures.style import GREY, SERIES, Picture, house_style, label, new_figure
from addnorm_lib.messages import _


@house_style
def variance_errors(means: Sequence[float], errors: Mapping[str, ArrayLike | Tensor]) -> Picture:
    """Draw the relative error of ways to compute a variance against the data's mean (their deviation is 1)."""
    figure, ax = new_figure(8, 3.0)
    told = []
    for (name, values), style in zip(errors.items(), SERIES, strict=False):
        measured = values.detach().numpy() if isinstance(values, Tensor) else values
        relative = np.maximum(np.asarray(measured, dtype=float), 1e-9)
        ax.plot(means, relative, **style)
        label(ax, means[-1], relative[-1], name, style["color"])
        worst = relative.max()
        told.append(
            _("{name} above {bound}").format(name=name, bound="100 %")
            if worst > 1
            else _("{name} below {bound}").format(name=name, bound="1 %" if worst < 0.01 else "100 %")
        )
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(means[0] / 1.3, 1.3 * means[-1])
    ax.annotate(_("100 %: as large as σ² itself"), (means[0], 1), xytext=(0, 3), textcoords="offset points", color=GREY)
    ax.set_xlabel(_("mean of the data (their deviation is 1)"))
    ax.set_ylabel(_("relative error of σ²"))
    text = _("Largest error of the variance in float32 for means up to {mean}: {told}.")
    return Picture(figure, text.format(mean=short(means[-1]), told="; ".join(told)))
