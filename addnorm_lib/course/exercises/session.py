"""A reader's session, what is done so far: `check`, `hint`, `solution`, `progress`, and for instructors `mistakes`."""

import textwrap
from typing import Any

from addnorm_lib.course.exercises import registry
from addnorm_lib.course.exercises.define import Exercise
from addnorm_lib.course.exercises.judging import judge
from addnorm_lib.course.exercises.source import Source, source_of
from addnorm_lib.messages import _

_MARKS = {"solved": "✓", "wrong": "✗", "open": "○"}
_SQUARES = {"solved": "■", "wrong": "▫", "open": "□"}

_states: dict[str, str] = {}
_hints_given: dict[str, int] = {}


def _find(exercise_id: Any) -> Exercise | None:
    exercise = registry.find(exercise_id)
    if exercise is None:
        chapters = [registry.chapter(number) for number in registry.numbers()]
        known = ", ".join(f"{exercises[0].id}–{exercises[-1].id}" for exercises in chapters)
        print(_("✗ no exercise has the id {given!r}; there are {known}").format(given=exercise_id, known=known))
    return exercise


def check(exercise_id: str, answer: Any) -> None:
    """Compare an answer with the reference solution and print one line: ✓ solved, ✗ wrong and why, ○ not attempted.

    An unknown id, and whatever the answer raises, gets a line too; only KeyboardInterrupt passes.
    """
    exercise = _find(exercise_id)
    if exercise is None:
        return
    verdict = judge(exercise, answer)
    _states[exercise.id] = verdict.state
    print(f"{_MARKS[verdict.state]} {exercise.id} {' '.join(verdict.text.split())}")


def hint(exercise_id: str) -> None:
    """Print the exercise's next hint; after the last one, begin again. An unknown id gets a line too."""
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
    """Show the reference solution's source. An unknown id gets a line, and None comes back."""
    exercise = _find(exercise_id)
    return None if exercise is None else Source(exercise.solution_source)


def mistakes(exercise_id: str) -> None:
    """Print, for instructors, the wrong answers that an exercise knows: as edits of the solution, with their questions.

    In the order in which an answer is compared with them. An unknown id gets a line too.
    """
    exercise = _find(exercise_id)
    if exercise is None:
        return
    print(_("{id} {title}: known mistakes").format(id=exercise.id, title=_(exercise.title)))
    for known in exercise.misconceptions:
        print(f"\n{_(known.name)}: {known.edit}")
        if known.edit.startswith("def "):
            print(textwrap.indent(source_of(known.wrong), "        "))
        print(f"    {_(known.message)}")


def progress(number: int | None = None) -> None:
    """Draw what is done, in one chapter or in all: ■ solved, ▫ tried, □ open. An unknown number gets a line too."""
    if number is not None and number not in registry.numbers():
        known = ", ".join(map(str, registry.numbers()))
        print(_("✗ no chapter has the number {given!r}; there are {known}").format(given=number, known=known))
        return
    for one in registry.numbers() if number is None else (number,):
        exercises = registry.chapter(one)
        bar = "".join(_SQUARES[_states.get(exercise.id, "open")] for exercise in exercises)
        solved = sum(_states.get(exercise.id) == "solved" for exercise in exercises)
        following = next((e for e in exercises if _states.get(e.id) != "solved"), None)
        line = _("chapter {number}  {bar}  {solved} of {total} solved").format(
            number=one, bar=bar, solved=solved, total=len(exercises)
        )
        print(line + (_("; next: {id} {title}").format(id=following.id, title=_(following.title)) if following else ""))
