"""Judge an answer: solved, not attempted, or wrong — and then which question helps the learner on."""

import ast
import inspect
import linecache
import re
import textwrap
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch

from addnorm_lib.exercises.comparison import difference, plain, ratio, show
from addnorm_lib.exercises.exercise import Exercise, NotObservable
from addnorm_lib.exercises.sandbox import Outcome, call
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
            given = got.value if isinstance(got.value, type) else type(got.value)
            if issubclass(given, type(want.error)):
                return _("the {wanted} is returned: raise it").format(wanted=wanted)
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


def _reordered(exercise: Exercise, answer: Callable[..., Any]) -> str | None:
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


def _ready_made(exercise: Exercise, answer: Callable[..., Any]) -> str | None:
    """Say that a module, a class or a function of PyTorch or NumPy is no answer by itself: it takes other arguments."""
    if (getattr(answer, "__module__", None) or "").split(".")[0] not in ("torch", "numpy"):
        return None
    return _("{called} itself takes other arguments: write a function {name}({wanted}) that calls it").format(
        called=getattr(answer, "__name__", type(answer).__name__),
        name=exercise.name,
        wanted=", ".join(inspect.signature(exercise.solve).parameters),
    )


def _differing(exercise: Exercise, want: Any, got: Any) -> Any:
    """Return which one of several results is told apart: the first that differs, where another one is right."""
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        return next((k for k in want if difference(got[k], want[k], exercise.rtol, exercise.atol)), None)
    if not isinstance(want, tuple) or not isinstance(got, (tuple, list)) or len(got) != len(want):
        return None
    wrong = [
        i for i, (g, w) in enumerate(zip(got, want, strict=True)) if difference(g, w, exercise.rtol, exercise.atol)
    ]
    return wrong[0] if wrong and len(wrong) < len(want) else None


def _result_name(exercise: Exercise, index: Any) -> str:
    """Name a result by its key, or as the docstring does: Return (dx, dweight, dbias) …"""
    if not isinstance(index, int):
        return str(index)
    named = re.match(r"Return \(([\w, ]+)\)", inspect.getdoc(exercise.solve) or "")
    names = named[1].split(", ") if named else []
    return names[index] if index < len(names) else _("result {number}").format(number=index + 1)


def _out_of_order(exercise: Exercise, want: Any, got: Any) -> str | None:
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


def _common_factor(exercise: Exercise, want: Any, got: Any) -> str:
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


def _given(exercise: Exercise, arguments: tuple[Any, ...], largest: int) -> str:
    names = inspect.signature(exercise.solve).parameters
    return ", ".join(f"{name} = {show(value, 4, largest)}" for name, value in zip(names, arguments, strict=False))


def _example(exercise: Exercise, arguments: tuple[Any, ...], want: Outcome, got: Outcome, largest: int = 12) -> str:
    """Spell out the input, what was expected and what came; tensors of up to `largest` numbers in full."""
    names = inspect.signature(exercise.solve).parameters
    given = _given(exercise, arguments, largest)
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


def _with_example(head: str, exercise: Exercise, arguments: tuple[Any, ...], want: Outcome, got: Outcome) -> str:
    """Return `head` and the example, with its tensors in full where they leave the line readable."""
    texts = (f"{head} {_example(exercise, arguments, want, got, largest)}" for largest in (12, 8, 4))
    text = ""
    for text in texts:
        if len(text) <= _LINE:
            return text
    if got.error is not None and want.error is None:  # what was expected says little beside the error
        return f"{head} " + _("For {given}").format(given=_given(exercise, arguments, 4))
    return text


def _folded(text: str) -> str:
    """Return a word as it is compared: without spaces, capitals and a full stop, Greek letters spelt out."""
    for sign, spelt in (("−", "-"), ("γ", "gamma"), ("β", "beta"), ("ε", "eps")):
        text = text.replace(sign, spelt)
    return re.sub(r"(?<=[a-z])-(?=[a-z])", "", "".join(text.casefold().split()).rstrip("."))


def _is_empty(value: Any) -> bool:
    return value is ... or value is None or (isinstance(value, str) and not value.strip())


def _in_our_words(answer: Any, solve: Any) -> Any:
    """Return a dict answer with its words spelt as the exercise spells them."""
    if not isinstance(answer, dict) or not isinstance(solve, dict):
        return answer
    words = {_folded(word): word for word in solve.values() if isinstance(word, str)}
    return {k: words.get(_folded(str(v)), v) if isinstance(v, (str, list)) else plain(v) for k, v in answer.items()}


def _listed(keys: list[Any]) -> str:
    shown = [str(key) for key in keys[:4]]
    return ", ".join(shown) + (_(" and {n} more").format(n=len(keys) - 4) if len(keys) > 4 else "")


def _judge_dict(exercise: Exercise, answer: dict[Any, Any]) -> Verdict:
    """Judge a wrong dict with the right keys that is no known one as a whole."""
    solve = exercise.solve

    def differs(got: Any, want: Any) -> bool:
        return difference(got, want, exercise.rtol, exercise.atol) is not None

    empty = [k for k, v in answer.items() if _is_empty(v)]
    if empty:
        return Verdict("wrong", _("still to be filled in: {keys}").format(keys=_listed(empty)))
    words = {w for w in solve.values() if isinstance(w, str)}
    unknown = next((k for k, v in answer.items() if words and not (isinstance(v, str) and v in words)), None)
    if unknown is not None:
        return Verdict(
            "wrong",
            _("{key} is one of {words}; you wrote {got}").format(
                key=unknown, words=", ".join(f'"{word}"' for word in sorted(words)), got=show(answer[unknown])
            ),
        )
    undecided = next((k for k, v in answer.items() if isinstance(solve[k], bool) and not isinstance(v, bool)), None)
    if undecided is not None:
        return Verdict(
            "wrong",
            _("{key} is True or False, without quotes; you wrote {got}").format(
                key=undecided, got=show(answer[undecided])
            ),
        )
    for key, value in answer.items():
        complaint = getattr(solve[key], "complaint", lambda given: None)(value)
        if complaint:
            return Verdict("wrong", _("{key}: {complaint}").format(key=key, complaint=complaint))
    missed = [k for k in answer if differs(answer[k], solve[k])]
    # Two mistakes at once are no known answer; one of them may be known by the entries that it changes.
    for known in exercise.misconceptions:
        changed = [k for k in solve if isinstance(known.wrong, dict) and differs(known.wrong.get(k), solve[k])]
        if changed and not any(differs(answer[k], known.wrong[k]) for k in changed):
            others = [k for k in missed if k not in changed]
            return Verdict(
                "wrong",
                _("{message} Look again at {others}, too.").format(message=_(known.message), others=_listed(others)),
            )
    return Verdict("wrong", _("look again at {missed}").format(missed=", ".join(map(str, missed))))


def _statements(function: Callable[..., Any]) -> list[str]:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
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


def _judge_value(exercise: Exercise, answer: Any) -> Verdict:
    if isinstance(answer, dict) and answer and all(map(_is_empty, answer.values())):
        return Verdict("open", _("not attempted yet"))
    answer = _in_our_words(answer, exercise.solve)
    wrong = difference(answer, exercise.solve, exercise.rtol, exercise.atol)
    if wrong is None:
        return Verdict("solved", _(exercise.title))
    for known in exercise.misconceptions:
        if difference(answer, known.wrong, exercise.rtol, exercise.atol) is None:
            return Verdict("wrong", _(known.message), known.name)
    if isinstance(exercise.solve, dict):
        if isinstance(answer, dict) and answer.keys() == exercise.solve.keys():
            return _judge_dict(exercise, answer)
        return Verdict("wrong", wrong)  # the clause names the answer already
    return Verdict("wrong", _("{wrong}; your answer is {got}").format(wrong=wrong, got=show(answer)))


def _call(exercise: Exercise, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Outcome:
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


def _try(exercise: Exercise, answer: Callable[..., Any], cases: list[tuple[Any, ...]]) -> list[_Tried]:
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
        tried.append(_Tried(arguments, wanted, got, _disagreement(exercise, got, wanted)))
        if got.timed_out:
            break
    return tried


def _changed_argument(exercise: Exercise, tried: list[_Tried]) -> tuple[str, Any] | None:
    """Return name and value of the first argument that was changed in place, if any."""
    case = next((case for case in tried if case.got.changed), None)
    if case is None:
        return None
    at = case.got.changed[0]
    return list(inspect.signature(exercise.solve).parameters)[at], case.arguments[at]


def _behaves_like(exercise: Exercise, tried: list[_Tried], function: Callable[..., Any]) -> bool:
    """Tell whether `function` does in every case what the answer did."""
    for case in tried:
        outcome = _call(exercise, function, case.arguments, exercise.seconds)
        if case.got.timed_out and outcome.timed_out:
            continue
        if outcome.timed_out or _disagreement(exercise, case.got, outcome) is not None:
            return False
    return True


def _explain(exercise: Exercise, answer: Callable[..., Any], tried: list[_Tried], first: _Tried) -> Verdict:
    """Say which known mistake a wrong answer is, or how it departs in the `first` case that it gets wrong."""

    def with_example(head: str) -> str:
        return _with_example(head, exercise, first.arguments, first.want, first.got)

    if exercise.starter is not None and _behaves_like(exercise, tried, exercise.starter):
        changed = _changed_argument(exercise, tried)
        if changed is not None:
            text = _("your function changes {argument} in place: every name for it then holds the new values")
            return Verdict("wrong", with_example(f"{text.format(argument=changed[0])}."))
        if _rewritten(answer, exercise.starter):
            text = _("the function was changed, but still behaves as given: does the change do anything here?")
            return Verdict("wrong", with_example(text))
        return Verdict("open", _("not attempted yet: the function still behaves as given"))
    reordered = _reordered(exercise, answer)
    if reordered:
        return Verdict("wrong", reordered)
    for known in exercise.misconceptions:
        if _behaves_like(exercise, tried, known.wrong):
            return Verdict("wrong", with_example(_(known.message)), known.name)
    want, got, error = first.want, first.got, first.got.error
    if isinstance(error, NotObservable):
        return Verdict("wrong", str(error))
    ready_made = _ready_made(exercise, answer) if error is not None else None
    if ready_made:
        return Verdict("wrong", ready_made)
    where = _where(error, answer) if error is not None else ""
    more = ""
    if error is None and want.error is None and not got.timed_out and not first.problem.endswith("?"):
        order = _out_of_order(exercise, want.value, got.value)
        if order:
            return Verdict("wrong", f"{order}. " + _("For {given}").format(given=_given(exercise, first.arguments, 4)))
        more = _common_factor(exercise, want.value, got.value)
    elif error is not None:
        more = next((_(text) for pattern, text in _QUESTIONS if re.search(pattern, _raised(error) + where)), "")
    head = first.problem + where + (f": {more}" if more else "")
    return Verdict("wrong", with_example(head if head.endswith("?") else f"{head}."))


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
        return Verdict("wrong", _ready_made(exercise, answer) or problem)
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
