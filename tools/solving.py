"""The solved notebook: every exercise's reference solution in place of its stub, run, every check a ✓."""

import ast
import re
import symtable
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from tools import chapters
from tools.kernels import NotebookError, execute
from tools.refresh import read, tidy, write


def inject(notebook: nbformat.NotebookNode, exercises: Sequence[Any]) -> None:
    """Put each exercise's solution in place of its stub; raises `NotebookError` where a stub cell is missing."""
    cells = {chapters.exercise_of(cell): cell for cell in notebook.cells}
    for exercise in exercises:
        if exercise.id not in cells:
            raise NotebookError(f"exercise {exercise.id} has no stub cell")
        cells[exercise.id].source = exercise.solution_source.rstrip("\n")


def sliced(
    notebook: nbformat.NotebookNode, wanted: Callable[[nbformat.NotebookNode], bool], forwards: bool = False
) -> list[nbformat.NotebookNode]:
    """Return the code cells that are `wanted` and those that they need, in order; the others can be left out of a run.

    Back, every cell that binds, or assigns into, a name that is read there. With `forwards`, before that, every cell
    that reads a name bound in a wanted cell or in a cell so reached. What a cell changes without naming it is not seen
    (a global seed, say); cells that only import are kept for that, and the first, which sets up.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    names = [_names(cell.source) for cell in code]
    chosen: set[int] = set()
    changed: set[str] = set()
    for i, (bound, read_here) in enumerate(names):
        if wanted(code[i]) or (forwards and read_here & changed):
            chosen.add(i)
            changed |= bound
    needed: set[str] = set()
    for i, (bound, read_here) in reversed(list(enumerate(names))):
        if i == 0 or i in chosen or bound & needed or _only_imports(code[i].source):
            chosen.add(i)
            needed |= read_here
    return [code[i] for i in sorted(chosen)]


def affected(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the code cells that a solution can change, and those that they need; the others ran in the strict test."""
    return sliced(
        notebook, lambda cell: bool(chapters.exercise_of(cell) or re.search(r"\bcheck\(", cell.source)), forwards=True
    )


def _only_imports(source: str) -> bool:
    return all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in ast.parse(source).body)


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the global names that a cell binds or assigns into, and those that it reads, in functions too."""
    top = symtable.symtable(source, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used, tables = set(), [top]
    while tables:
        table = tables.pop()
        used |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
        tables += table.get_children()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return bound, used


def solve(
    path: Path, out: Path | None = None, only_affected: bool = False, changes: Mapping[str, str] | None = None
) -> list[str]:
    """Solve and run the notebook, write it to `out`; return the ✓ lines, or raise `NotebookError` for a check without.

    With `only_affected`, cells that no solution can change or need are not run. `changes` to the environment variables
    are made before the kernel starts.
    """
    notebook = read(path)
    exercises = chapters.exercises(chapters.number(path))
    inject(notebook, exercises)
    if only_affected:
        notebook.cells = affected(notebook)
    execute(notebook, path.parent, changes)
    tidy(notebook)
    if out is not None:
        write(notebook, out)
    lines = chapters.printed(notebook.cells).splitlines()
    passed = []
    for exercise in exercises:
        verdicts = [line for line in lines if re.match(rf"[✓✗○] {re.escape(exercise.id)}\b", line)]
        if not verdicts or any(not line.startswith("✓") for line in verdicts):
            raise NotebookError(f"the solution of {exercise.id} does not pass: {verdicts or 'it is never checked'}")
        passed += verdicts
    return passed
