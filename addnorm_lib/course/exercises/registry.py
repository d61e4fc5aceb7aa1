"""Which exercises there are: found in the chapters' folders, so that a new one is a new file and nothing else."""

import re
from functools import cache
from importlib import import_module

from addnorm_lib.course import contents
from addnorm_lib.course.exercises.define import Exercise, exercise_number


@cache
def _files() -> dict[int, list[str]]:
    """Return the modules of each chapter's exercises, by the chapter's number."""
    packages = {n: f"{p}.exercises" for n, p in contents.chapters().items() if contents.modules(p, "exercises")}
    return {n: [f"{p}.{name}" for name in contents.modules(p, r"ex\d\d_\w+")] for n, p in packages.items()}


def numbers() -> tuple[int, ...]:
    """Return the numbers of the chapters that have exercises, in their order."""
    return tuple(sorted(_files()))


@cache
def chapter(number: int) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, in their order. Raises ValueError for a chapter that has none."""
    if number not in _files():
        raise ValueError(f"number: one of {', '.join(map(str, numbers()))} wanted, got {number!r}")
    exercises = [import_module(module).EXERCISE for module in _files()[number]]
    return tuple(sorted(exercises, key=lambda exercise: exercise_number(exercise.id)))


def find(exercise_id: str) -> Exercise | None:
    """Return the exercise of this id; None where there is none."""
    match = re.fullmatch(r"(\d+)\.\d+", exercise_id) if isinstance(exercise_id, str) else None
    if match is None or int(match[1]) not in numbers():
        return None
    return next((exercise for exercise in chapter(int(match[1])) if exercise.id == exercise_id), None)
