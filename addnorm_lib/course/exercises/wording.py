"""The words for a wrong answer: what is wrong with a result, where an error arose, and the smallest example."""

import inspect
import linecache
import re
import traceback
from collections.abc import Callable
from typing import Any

import torch

from addnorm_lib.course.exercises.comparison import difference, ratio, show
from addnorm_lib.course.exercises.define import FunctionExercise
from addnorm_lib.course.exercises.sandbox import Outcome
from addnorm_lib.messages import N_, _

_LINE = 330  # the longest example that is spelt out, in characters

# What usually lies behind an error, by its text and the line that it arose in.
_QUESTIONS = (
    (r"must match the size of tensor", N_("is keepdim=True or a [:, None] missing?")),
    (r"shapes cannot be multiplied", N_("are the factors in the wrong order, or is a transpose missing?")),
    (r"empty\(\): argument 'size'", N_("does nn.LayerNorm get the tensor? It takes D, and makes a module to call")),
    (
        r"unsupported operand type\(s\) for [-+*/]+: .*'function'|not supported between instances of 'function'",
        N_("is a function used where its result belongs, f for f(x)?"),
    ),
    (r"operand type\(s\) for \^:", N_("a power is written ** in Python; ^ is another operator")),
    (r"'NoneType' object .*\.grad", N_("is .grad read before backward(), or of another call's tensor?")),
    (r"does not require grad and does not have a grad_fn", N_("is it detached, or made under torch.no_grad()?")),
    (r"grad can be implicitly created only for scalar", N_("is it the loss, a single number, that you differentiate?")),
)


def disagreement(exercise: FunctionExercise, got: Outcome, want: Outcome) -> str | None:
    """Return what is wrong with an outcome, or None where it is as expected."""
    if got.timed_out:
        return _("your function was still running after {seconds:g} s: is there a loop that never ends?").format(
            seconds=exercise.seconds
        )
    if want.error is not None:
        wanted = type(want.error).__name__
        if got.error is None:
            given = got.value if isinstance(got.value, type) else type(got.value)
            if issubclass(given, type(want.error)):
                return _("the {wanted} is returned: raise it").format(wanted=wanted)
            return _("a {wanted} wanted, but your function returned").format(wanted=wanted)
        if isinstance(got.error, type(want.error)):
            return None
        return _("a {wanted} wanted, but your function raised {got}").format(wanted=wanted, got=raised(got.error))
    if got.error is not None:
        return _("your function raised {error}").format(error=raised(got.error))
    return difference(got.value, want.value, exercise.rtol, exercise.atol)


def raised(error: BaseException) -> str:
    """Name an error's class and the first line of its message."""
    try:
        message = (str(error).splitlines() or [""])[0]
    except Exception:
        message = ""
    message = message if len(message) <= 160 else f"{message[:157]}…"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def where_raised(error: BaseException, answer: Callable[..., Any]) -> str:
    """Name the line of the learner's own function in which the error arose."""
    code = getattr(inspect.unwrap(answer), "__code__", None)
    lines = [n for frame, n in traceback.walk_tb(error.__traceback__) if frame.f_code is code]
    if not lines:
        return ""
    source = linecache.getline(code.co_filename, lines[-1]).strip()
    source = source if len(source) <= 100 else f"{source[:97]}…"
    line = lines[-1] - code.co_firstlineno + 1
    return _(" (line {line}: {source})").format(line=line, source=source) if source else ""


def signature_problem(exercise: FunctionExercise, answer: Callable[..., Any], arguments: tuple[Any, ...]) -> str | None:
    """Say that an answer cannot be called with a case's arguments; None where it can, or where nobody can tell."""
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


def reordered(exercise: FunctionExercise, answer: Callable[..., Any]) -> str | None:
    """Say that the arguments have the right names in another order; the cases hand them over by position."""
    try:
        got = list(inspect.signature(answer).parameters)
    except ValueError:
        return None
    wanted = list(inspect.signature(exercise.solve).parameters)
    if got == wanted or sorted(got) != sorted(wanted):
        return None
    return _("are the arguments in another order? {name}({wanted}) wanted, yours takes ({got})").format(
        name=exercise.name, wanted=", ".join(wanted), got=", ".join(got)
    )


def ready_made(exercise: FunctionExercise, answer: Callable[..., Any]) -> str | None:
    """Say that a module, a class or a function of PyTorch or NumPy is no answer by itself: it takes other arguments."""
    if (getattr(answer, "__module__", None) or "").split(".")[0] not in ("torch", "numpy"):
        return None
    return _("{called} itself takes other arguments: write a function {name}({wanted}) that calls it").format(
        called=getattr(answer, "__name__", type(answer).__name__),
        name=exercise.name,
        wanted=", ".join(inspect.signature(exercise.solve).parameters),
    )


def _differing(exercise: FunctionExercise, want: Any, got: Any) -> Any:
    """Return which one of several results is told apart: the first that differs, where another one is right."""
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        return next((k for k in want if difference(got[k], want[k], exercise.rtol, exercise.atol)), None)
    if not isinstance(want, tuple) or not isinstance(got, (tuple, list)) or len(got) != len(want):
        return None
    wrong = [
        i for i, (g, w) in enumerate(zip(got, want, strict=True)) if difference(g, w, exercise.rtol, exercise.atol)
    ]
    return wrong[0] if wrong and len(wrong) < len(want) else None


def _result_name(exercise: FunctionExercise, index: Any) -> str:
    """Name a result by its key, or as the docstring does: Return (dx, dweight, dbias) …"""
    if not isinstance(index, int):
        return str(index)
    named = re.match(r"Return \(([\w, ]+)\)", inspect.getdoc(exercise.solve) or "")
    names = named[1].split(", ") if named else []
    return names[index] if index < len(names) else _("result {number}").format(number=index + 1)


def out_of_order(exercise: FunctionExercise, want: Any, got: Any) -> str | None:
    """Say that all results are right, and in another order; None where they are not."""
    if not isinstance(want, tuple) or not isinstance(got, (tuple, list)) or len(got) != len(want):
        return None
    left = list(got)
    for one in want:
        found = next((i for i, g in enumerate(left) if not difference(g, one, exercise.rtol, exercise.atol)), None)
        if found is None:
            return None
        left.pop(found)
    names = ", ".join(_result_name(exercise, i) for i in range(len(want)))
    return _("these are the right results in another order: ({names}) is wanted").format(names=names)


def common_factor(exercise: FunctionExercise, want: Any, got: Any) -> str:
    """Say that all numbers are wrong by one factor. Empty where they are not."""
    at = _differing(exercise, want, got)
    factor = ratio(got, want) if at is None else ratio(got[at], want[at])
    if factor is None:
        return ""
    if abs(factor + 1) < 2e-3:
        return _("every number has the wrong sign")
    return _("every number is {factor} times what it should be").format(factor=show(factor))


def _told_apart(want: Any, got: Any, largest: int = 12) -> tuple[str, str]:
    """Show two values that look the same at four digits, or that are too large to show: where do they differ?"""
    if isinstance(want, torch.Tensor) and want.numel() > largest:
        at = tuple(int(i) for i in torch.unravel_index((got.detach() - want).abs().argmax(), want.shape))
        place = ", ".join(map(str, at))
        return _("{value} at [{place}]").format(value=show(float(want[at])), place=place), show(float(got[at]))
    return show(want, 10), show(got, 10)


def shown_arguments(exercise: FunctionExercise, arguments: tuple[Any, ...], largest: int) -> str:
    """Spell out a case's arguments; tensors of up to `largest` numbers in full."""
    names = inspect.signature(exercise.solve).parameters
    return ", ".join(f"{name} = {show(value, 4, largest)}" for name, value in zip(names, arguments, strict=False))


def _example(
    exercise: FunctionExercise, arguments: tuple[Any, ...], want: Outcome, got: Outcome, largest: int = 12
) -> str:
    """Spell out the input, what was expected and what came; tensors of up to `largest` numbers in full."""
    names = inspect.signature(exercise.solve).parameters
    given = shown_arguments(exercise, arguments, largest)
    wanted_value, got_value, label = want.value, got.value, ""
    at = None if want.error or got.error or got.timed_out else _differing(exercise, want.value, got.value)
    if at is not None:
        wanted_value, got_value, label = want.value[at], got.value[at], f"{_result_name(exercise, at)} = "
    expected = label + (type(want.error).__name__ if want.error is not None else show(wanted_value, 4, largest))
    if got.timed_out:
        return _("For {given}: expected {expected}").format(given=given, expected=expected)
    came = type(got.error).__name__ if got.error is not None else show(got_value, 4, largest)
    if label + came == expected and difference(got_value, wanted_value, exercise.rtol, exercise.atol) == _(
        "the numbers differ"
    ):
        expected, came = _told_apart(wanted_value, got_value, largest)
        expected = label + expected
    came = came if len(came) <= 160 else f"{came[:157]}…"
    text = _("For {given}: expected {expected}, got {came}").format(given=given, expected=expected, came=came)
    printed = got.printed.strip().replace("\n", " ⏎ ")
    if got.changed:
        text += _("; it also changes {argument} in place").format(argument=list(names)[got.changed[0]])
    return text + (_("; it printed: {printed}").format(printed=printed[:120]) if printed else "")


def with_example(head: str, exercise: FunctionExercise, arguments: tuple[Any, ...], want: Outcome, got: Outcome) -> str:
    """Return `head` and the example, with its tensors in full where they leave the line readable."""
    texts = (f"{head} {_example(exercise, arguments, want, got, largest)}" for largest in (12, 8, 4))
    text = ""
    for text in texts:
        if len(text) <= _LINE:
            return text
    if got.error is not None and want.error is None:  # what was expected says little beside the error
        return f"{head} " + _("For {given}").format(given=shown_arguments(exercise, arguments, 4))
    return text


def likely_cause(text: str) -> str:
    """Return the question that an error's text, and the line that it arose in, suggest; empty where none does."""
    return next((_(question) for pattern, question in _QUESTIONS if re.search(pattern, text)), "")
