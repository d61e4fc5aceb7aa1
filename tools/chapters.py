"""What the library says a chapter holds, asked for only when a chapter's notebook is at hand."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from tools.kernels import NotebookError


def number(path: Path) -> int | None:
    """Return the chapter that a notebook's name starts with, as in `01_residual.ipynb`; None for other names."""
    match = re.match(r"(\d\d)_", path.name)
    return int(match[1]) if match else None


def exercises(chapter: int | None) -> Sequence[Any]:
    """Return the chapter's exercises: objects with `id`, `claims`, `stub` and `solution_source`."""
    if chapter is None:
        return ()
    from addnorm_lib.course.exercises.registry import chapter as exercises_of

    return exercises_of(chapter)


def claims(chapter: int | None) -> tuple[str, ...]:
    """Return the ids of the claims that the chapter proves."""
    if chapter is None:
        return ()
    from addnorm_lib.course.assertions import chapter_claims

    try:
        return chapter_claims(chapter)
    except ValueError as error:
        raise NotebookError(f"chapter {chapter} has no folder that lists its claims ({error})") from None


def exercise_of(cell: nbformat.NotebookNode) -> str | None:
    """Return the id of the exercise whose stub stands in the cell."""
    return cell.metadata.get("addnorm", {}).get("exercise")


def printed(cells: Sequence[nbformat.NotebookNode]) -> str:
    """Return everything that the cells print to standard output or show as text."""
    texts = []
    for cell in cells:
        for output in cell.get("outputs", ()):
            texts.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)
