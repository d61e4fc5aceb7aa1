"""Every string that a reader sees, as a template for translators: `python -m tools.strings [PATH]`.

The library's `_("…")` and `N_("…")` are found in its source; titles, hints, and the names and questions of mistakes are
asked of the exercises, each with a comment that says what it is.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages import Catalog
from babel.messages.pofile import write_po

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "addnorm_lib"


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every `_("…")` and `N_("…")`; raises ValueError for one that is put together there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "N_"):
            (text,) = node.args
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield node.lineno, text.value
            elif isinstance(text, (ast.JoinedStr, ast.BinOp)):
                raise ValueError(f"line {node.lineno}: _(…) of a text that is put together cannot be looked up")


def of_exercises() -> Iterator[tuple[str, str]]:
    """Yield the texts of every exercise, each with what it is."""
    from addnorm_lib.course.exercises.registry import chapter, numbers

    for exercise in (exercise for number in numbers() for exercise in chapter(number)):
        yield exercise.title, f"exercise {exercise.id}, title"
        for known in exercise.misconceptions:
            yield known.name, f"exercise {exercise.id}, name of a mistake"
            yield known.message, f"exercise {exercise.id}, question about {known.name!r}"
        for hint in exercise.hints:
            yield hint, f"exercise {exercise.id}, hint"


def template() -> Catalog:
    """Return the template: each text once, with where it stands or what it is."""
    catalog = Catalog(project="addnorm_lib", charset="utf-8")
    for path in sorted(LIBRARY.rglob("*.py")):
        for line, text in literals(path.read_text("utf-8")):
            catalog.add(text, locations=[(path.relative_to(ROOT).as_posix(), line)])
    for text, what in of_exercises():
        catalog.add(text, auto_comments=[what])
    return catalog


def main() -> None:
    """Write the template to the path given, or else to standard output."""
    if len(sys.argv) > 1:
        with open(sys.argv[1], "wb") as file:
            write_po(file, template())
    else:
        write_po(sys.stdout.buffer, template())


if __name__ == "__main__":
    main()
