"""Which exercises there are: found in the chapters' folders, so that a new one is a new file and nothing else."""

import pkgutil
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from addnorm_lib.course.exercises.define import Exercise, exercise_number

_CHAPTERS = "addnorm_lib.chapters"
_OLD: dict[int, str] = {}  # until all are converted


def _found(package: str, pattern: str) -> list[str]:
    """Return the modules and folders of a package whose names fit, in their order; none where there is no package."""
    if find_spec(package) is None:
        return []
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    return sorted(name for name in names if re.fullmatch(pattern, name))


@cache
def _folders() -> dict[int, str]:
    """Return the package of each chapter's exercises, by the chapter's number."""
    folders = {int(name[2:4]): f"{_CHAPTERS}.{name}.exercises" for name in _found(_CHAPTERS, r"ch\d\d_\w+")}
    return {number: package for number, package in folders.items() if _found(package, r"ex\d\d_\w+")}


def numbers() -> tuple[int, ...]:
    """Return the numbers of the chapters that have exercises, in their order."""
    return tuple(sorted(_folders() | _OLD))


@cache
def chapter(number: int) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, in their order. Raises ValueError for a chapter that has none."""
    if number not in numbers():
        raise ValueError(f"number: one of {', '.join(map(str, numbers()))} wanted, got {number!r}")
    package = _folders().get(number)
    exercises = [import_module(f"{package}.{m}").EXERCISE for m in _found(package, r"ex\d\d_\w+")] if package else []
    done = {exercise.id for exercise in exercises}
    old = import_module(f"addnorm_lib.exercises.{_OLD[number]}").EXERCISES if number in _OLD else ()
    exercises += [exercise for exercise in old if exercise.id not in done]
    return tuple(sorted(exercises, key=lambda exercise: exercise_number(exercise.id)))


def find(exercise_id: str) -> Exercise | None:
    """Return the exercise of this id; None where there is none."""
    match = re.fullmatch(r"(\d+)\.\d+", exercise_id) if isinstance(exercise_id, str) else None
    if match is None or int(match[1]) not in numbers():
        return None
    return next((exercise for exercise in chapter(int(match[1])) if exercise.id == exercise_id), None)
