"""The former form of an exercise, told in the new one."""

from typing import Any

from addnorm_lib.course.exercises.define import Exercise as Base
from addnorm_lib.course.exercises.define import FunctionExercise, Misconception, NotObservable, ValueExercise
from addnorm_lib.course.exercises.inputs import Shown

__all__ = ["Exercise", "Misconception", "NotObservable", "Shown"]


def Exercise(cases: Any, value_name: str = "", value_stub: str = "", value_source: str = "", **fields: Any) -> Base:
    """Return a function exercise, or where there are no cases, a value exercise."""
    if cases is not None:
        return FunctionExercise(cases=cases, **fields)
    return ValueExercise(name=value_name, stub=value_stub, solution_source=value_source, **fields)
