"""`check`, `hint`, `progress`: one line, in words, whatever the learner hands in."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from addnorm_lib.course import check, hint, progress, solution
from addnorm_lib.course.exercises import registry, session
from addnorm_lib.course.exercises.comparison import difference, show
from addnorm_lib.course.exercises.define import FunctionExercise, ValueExercise
from addnorm_lib.course.exercises.judging import judge

pytestmark = pytest.mark.usefixtures("translatable")

BLOCK = registry.chapter(1)[0]


@pytest.fixture(autouse=True)
def _fresh_session(monkeypatch):
    monkeypatch.setattr(session, "_states", {})
    monkeypatch.setattr(session, "_hints_given", {})


def explode(x, branch):
    y = branch(x)
    return y["no such key"]


def in_place(x, branch):
    update = branch(x)
    x += update
    return x


def spin(x, branch):
    while True:
        pass


def recurse(x, branch):
    return recurse(x, branch)


def leave(x, branch):
    raise SystemExit


def two_lines(x, branch):
    raise ValueError("first\nsecond")


def chatty(x, branch):
    print("shape", tuple(x.shape))
    print("done")
    return 17 * x


WRONG = {
    "exception": (explode, ["IndexError", '(line 3: return y["no such key"])']),
    "error of two lines": (two_lines, ["ValueError: first", "(line 2: raise ValueError("]),
    "shape": (lambda x, branch: x.sum(), ["shape (2,) wanted, got ()"]),
    "dtype": (lambda x, branch: (x + branch(x)).double(), ["dtype torch.float32 wanted, got torch.float64"]),
    "nan": (lambda x, branch: (x + branch(x)) * math.nan, ["NaN"]),
    "none": (lambda x, branch: None, ["returned None"]),
    "list": (lambda x, branch: (x + branch(x)).tolist(), ["a torch.Tensor wanted, got list"]),
    "in place": (in_place, ["changes x in place"]),
    "exit": (leave, ["SystemExit"]),
    "recursion": (recurse, ["RecursionError"]),
    "too few arguments": (lambda x: x, ["residual_block(x, branch) wanted, yours takes (x)"]),
    "too many arguments": (lambda x, branch, scale: x, ["yours takes (x, branch, scale)"]),
    "called": (torch.ones(2), ["a function wanted, got Tensor", 'check("1.1", residual_block)']),
    "a class": (int, []),
    "prints": (chatty, ["expected [1.5, 3], got [17, 34]", "it printed: shape (2,) ⏎ done"]),
    "numbers": (lambda x, branch: 17 * x, ["the numbers differ. For x = [1, 2], branch = z ↦ z/2: expected [1.5, 3]"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_gets_one_line_that_says_why(name, capsys):
    answer, words = WRONG[name]
    check("1.1", answer)
    out, err = capsys.readouterr()
    assert out.startswith("✗ 1.1 ")
    assert out.count("\n") == 1 and out.endswith("\n")
    assert "Traceback" not in out and err == ""
    for word in words:
        assert word in out


@pytest.mark.parametrize("function", [spin, lambda x, branch: time.sleep(60)])
def test_an_endless_answer_is_stopped(function):
    calls = []

    def endless(x, branch):
        calls.append("begun")
        function(x, branch)
        calls.append("ended")

    verdict = judge(replace(BLOCK, seconds=0.3), endless)
    assert verdict.state == "wrong"
    assert "still running after 0.3 s" in verdict.text
    assert calls == ["begun"]  # one case of four


def test_an_endless_answer_is_stopped_on_another_thread():
    verdicts = []
    exercise = replace(BLOCK, seconds=0.3)
    thread = threading.Thread(target=lambda: verdicts.append(judge(exercise, spin)), daemon=True)
    thread.start()
    thread.join(300)
    assert "still running after 0.3 s" in verdicts[0].text


def test_keyboard_interrupt_passes_through_check():
    def stop(x, branch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("1.1", stop)


def test_ellipsis_is_not_attempted(capsys):
    check("1.1", ...)
    assert capsys.readouterr().out == "○ 1.1 not attempted yet\n"


@pytest.mark.parametrize("given", ["9.9", 1.1, None, ["1.1"]])
@pytest.mark.parametrize("ask", [lambda i: check(i, len), hint, solution])
def test_an_unknown_id_prints_one_line(ask, given, capsys):
    assert ask(given) is None
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert repr(given) in out and "1.1–1.8" in out


def test_hints_come_in_turn_and_begin_again(capsys):
    total = len(BLOCK.hints)
    for _again in range(2 * total):
        hint("1.1")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:total] == lines[total:]
    assert lines[:total] == [f"1.1 hint {i + 1} of {total}: {text}" for i, text in enumerate(BLOCK.hints)]


def test_progress_follows_the_checks(capsys):
    progress(1)
    check("1.1", BLOCK.solve)
    check("1.2", lambda x, branch, weight: None)
    check("1.3", ...)
    progress()
    check("1.1", ...)
    progress(1)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chapter 1 ")]
    assert [line.split("  ")[1] for line in lines] == ["□□□□□□□□", "■▫□□□□□□", "□▫□□□□□□"]
    assert "1 of 8 solved; next: 1.2" in lines[1]


def test_progress_of_a_finished_chapter_names_nothing_next(capsys):
    for exercise in registry.chapter(1):
        check(exercise.id, exercise.solve)
    progress(1)
    assert capsys.readouterr().out.splitlines()[-1] == "chapter 1  ■■■■■■■■  8 of 8 solved"


def test_an_unknown_chapter_is_named(capsys):
    progress(99)
    assert "99" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"number: one of 1.* wanted, got 99"):
        registry.chapter(99)


def test_numbers_may_come_as_tensors_but_not_as_text():
    assert difference(torch.tensor(2), 2, 0, 0) is None
    assert difference(torch.tensor([0.5]), 0.5, 0, 0) is None
    assert "a number wanted, got str" in difference("2", 2, 0, 0)
    assert "a number wanted, got bool" in difference(True, 1, 0, 0)
    assert difference(float("nan"), 1.0, 1, 1) is not None


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        ((1.0,), (1.0, 2.0), "2 elements wanted, got 1"),
        (1.0, [1.0], "a list wanted, got float"),
        ({"a": 1}, {"b": 1}, "the key 'b' is missing and 'a' is no key: keep the keys as given"),
        ({"a": 1, "b": 1}, {"a": 1}, "'b' is no key"),
        (["a"], {"a": 1}, "a dict with the keys a wanted, got list"),
        (0.0, float("inf"), "the numbers differ"),
        ({"a": 1}, {"a": 2}, "the numbers differ"),
        ([1.0, "x"], [1.0, 2.0], "a number wanted, got str"),
        (1, True, "bool wanted, got int"),
        (False, True, "values differ"),
        ("no", "yes", "values differ"),
        (1, "yes", "str wanted, got int"),
    ],
)
def test_differences_are_said_in_words(got, want, words):
    assert words in difference(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (1 / 3, "0.3333"),
        (torch.tensor([1.0, 2.5]), "[1, 2.5]"),
        (torch.ones(3, 5), "a tensor of shape (3, 5)"),
        ((1, 2.0), "(1, 2)"),
        ({"k": 0.5}, "{'k': 0.5}"),
        ("x" * 99, "'" + "x" * 56 + "…"),
    ],
)
def test_values_are_shown_short(value, text):
    assert show(value) == text


class Unprintable:
    """A value that cannot be shown."""

    def __repr__(self):
        raise RuntimeError


class Mute(Exception):
    """An error that has no words."""

    def __str__(self):
        raise RuntimeError


async def coroutine(x, branch):
    return x + branch(x)


def raises_mute(*arguments):
    raise Mute


def raises_a_todo(*arguments):
    raise NotImplementedError("todo")


def helper_in_the_same_file(x):
    return x.foo


def calls_a_helper(x, branch):
    return helper_in_the_same_file(x)


STRANGE = {
    "huge integers": ("1.6", lambda n, s: [10**400] * (n + 1)),
    "one huge integer": ("1.5", lambda branch, x, deviation: 10**400),
    "sparse": ("1.1", lambda x, branch: (x + branch(x)).to_sparse()),
    "meta": ("1.1", lambda x, branch: x.to("meta")),
    "unprintable": ("1.1", lambda x, branch: Unprintable()),
    "an error without words": ("1.1", raises_mute),
    "a long error": ("1.1", lambda x, branch: x.view(int("9" * 4000))),
    "coroutine": ("1.1", coroutine),
}


@pytest.mark.parametrize("name", STRANGE)
def test_whatever_comes_back_gets_one_short_line(name, capsys):
    check(*STRANGE[name])
    line = capsys.readouterr().out
    assert line.startswith("✗") and line.count("\n") == 1
    assert len(line) < 500
    assert "Traceback" not in line


def test_only_a_bare_stub_counts_as_not_attempted(capsys):
    check("1.1", raises_a_todo)
    check("1.1", lambda x, branch: torch.nn.Module()(x))
    assert capsys.readouterr().out.count("✗") == 2


def test_the_line_named_is_the_learners_own_even_when_a_helper_raises(capsys):
    check("1.1", calls_a_helper)
    assert "(line 2: return helper_in_the_same_file(x))" in capsys.readouterr().out


def test_values_that_look_the_same_are_told_apart(capsys):
    check("1.1", lambda x, branch: x + branch(x) + 1e-4)
    line = capsys.readouterr().out
    assert line.split("expected ")[1].split(", got ")[0] != line.split(", got ")[1].strip()
    check("1.1", lambda x, branch: (x + branch(x)) * (x.ndim < 3))
    assert " at [" in capsys.readouterr().out


def test_keyword_only_arguments_are_named(capsys):
    check("1.1", lambda *, x, branch: x + branch(x))
    assert "by position" in capsys.readouterr().out


def two_results(x, a):
    """Return (sum, half) of x."""
    return x + a, x / 2


PAIR = FunctionExercise(
    id="9.9",
    title="",
    claims=(),
    solve=two_results,
    cases=lambda: [(torch.tensor([1.0, 3.0]), 1.0)],
    misconceptions=(),
    hints=(),
)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            lambda x, a: (x + a, x / 3),
            "every number is 0.6667 times what it should be. For x = [1, 3], a = 1: expected",
        ),
        (lambda x, a: (x + a, x / 3), "expected half = [0.5, 1.5], got [0.3333, 1]"),
        (lambda x, a: (x + a, -x / 2), "every number has the wrong sign"),
        (lambda x, a: (x / 2, x + a), "the right results in another order: (sum, half) is wanted"),
        (lambda x, a: (x + a, x.double() / 2), "dtype torch.float32 wanted, got torch.float64. For"),
        (lambda x, a: (x * a + torch.ones(3), x / 2), "is keepdim=True or a [:, None] missing?"),
        (
            torch.nn.functional.softmax,
            "softmax itself takes other arguments: write a function two_results(x, a) that calls it",
        ),
        (torch.nn.LayerNorm(2), "LayerNorm itself takes other arguments: write a function two_results(x, a)"),
    ],
)
def test_what_a_wrong_result_tells(answer, text):
    assert text in judge(PAIR, answer).text


def test_a_returned_exception_is_told_apart_from_a_raised_one():
    def refuse(x, a):
        raise ValueError

    exercise = replace(PAIR, solve=refuse)
    assert "the ValueError is returned: raise it" in judge(exercise, lambda x, a: ValueError("no")).text
    assert "the ValueError is returned: raise it" in judge(exercise, lambda x, a: ValueError).text


def test_a_change_to_a_starter_that_has_no_effect_is_an_attempt():
    (mask,) = (exercise for exercise in registry.chapter(6) if getattr(exercise, "starter", None))

    def masks_what_is_zero_already(s, D, eps):
        s = torch.where(torch.arange(s.shape[1]) < D, s, 0)
        return mask.starter(s, D, eps)

    verdict = judge(mask, masks_what_is_zero_already)
    assert verdict.state == "wrong"
    assert verdict.text.startswith("the function was changed, but still behaves as given")


def test_a_dict_that_nobody_has_filled_in_is_open():
    for exercise in registry.chapter(2) + registry.chapter(4):
        if isinstance(exercise, ValueExercise):
            assert judge(exercise, dict.fromkeys(exercise.solve, ...)).state == "open"
            assert judge(exercise, {**exercise.solve, "A": ...}).state == "wrong"


def test_arguments_in_another_order_are_named():
    assert "two_results(x, a) wanted, yours takes (a, x)" in judge(PAIR, lambda a, x: (x - a, x / 2)).text
    assert judge(PAIR, lambda a, x: (x + a, a / 2)).state == "solved"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda x, a: (x ^ 0.5, x), "a power is written **"),
        (lambda x, a: x + torch.sin, "f for f(x)?"),
        (lambda x, a: torch.nn.functional.dropout(x, torch.sin), "f for f(x)?"),
        (lambda x, a: x.view(1, 2) @ x.view(1, 2), "is a transpose missing?"),
        (lambda x, a: torch.nn.LayerNorm(x), "does nn.LayerNorm get the tensor?"),
        (lambda x, a: x.grad.norm(), "is .grad read before backward()"),
        (lambda x, a: x.sum().backward(), "is it detached"),
        (lambda x, a: (x.clone().requires_grad_() * 2).backward(), "is it the loss, a single number"),
    ],
)
def test_an_error_is_answered_with_its_likely_cause(answer, text):
    assert text in judge(PAIR, answer).text


def test_true_and_false_may_come_from_numpy_and_pytorch():
    statements = next(e for e in registry.chapter(4) if e.name == "statements")
    asked = {key: np.bool_(true) if key < "C" else torch.tensor([true]) for key, true in statements.solve.items()}
    assert judge(statements, asked).state == "solved"
    for given in ("True", 1, torch.ones(2), [True], np.array([True, True])):
        assert "C is True or False" in judge(statements, {**statements.solve, "C": given}).text


def test_of_an_observed_dict_only_the_entry_that_differs_is_shown():
    exercise = replace(PAIR, observe=lambda result, x, a: {"sum": result[0], "half": result[1]})
    text = judge(exercise, lambda x, a: (x + a, x / 2 + 1)).text
    assert text == "half: the numbers differ. For x = [1, 3], a = 1: expected half = [0.5, 1.5], got [1.5, 2.5]"


def test_a_number_may_come_in_an_array_of_its_own():
    exercise = replace(PAIR, solve=lambda x, a: 0.5)
    assert judge(exercise, lambda x, a: np.array(0.5)).state == "solved"
    assert judge(exercise, lambda x, a: np.array([0.5])).state == "solved"
    assert "a number wanted, got ndarray" in judge(exercise, lambda x, a: np.array([0.5, 0.5])).text


def test_a_list_emptied_on_the_way_is_named():
    exercise = replace(PAIR, solve=lambda x, a: x[0], cases=lambda: [([1.0, 3.0], 1.0)])
    assert "changes x in place: is there a pop" in judge(exercise, lambda x, a: x.pop(0)).text


def test_what_came_is_cut_where_it_would_fill_the_screen():
    exercise = replace(PAIR, solve=lambda x, a: [1.0] * 9)
    assert len(judge(exercise, lambda x, a: [x.sum().item] * 9).text) < 350
