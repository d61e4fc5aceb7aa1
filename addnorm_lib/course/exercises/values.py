"""Judge a table that the learner filled in: which entries are wrong, and which known mistake they are."""

import re
from typing import Any

from addnorm_lib.course.exercises.comparison import difference, plain, show
from addnorm_lib.course.exercises.define import ValueExercise
from addnorm_lib.course.exercises.verdict import Verdict
from addnorm_lib.messages import _


def _folded(text: str) -> str:
    """Return a word as it is compared: without spaces, capitals and a full stop, Greek letters spelt out."""
    for sign, spelt in (("−", "-"), ("γ", "gamma"), ("β", "beta"), ("ε", "eps")):
        text = text.replace(sign, spelt)
    return re.sub(r"(?<=[a-z])-(?=[a-z])", "", "".join(text.casefold().split()).rstrip("."))


def _is_empty(value: Any) -> bool:
    return value is ... or value is None or (isinstance(value, str) and not value.strip())


def _in_our_words(answer: Any, solve: dict[Any, Any]) -> Any:
    """Return a dict answer with its words spelt as the exercise spells them."""
    if not isinstance(answer, dict):
        return answer
    words = {_folded(word): word for word in solve.values() if isinstance(word, str)}
    return {k: words.get(_folded(str(v)), v) if isinstance(v, (str, list)) else plain(v) for k, v in answer.items()}


def _listed(keys: list[Any]) -> str:
    shown = [str(key) for key in keys[:4]]
    return ", ".join(shown) + (_(" and {n} more").format(n=len(keys) - 4) if len(keys) > 4 else "")


def _judge_entries(exercise: ValueExercise, answer: dict[Any, Any]) -> Verdict:
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
        changed = [k for k in solve if differs(known.wrong[k], solve[k])]
        if changed and not any(differs(answer[k], known.wrong[k]) for k in changed):
            others = [k for k in missed if k not in changed]
            return Verdict(
                "wrong",
                _("{message} Look again at {others}, too.").format(message=_(known.message), others=_listed(others)),
            )
    return Verdict("wrong", _("look again at {missed}").format(missed=", ".join(map(str, missed))))


def judge_table(exercise: ValueExercise, answer: Any) -> Verdict:
    """Compare a table with the right one; `None`, `...` and a table of nothing but these are not attempted yet."""
    if (
        answer is ...
        or answer is None
        or (isinstance(answer, dict) and answer and all(map(_is_empty, answer.values())))
    ):
        return Verdict("open", _("not attempted yet"))
    answer = _in_our_words(answer, exercise.solve)
    wrong = difference(answer, exercise.solve, exercise.rtol, exercise.atol)
    if wrong is None:
        return Verdict("solved", _(exercise.title))
    for known in exercise.misconceptions:
        if difference(answer, known.wrong, exercise.rtol, exercise.atol) is None:
            return Verdict("wrong", _(known.message), known.name)
    if isinstance(answer, dict) and answer.keys() == exercise.solve.keys():
        return _judge_entries(exercise, answer)
    return Verdict("wrong", wrong)  # the clause names the answer already
