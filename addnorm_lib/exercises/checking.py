"""Judge an answer: solved, not attempted, or wrong — and then which question helps the learner on."""

import inspect
import linecache
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from addnorm_lib.exercises.comparison import difference, show
from addnorm_lib.exercises.exercise import Exercise
from addnorm_lib.exercises.sandbox import Outcome, call
from addnorm_lib.messages import _


@dataclass(frozen=True)
class Verdict:
    """The judgement on an answer; `misconception` is the name of the wrong answer that was recognised, if any."""

    state: Literal["solved", "open", "wrong"]
    text: str
    misconception: str | None = None


def _disagreement(exercise: Exercise, got: Outcome, want: Outcome) -> str | None:
    """Return what is wrong with an outcome, or None where it is as expected."""
    if got.timed_out:
        return _("your function was still running after {seconds:g} s: is there a loop that never ends?").format(
            seconds=exercise.seconds
        )
    if want.error is not None:
        wanted = type(want.error).__name__
        if got.error is None:
            return _("a {wanted} wanted, but your function returned").format(wanted=wanted)
        if isinstance(got.error, type(want.error)):
            return None
        return _("a {wanted} wanted, but your function raised {got}").format(wanted=wanted, got=_raised(got.error))
    if got.error is not None:
        return _("your function raised {error}").format(error=_raised(got.error))
    return difference(got.value, want.value, exercise.rtol, exercise.atol)


def _raised(error: BaseException) -> str:
    try:
        message = (str(error).splitlines() or [""])[0]
    except Exception:
        message = ""
    message = message if len(message) <= 160 else f"{message[:157]}…"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _where(error: BaseException, answer: Callable[..., Any]) -> str:
    """Name the line of the learner's own function in which the error arose."""
    code = getattr(inspect.unwrap(answer), "__code__", None)
    lines = [n for frame, n in traceback.walk_tb(error.__traceback__) if frame.f_code is code]
    if not lines:
        return ""
    source = linecache.getline(code.co_filename, lines[-1]).strip()
    source = source if len(source) <= 100 else f"{source[:97]}…"
    line = lines[-1] - code.co_firstlineno + 1
    return _(" (line {line}: {source})").format(line=line, source=source) if source else ""


def _signature_problem(exercise: Exercise, answer: Callable[..., Any], arguments: tuple[Any, ...]) -> str | None:
    try:
        inspect.signature(answer).bind(*arguments)
    except TypeError:
        if any(p.kind is p.KEYWORD_ONLY for p in inspect.signature(answer).parameters.values()):
            return _("{name} must take its arguments by position: is there a * in its signature?").format(
                name=exercise.name
            )
        wanted = ", ".join(inspect.signature(exercise.solve).parameters)
        got = ", ".join(map(str, inspect.signature(answer).parameters.values()))
        return _("{name}({wanted}) wanted, yours takes ({got})").format(name=exercise.name, wanted=wanted, got=got)
    except ValueError:
        return None
    return None


def _told_apart(want: Any, got: Any) -> tuple[str, str]:
    """Show two values that look the same at four digits, or that are too large to show: where do they differ?"""
    if isinstance(want, torch.Tensor) and want.numel() > 12:
        at = tuple(int(i) for i in torch.unravel_index((got.detach() - want).abs().argmax(), want.shape))
        place = ", ".join(map(str, at))
        return _("{value} at [{place}]").format(value=show(float(want[at])), place=place), show(float(got[at]))
    return show(want, 10), show(got, 10)


def _example(exercise: Exercise, arguments: tuple[Any, ...], want: Outcome, got: Outcome) -> str:
    """Spell out the input, what was expected and what came."""
    names = inspect.signature(exercise.solve).parameters
    given = ", ".join(f"{name} = {show(value)}" for name, value in zip(names, arguments, strict=False))
    expected = type(want.error).__name__ if want.error is not None else show(want.value)
    if got.timed_out:
        return _("For {given}: expected {expected}").format(given=given, expected=expected)
    came = type(got.error).__name__ if got.error is not None else show(got.value)
    if came == expected and _disagreement(exercise, got, want) == _("the numbers differ"):
        expected, came = _told_apart(want.value, got.value)
    text = _("For {given}: expected {expected}, got {came}").format(given=given, expected=expected, came=came)
    printed = got.printed.strip().replace("\n", " ⏎ ")
    if got.changed:
        text += _("; it also changes {argument} in place").format(argument=list(names)[got.changed[0]])
    return text + (_("; it printed: {printed}").format(printed=printed[:120]) if printed else "")


def _agrees(exercise: Exercise, one: list[Outcome], other: list[Outcome]) -> bool:
    return all(
        (a.timed_out and b.timed_out) or (not b.timed_out and _disagreement(exercise, a, b) is None)
        for a, b in zip(one, other, strict=True)
    )


def _judge_value(exercise: Exercise, answer: Any) -> Verdict:
    if isinstance(answer, dict) and answer and all(value is ... for value in answer.values()):
        return Verdict("open", _("not attempted yet"))
    wrong = difference(answer, exercise.solve, exercise.rtol, exercise.atol)
    if wrong is None:
        return Verdict("solved", _(exercise.title))
    for known in exercise.misconceptions:
        if difference(answer, known.wrong, exercise.rtol, exercise.atol) is None:
            return Verdict("wrong", _(known.message), known.name)
    if isinstance(exercise.solve, dict) and isinstance(answer, dict) and answer.keys() == exercise.solve.keys():
        words = {w for w in exercise.solve.values() if isinstance(w, str)}
        unknown = next((k for k, v in answer.items() if words and not (isinstance(v, str) and v in words)), None)
        if unknown is not None:
            return Verdict(
                "wrong",
                _("{key} is one of {words}; you wrote {got}").format(
                    key=unknown, words=", ".join(sorted(words)), got=show(answer[unknown])
                ),
            )
        missed = [str(k) for k in answer if difference(answer[k], exercise.solve[k], exercise.rtol, exercise.atol)]
        return Verdict("wrong", _("look again at {missed}").format(missed=", ".join(missed)))
    if isinstance(exercise.solve, dict):  # the clause names the answer already
        return Verdict("wrong", wrong)
    return Verdict("wrong", _("{wrong}; your answer is {got}").format(wrong=wrong, got=show(answer)))


def _call(exercise: Exercise, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Outcome:
    observe = exercise.observe
    if observe is None:
        return call(function, arguments, seconds)
    return call(lambda *given: observe(function(*given), *given), arguments, seconds)


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Compare `answer` with the reference solution on every case."""
    if answer is ... or (answer is None and not exercise.is_function):
        return Verdict("open", _("not attempted yet"))
    if not exercise.is_function:
        return _judge_value(exercise, answer)
    if not callable(answer):
        return Verdict(
            "wrong",
            _('a function wanted, got {got}: write check("{id}", {name}), without brackets after the name').format(
                got=type(answer).__name__, id=exercise.id, name=exercise.name
            ),
        )
    cases = exercise.cases()
    problem = _signature_problem(exercise, answer, cases[0])
    if problem:
        return Verdict("wrong", problem)

    # First, so that what PyTorch loads at its first use is not taken from the learner's time.
    want = [_call(exercise, exercise.solve, arguments, 60.0) for arguments in cases]
    got: list[Outcome] = []
    ends = time.monotonic() + 2 * exercise.seconds
    for arguments in cases:
        got.append(_call(exercise, answer, arguments, min(exercise.seconds, max(0.1, ends - time.monotonic()))))
        error = got[-1].error
        # A stub raises it bare, at once; a subclass, a message or a later case is the learner's own doing.
        if len(got) == 1 and type(error) is NotImplementedError and not error.args:
            return Verdict("open", _("not attempted yet"))
        if got[-1].timed_out:
            break
    cases = cases[: len(got)]
    want = want[: len(got)]
    wrong = [_disagreement(exercise, g, w) for g, w in zip(got, want, strict=True)]
    first = next((i for i, problem in enumerate(wrong) if problem), None)
    if first is None:
        changed = next((i for i, g in enumerate(got) if g.changed), None)
        if changed is None:
            return Verdict("solved", _(exercise.title))
        argument = list(inspect.signature(exercise.solve).parameters)[got[changed].changed[0]]
        return Verdict(
            "wrong",
            _(
                "the result is right, but your function changes {argument} in place: is there a += or an x[…] = …?"
            ).format(argument=argument),
        )

    example = _example(exercise, cases[first], want[first], got[first])
    if exercise.starter is not None:
        start = [_call(exercise, exercise.starter, arguments, exercise.seconds) for arguments in cases]
        if _agrees(exercise, got, start):
            changed = next((g.changed for g in got if g.changed), None)
            if changed is not None:
                argument = list(inspect.signature(exercise.solve).parameters)[changed[0]]
                text = _("your function changes {argument} in place: every name for it then holds the new values")
                return Verdict("wrong", f"{text.format(argument=argument)}. {example}")
            return Verdict("open", _("not attempted yet: the function still behaves as given"))
    for known in exercise.misconceptions:
        mistaken = [_call(exercise, known.wrong, arguments, exercise.seconds) for arguments in cases]
        if _agrees(exercise, got, mistaken):
            return Verdict("wrong", f"{_(known.message)} {example}", known.name)
    where = _where(got[first].error, answer) if got[first].error is not None else ""
    stop = "" if (wrong[first] + where).endswith("?") else "."
    return Verdict("wrong", f"{wrong[first]}{where}{stop} {example}")
