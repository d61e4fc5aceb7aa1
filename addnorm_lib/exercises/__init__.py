"""Exercises that are checked on the spot: `check`, `hint`, `solution`, `progress`."""

from functools import cache
from importlib import import_module
from typing import Any

from addnorm_lib.exercises.checking import judge
from addnorm_lib.exercises.exercise import Exercise, exercise_number
from addnorm_lib.exercises.source import Source
from addnorm_lib.messages import _

__all__ = ["chapter", "check", "hint", "progress", "solution"]

_CHAPTERS = {1: "residual", 2: "degradation", 3: "normalisation", 4: "placement", 6: "fused"}
_MARKS = {"solved": "✓", "wrong": "✗", "open": "○"}

_states: dict[str, str] = {}
_hints_given: dict[str, int] = {}


@cache
def chapter(number: int) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, in their order. Raises ValueError for a chapter that has none."""
    if number not in _CHAPTERS:
        raise ValueError(f"number: one of {', '.join(map(str, _CHAPTERS))} wanted, got {number!r}")
    exercises = import_module(f"addnorm_lib.exercises.{_CHAPTERS[number]}").EXERCISES
    return tuple(sorted(exercises, key=lambda exercise: exercise_number(exercise.id)))


def _find(exercise_id: Any) -> Exercise | None:
    for number in _CHAPTERS:
        for exercise in chapter(number):
            if exercise.id == exercise_id:
                return exercise
    known = ", ".join(f"{chapter(n)[0].id}–{chapter(n)[-1].id}" for n in _CHAPTERS)
    print(_("✗ no exercise has the id {given!r}; there are {known}").format(given=exercise_id, known=known))
    return None


def check(exercise_id: str, answer: Any) -> None:
    """Compare an answer with the reference solution and print one line: ✓ solved, ✗ wrong and why, ○ not attempted."""
    exercise = _find(exercise_id)
    if exercise is None:
        return
    verdict = judge(exercise, answer)
    _states[exercise.id] = verdict.state
    print(f"{_MARKS[verdict.state]} {exercise.id} {' '.join(verdict.text.split())}")


def hint(exercise_id: str) -> None:
    """Print the exercise's next hint; after the last one, begin again."""
    exercise = _find(exercise_id)
    if exercise is None:
        return
    given = _hints_given.get(exercise.id, 0) % len(exercise.hints)
    _hints_given[exercise.id] = given + 1
    print(
        _("{id} hint {number} of {total}: {text}").format(
            id=exercise.id, number=given + 1, total=len(exercise.hints), text=_(exercise.hints[given])
        )
    )


def solution(exercise_id: str) -> Source | None:
    """Show the reference solution's source."""
    exercise = _find(exercise_id)
    return None if exercise is None else Source(exercise.solution_source)


def progress(number: int | None = None) -> None:
    """Draw what is done, in one chapter or in all: ■ solved, ▫ tried, □ open."""
    if number is not None and number not in _CHAPTERS:
        known = ", ".join(map(str, _CHAPTERS))
        print(_("✗ no chapter has the number {given!r}; there are {known}").format(given=number, known=known))
        return
    for one in _CHAPTERS if number is None else (number,):
        exercises = chapter(one)
        squares = {"solved": "■", "wrong": "▫", "open": "□"}
        bar = "".join(squares[_states.get(exercise.id, "open")] for exercise in exercises)
        solved = sum(_states.get(exercise.id) == "solved" for exercise in exercises)
        following = next((e for e in exercises if _states.get(e.id) != "solved"), None)
        line = _("chapter {number}  {bar}  {solved} of {total} solved").format(
            number=one, bar=bar, solved=solved, total=len(exercises)
        )
        print(line + (_("; next: {id} {title}").format(id=following.id, title=_(following.title)) if following else ""))
