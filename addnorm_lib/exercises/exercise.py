"""What an exercise is: a reference solution, cases to try an answer on, and the wrong answers it knows by name."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Shown:
    """A function that prints as its formula, so that a message can name it."""

    function: Callable[..., Any]
    formula: str

    def __call__(self, *arguments: Any) -> Any:
        """Apply the function."""
        return self.function(*arguments)

    def __repr__(self) -> str:
        return self.formula


Shown.__name__ = Shown.__qualname__ = "function"  # what Python's own messages call it


class NotObservable(TypeError):
    """Raised by an exercise's `observe` on a result of the wrong kind; its text is what the learner reads."""


@dataclass(frozen=True)
class Misconception:
    """A wrong answer with a name, and the question that it must be answered with."""

    name: str
    wrong: Callable[..., Any] | Any
    message: str


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    `solve` is the reference solution: a function, or, where the learner fills in a value, that value. `cases` are the
    argument tuples on which an answer is compared with it, smallest first. `starter`, in a find-the-bug exercise, is
    the broken function that the learner is given. A solution's source is what `solution(id)` shows, so it is written to
    be read; `name` is the learner's name for it in the notebook. `observe(result, *arguments)` says what is compared
    of a result that has no equality of its own, such as a module.
    """

    id: str
    title: str
    claims: tuple[str, ...]
    solve: Any
    cases: Callable[[], list[tuple[Any, ...]]] | None
    misconceptions: tuple[Misconception, ...]
    hints: tuple[str, ...]
    starter: Callable[..., Any] | None = None
    observe: Callable[..., Any] | None = None
    value_name: str = ""
    value_stub: str = ""
    value_source: str = ""
    rtol: float = 1e-5
    atol: float = 1e-6
    seconds: float = 5.0

    @property
    def is_function(self) -> bool:
        """Whether the learner writes a function (else: fills in a value)."""
        return self.cases is not None

    @property
    def name(self) -> str:
        """The name that the learner's answer has in the notebook."""
        return self.solve.__name__ if self.is_function else self.value_name

    @cached_property
    def solution_source(self) -> str:
        """The reference solution's source, as it replaces the stub cell."""
        return textwrap.dedent(inspect.getsource(self.solve)).strip() if self.is_function else self.value_source

    @cached_property
    def stub(self) -> str:
        """The stub cell's source: the starter, or the solution's signature and docstring with nothing done yet."""
        if not self.is_function:
            return self.value_stub
        if self.starter is not None:
            return textwrap.dedent(inspect.getsource(self.starter)).strip().replace(self.starter.__name__, self.name)
        node = ast.parse(self.solution_source).body[0]
        assert isinstance(node, ast.FunctionDef)
        lines = self.solution_source.splitlines()
        docstring_end = node.body[0].end_lineno
        return "\n".join([*lines[:docstring_end], "    raise NotImplementedError"])


def exercise_number(exercise_id: str) -> tuple[int, int]:
    """Return (chapter, number): the order of ids, in which 1.10 follows 1.9."""
    chapter, number = exercise_id.split(".")
    return int(chapter), int(number)
