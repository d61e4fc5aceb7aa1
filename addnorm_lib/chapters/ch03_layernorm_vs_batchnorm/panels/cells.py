"""A grid of cells, each with its paint and a number on it."""

from typing import Any

from matplotlib.patches import Rectangle

from addnorm_lib.course.figures.style import BLACK, GREY


def cells(ax: Any, rows: int, columns: int, empty: str = "") -> tuple[list[Rectangle], list[Any]]:
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


def paint(box: Rectangle, colour: str, *, hatched: bool = False, bold: bool = False) -> None:
    """Give a cell its colour, and where told so a hatch or a bold frame."""
    edge = BLACK if bold else "white" if hatched else GREY  # the hatch has the edge's colour
    box.set(facecolor=colour, hatch="//" if hatched else None, edgecolor=edge, linewidth=3 if bold else 0.8)
    box.set_visible(bold or colour != "white")  # an empty cell is in the background: that saves a quarter of a redraw
