"""Judge an answer: solved, not attempted, or wrong — and then which question helps the learner on."""

import ast
import inspect
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from addnorm_lib.course.exercises import wording
from addnorm_lib.course.exercises.define import Exercise, FunctionExercise, NotObservable, ValueExercise
from addnorm_lib.course.exercises.sandbox import Outcome, call
from addnorm_lib.course.exercises.source import source_of
from addnorm_lib.course.exercises.values import judge_table
from addnorm_lib.course.exercises.verdict import Verdict
from addnorm_lib.messages import _


def _statements(function: Callable[..., Any]) -> list[str]:
    node = ast.parse(source_of(function)).body[0]
    body = node.body if isinstance(node, ast.FunctionDef) else [node]
    return [ast.dump(statement) for statement in body if not _is_text(statement)]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _rewritten(answer: Callable[..., Any], starter: Callable[..., Any]) -> bool:
    """Tell whether the answer's statements are others than the starter's; False where its source is not to be had."""
    try:
        return _statements(answer) != _statements(starter)
    except (OSError, TypeError, SyntaxError, IndexError):
        return False


def _call(
    exercise: FunctionExercise, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
) -> Outcome:
    observe = exercise.observe
    if observe is None:
        return call(function, arguments, seconds)
    return call(lambda *given: observe(function(*given), *given), arguments, seconds)


class _Tried(NamedTuple):
    """One case: its arguments, what was wanted and what came, and what is wrong with that, if anything."""

    arguments: tuple[Any, ...]
    want: Outcome
    got: Outcome
    problem: str | None


def _try(exercise: FunctionExercise, answer: Callable[..., Any], cases: list[tuple[Any, ...]]) -> list[_Tried]:
    """Run an answer on every case until one runs out of time; nothing comes back for a stub not attempted yet."""
    # First, so that what PyTorch loads at its first use is not taken from the learner's time.
    want = [_call(exercise, exercise.solve, arguments, 60.0) for arguments in cases]
    tried: list[_Tried] = []
    ends = time.monotonic() + 2 * exercise.seconds
    for arguments, wanted in zip(cases, want, strict=True):
        got = _call(exercise, answer, arguments, min(exercise.seconds, max(0.1, ends - time.monotonic())))
        # A stub raises it bare, at once; a subclass, a message or a later case is the learner's own doing.
        if not tried and type(got.error) is NotImplementedError and not got.error.args:
            return []
        tried.append(_Tried(arguments, wanted, got, wording.disagreement(exercise, got, wanted)))
        if got.timed_out:
            break
    return tried


def _changed_argument(exercise: FunctionExercise, tried: list[_Tried]) -> tuple[str, Any] | None:
    """Return name and value of the first argument that was changed in place, if any."""
    case = next((case for case in tried if case.got.changed), None)
    if case is None:
        return None
    at = case.got.changed[0]
    return list(inspect.signature(exercise.solve).parameters)[at], case.arguments[at]


def _behaves_like(exercise: FunctionExercise, tried: list[_Tried], function: Callable[..., Any]) -> bool:
    """Tell whether `function` does in every case what the answer did."""
    for case in tried:
        outcome = _call(exercise, function, case.arguments, exercise.seconds)
        if case.got.timed_out and outcome.timed_out:
            continue
        if outcome.timed_out or wording.disagreement(exercise, case.got, outcome) is not None:
            return False
    return True


def _explain(exercise: FunctionExercise, answer: Callable[..., Any], tried: list[_Tried], first: _Tried) -> Verdict:
    """Say which known mistake a wrong answer is, or how it departs in the `first` case that it gets wrong."""

    def with_example(head: str) -> str:
        return wording.with_example(head, exercise, first.arguments, first.want, first.got)

    if exercise.starter is not None and _behaves_like(exercise, tried, exercise.starter):
        changed = _changed_argument(exercise, tried)
        if changed is not None:
            text = _("your function changes {argument} in place: every name for it then holds the new values")
            return Verdict("wrong", with_example(f"{text.format(argument=changed[0])}."))
        if _rewritten(answer, exercise.starter):
            text = _("the function was changed, but still behaves as given: does the change do anything here?")
            return Verdict("wrong", with_example(text))
        return Verdict("open", _("not attempted yet: the function still behaves as given"))
    reordered = wording.reordered(exercise, answer)
    if reordered:
        return Verdict("wrong", reordered)
    for known in exercise.misconceptions:
        if _behaves_like(exercise, tried, known.wrong):
            return Verdict("wrong", with_example(_(known.message)), known.name)
    want, got, error = first.want, first.got, first.got.error
    if isinstance(error, NotObservable):
        return Verdict("wrong", str(error))
    ready_made = wording.ready_made(exercise, answer) if error is not None else None
    if ready_made:
        return Verdict("wrong", ready_made)
    where = wording.where_raised(error, answer) if error is not None else ""
    more = ""
    if error is None and want.error is None and not got.timed_out and not first.problem.endswith("?"):
        order = wording.out_of_order(exercise, want.value, got.value)
        if order:
            example = _("For {given}").format(given=wording.shown_arguments(exercise, first.arguments, 4))
            return Verdict("wrong", f"{order}. {example}")
        more = wording.common_factor(exercise, want.value, got.value)
    elif error is not None:
        more = wording.likely_cause(wording.raised(error) + where)
    head = first.problem + where + (f": {more}" if more else "")
    return Verdict("wrong", with_example(head if head.endswith("?") else f"{head}."))


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Compare `answer` with the reference solution: on every case, or entry by entry.

    Whatever an answer raises becomes a verdict; only KeyboardInterrupt passes, the reader's own stop button.
    """
    if isinstance(exercise, ValueExercise):
        return judge_table(exercise, answer)
    assert isinstance(exercise, FunctionExercise)
    if answer is ...:
        return Verdict("open", _("not attempted yet"))
    if not callable(answer):
        return Verdict(
            "wrong",
            _('a function wanted, got {got}: write check("{id}", {name}), without brackets after the name').format(
                got=type(answer).__name__, id=exercise.id, name=exercise.name
            ),
        )
    cases = exercise.cases()
    problem = wording.signature_problem(exercise, answer, cases[0])
    if problem:
        return Verdict("wrong", wording.ready_made(exercise, answer) or problem)
    tried = _try(exercise, answer, cases)
    if not tried:
        return Verdict("open", _("not attempted yet"))
    first = next((case for case in tried if case.problem), None)
    if first is not None:
        return _explain(exercise, answer, tried, first)
    changed = _changed_argument(exercise, tried)
    if changed is None:
        return Verdict("solved", _(exercise.title))
    argument, value = changed
    if isinstance(value, list):
        text = _("the result is right, but your function changes {argument} in place: is there a pop or an append?")
    else:
        text = _("the result is right, but your function changes {argument} in place: is there a += or an x[…] = …?")
    return Verdict("wrong", text.format(argument=argument))
