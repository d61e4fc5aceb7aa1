"""What an exercise is: a solution, what an answer is tried on, and the wrong answers that it knows by name."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from addnorm_lib.course.exercises import edits
from addnorm_lib.course.exercises.source import source_of


class NotObservable(TypeError):
    """Raised by an exercise's `observe` on a result of the wrong kind; its text is what the learner reads."""


@dataclass(frozen=True)
class Misconception:
    """A wrong answer with a name, and the question that it must be answered with; `edit` says how it is made."""

    name: str
    wrong: Callable[..., Any] | dict[str, Any]
    message: str
    edit: str = ""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise: `solve` is the right answer, compared with the learner's within the tolerances."""

    id: str
    title: str
    claims: tuple[str, ...]
    solve: Any
    misconceptions: tuple[Misconception, ...]
    hints: tuple[str, ...]
    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(Exercise):
    """An exercise in which the learner writes a function, of the name and the signature of `solve`.

    `cases` are the argument tuples on which an answer is compared with it, smallest first. `starter`, in a find-the-bug
    exercise, is the broken function that the learner is given. `observe(result, *arguments)` says what is compared of a
    result that has no equality of its own, such as a module. An answer has `seconds` for a case.
    """

    solve: Callable[..., Any]
    cases: Callable[[], list[tuple[Any, ...]]]
    starter: Callable[..., Any] | None = None
    observe: Callable[..., Any] | None = None
    seconds: float = 5.0

    @property
    def name(self) -> str:
        """The name that the learner's answer has in the notebook."""
        return self.solve.__name__

    @cached_property
    def solution_source(self) -> str:
        """The solution's source, as it replaces the stub cell."""
        return source_of(self.solve)

    @cached_property
    def stub(self) -> str:
        """The stub cell's source: the starter, or the solution's signature and docstring with nothing done yet."""
        if self.starter is not None:
            return source_of(self.starter).replace(self.starter.__name__, self.name)
        docstring = ast.parse(self.solution_source).body[0].body[0]
        lines = self.solution_source.splitlines()
        return "\n".join([*lines[: docstring.end_lineno], "    raise NotImplementedError"])


@dataclass(frozen=True, kw_only=True)
class ValueExercise(Exercise):
    """An exercise in which the learner fills in a table, the dict `solve`, that is called `name` in the notebook.

    An entry may be an object with `complaint(given)`, which says why something is no such entry at all.
    """

    solve: dict[str, Any]
    name: str
    stub: str
    solution_source: str


def _heading(about: str) -> tuple[str, str]:
    """Return the id and the title of an exercise from its file's first line, "3.2: RMSNorm, from the formula."."""
    match = re.match(r"(\d+\.\d+): (.*?)\.?$", about.splitlines()[0] if about else "")
    if match is None:
        raise ValueError(f'about: the file\'s docstring wanted, which begins "3.2: title.", got {about!r}')
    return match[1], match[2]


def exercise(
    about: str,
    solve: Callable[..., Any],
    cases: Callable[[], list[tuple[Any, ...]]],
    mistakes: str,
    hints: str,
    *,
    claims: str,
    starter: str | None = None,
    **options: Any,
) -> FunctionExercise:
    """Make an exercise of a function and of the texts beside it: its `mistakes` and `starter` as edits, its `hints`.

    `about` is the docstring of the exercise's file, which begins with its id and title; `options` are the fields of
    `FunctionExercise`. Raises ValueError where a mistake is no edit of the solution.
    """
    id, title = _heading(about)

    def made(edit: str, name: str) -> Callable[..., Any]:
        try:
            return edits.edited(solve, edit, f"<exercise {id}, {name}>")
        except ValueError as error:
            raise ValueError(f"{id}, {name}: {error}") from error

    return FunctionExercise(
        id=id,
        title=title,
        claims=tuple(claims.split()),
        solve=solve,
        cases=cases,
        misconceptions=tuple(
            Misconception(told.name, made(told.edit, told.name), told.question, told.edit)
            for told in edits.read(mistakes)
        ),
        hints=edits.paragraphs(hints),
        starter=None if starter is None else made(starter, "starter"),
        **options,
    )


def table(
    about: str,
    name: str,
    solve: dict[str, Any],
    mistakes: str,
    hints: str,
    *,
    claims: str,
    task: str,
    keys_given: bool = True,
    read_value: Callable[[Any, Any], Any] = lambda value, right: value,
    **options: Any,
) -> ValueExercise:
    """Make an exercise of a table to fill in: its `mistakes` change entries, `task` stands above its stub, as comments.

    `about` is the docstring of the exercise's file, which begins with its id and title. The stub holds the table's
    keys, unless not `keys_given`. `read_value(value, right)` makes an entry of a value as a mistake writes it. Raises
    ValueError where a mistake changes no entry.
    """
    id, title = _heading(about)

    def made(told: edits.Told) -> dict[str, Any]:
        try:
            return edits.changed(solve, told.edit, read_value)
        except ValueError as error:
            raise ValueError(f"{id}, {told.name}: {error}") from error

    def written(values: dict[str, str]) -> str:
        entries = [f'"{key}": {value}' for key, value in values.items()]
        if keys_given:
            return "\n".join([f"{name} = {{", *(f"    {entry}," for entry in entries), "}"])
        return f"{name} = {{{', '.join(entries)}}}"

    blank = written(dict.fromkeys(solve, "...")) if keys_given else f"{name} = ..."
    return ValueExercise(
        id=id,
        title=title,
        claims=tuple(claims.split()),
        solve=solve,
        misconceptions=tuple(
            Misconception(told.name, made(told), told.question, told.edit) for told in edits.read(mistakes)
        ),
        hints=edits.paragraphs(hints),
        name=name,
        stub="\n".join([*(f"# {line}" for line in task.strip().splitlines()), blank]),
        solution_source=written({k: f'"{v}"' if isinstance(v, str) else repr(v) for k, v in solve.items()}),
        **options,
    )


def exercise_number(exercise_id: str) -> tuple[int, int]:
    """Return (chapter, number): the order of ids, in which 1.10 follows 1.9."""
    chapter, number = exercise_id.split(".")
    return int(chapter), int(number)
