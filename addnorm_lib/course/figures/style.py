"""The look of every figure, and `Picture`: a drawn figure together with its description in words.

Colours are Okabe & Ito's colour-blind-safe set; every series also has its own marker and line style, so that nothing
depends on colour. Figures are built on `matplotlib.figure.Figure`, without pyplot: no global state, nothing left open.
"""

import base64
import io
from dataclasses import dataclass
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

DPI = 100
SHARPNESS = 2  # pixels drawn per CSS pixel: sharp on a laptop's high-density screen

BLACK, ORANGE, SKY, GREEN, YELLOW = "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#6E6E6E"

PLAIN: dict[str, Any] = {"color": VERMILION, "marker": "s", "linestyle": "--"}
RESIDUAL: dict[str, Any] = {"color": BLUE, "marker": "o", "linestyle": "-"}
PREDICTION: dict[str, Any] = {"color": BLACK, "marker": "", "linestyle": ":", "linewidth": 1.4}
SERIES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": VERMILION, "marker": "s", "linestyle": "--"},
    {"color": GREEN, "marker": "^", "linestyle": "-."},
    {"color": PURPLE, "marker": "D", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    {"color": ORANGE, "marker": "v", "linestyle": (0, (3, 1))},
    {"color": SKY, "marker": "P", "linestyle": (0, (1, 1))},
)

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=[s["color"] for s in SERIES]),
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


house_style = rc_context(RC)  # a decorator: titles and legends read their defaults when they are made


def new_figure(
    width: float = 8.0, height: float = 3.2, *, columns: int = 1, rows: int = 1, **subplots: Any
) -> tuple[Figure, Any]:
    """Return a figure of `width` × `height` inches, and its axes (one, or an array of them).

    Call it in a function decorated with `@house_style`.
    """
    figure = Figure(figsize=(width, height), dpi=DPI * SHARPNESS, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **subplots)


def label(axes: Axes, x: float, y: float, text: str, colour: str, **kwargs: Any) -> None:
    """Write a series' name beside it, in its colour (a direct label instead of a legend)."""
    axes.annotate(text, (x, y), xytext=(6, 0), textcoords="offset points", color=colour, va="center", **kwargs)


def _shrunk(image: Image.Image) -> bytes:
    out = io.BytesIO()
    palette = image.convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette.save(out, "PNG", optimize=True)
    return out.getvalue()


def shrink(data: bytes) -> bytes:
    """Return a PNG with a palette of 256 colours: a third of the bytes without a visible loss, for what is stored."""
    return _shrunk(Image.open(io.BytesIO(data)))


def png(figure: Figure) -> bytes:
    """Return the figure as a small PNG."""
    with rc_context(RC):
        figure.canvas.draw()
    size = figure.canvas.get_width_height()
    return _shrunk(Image.frombuffer("RGBA", size, figure.canvas.buffer_rgba(), "raw", "RGBA", 0, 1))


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows, in words that were computed from its data.

    In a notebook the picture appears sharp at its size in inches, with the description below it as text: for readers
    who cannot see the picture, and for the test that compares notebooks (pixels are never compared, words are).
    """

    figure: Figure
    description: str

    def __repr__(self) -> str:
        return self.description

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data = base64.b64encode(png(self.figure)).decode()
        width, height = (int(inches * DPI) for inches in self.figure.get_size_inches())
        metadata = {"image/png": {"width": width, "height": height, "alt": self.description}}
        display({"image/png": data, "text/plain": self.description}, metadata=metadata, raw=True)
        display({"text/markdown": f"*{self.description}*", "text/plain": self.description}, raw=True)
