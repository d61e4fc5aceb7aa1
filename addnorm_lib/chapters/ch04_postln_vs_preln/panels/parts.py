"""What the chapter's panels share: axes that widen, headings that change, and the placements' names."""

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from addnorm_lib.course.figures.numbers import fixed, typeset
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import choice
from addnorm_lib.messages import _


def number(value: float) -> str:
    """Return a number of any size in few characters."""
    if 0.01 <= value < 1000:
        return fixed(value, 2 if value < 10 else 0)
    return typeset(f"{value:.0e}")


def freeze_layout(figure: Figure) -> None:
    """Lay the axes out for the widest numbers that `_fit` may bring, once: the layout is most of a full redraw."""
    for ax in figure.axes:
        ax.set_ylim(1e-32, 1e-16)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def fit(ax: Axes, canvas: LiveCanvas, low: float, high: float, values: NDArray[np.float64]) -> None:
    """Widen a logarithmic axis until it holds the values; from a few widths only, as a change costs a full redraw."""
    while values.min() < low:
        low *= low
    while values.max() > high:
        high *= high
    if (low, high) != ax.get_ylim():
        ax.set_ylim(low, high)
        canvas.forget_background()


def heading(ax: Axes) -> Text:
    """Return a text above the axes that may change: the layout sees the empty title in its place."""
    ax.set_title(" ")
    return ax.text(0, 1.03, "", transform=ax.transAxes, weight="bold")


def name_of(placement: str) -> str:
    """Return the reader's word for a placement."""
    names = {"post": _("post"), "pre": _("pre"), "sandwich": _("sandwich"), "branch": _("branch")}
    return names.get(placement, "DeepNorm")


def placements(*names: str, value: str) -> widgets.ValueWidget:
    """Return buttons to choose a placement with."""
    return choice(_("placement"), [(name_of(name), name) for name in names], value)
