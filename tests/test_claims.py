"""`claim`: it raises on what does not hold, and prints the same line whatever the digits."""

import re

import numpy as np
import pytest
import torch

from addnorm_lib.claims import CHAPTERS, STATEMENTS, ClaimError, claim

SOME = next(iter(STATEMENTS))


def test_every_chapters_claims_have_a_statement_and_every_statement_a_chapter():
    named = [claim_id for ids in CHAPTERS.values() for claim_id in ids]
    assert set(named) == set(STATEMENTS)
    assert all(re.fullmatch(r"[A-Z]+\d+", claim_id) for claim_id in STATEMENTS)
    assert all(statement.strip() for statement in STATEMENTS.values())
    assert len(set(STATEMENTS.values())) == len(STATEMENTS)


@pytest.mark.parametrize(
    ("measured", "expected", "options", "asserted"),
    [
        (True, None, {}, ""),
        (np.bool_(True), None, {}, ""),
        (2.0, 2.0, {}, ": 2, exactly"),
        (2.01, 2.0, {"rtol": 0.01}, ": 2, within 1 %"),
        (2.01, 2.0, {"atol": 0.02}, ": 2, within 0.02"),
        (2.03, 2.0, {"rtol": 0.01, "atol": 0.02}, ": 2, within 1 % + 0.02"),
        ([1.0, 2.0], [1.0, 2.0], {}, ": 1, 2, exactly"),
        (torch.ones(2, 3), 1.0, {}, ": 1, exactly"),
        (torch.tensor(3.0, requires_grad=True), 3, {}, ": 3, exactly"),
        (torch.ones(1, dtype=torch.bfloat16), 1, {}, ": 1, exactly"),
        (np.arange(8.0), np.arange(8), {}, ": 0, 1, 2, 3, 4, 5, …, exactly"),
        (0.5, None, {"above": 0.4}, ": above 0.4"),
        ([0.5, 0.6], None, {"below": 1}, ": below 1"),
        (0.5, None, {"above": 0.4, "below": 0.6}, ": above 0.4 below 0.6"),
        (0.5, None, {"above": 0}, ": above 0"),
    ],
)
def test_what_holds_prints_one_line(measured, expected, options, asserted, capsys):
    claim(SOME, measured, expected, **options)
    assert capsys.readouterr().out == f"✓ {SOME}  {STATEMENTS[SOME]}{asserted}\n"


@pytest.mark.parametrize(
    ("measured", "expected", "options"),
    [
        (False, None, {}),
        (2.02, 2.0, {"rtol": 0.009}),
        (2.02, 2.0, {"atol": 0.019}),
        (-2.0, 2.0, {"rtol": 0.5}),
        ([1.0, 3.0], [1.0, 2.0], {"rtol": 0.1}),
        (0.4, None, {"above": 0.4}),
        (0.6, None, {"below": 0.6}),
        ([0.5, 0.7], None, {"above": 0.4, "below": 0.6}),
        (float("nan"), 1.0, {"rtol": 100.0}),
        (float("nan"), float("nan"), {}),
        (float("nan"), None, {"above": -1e300}),
        ([1.0, float("nan")], None, {"below": 1e300}),
        (float("inf"), 1.0, {"rtol": 1.0}),
    ],
)
def test_what_does_not_hold_raises_and_prints_nothing(measured, expected, options, capsys):
    with pytest.raises(ClaimError, match=f"✗ {SOME}  "):
        claim(SOME, measured, expected, **options)
    assert capsys.readouterr().out == ""


def test_the_error_names_the_measured_values_that_are_wrong():
    with pytest.raises(ClaimError, match=r"2, within 1 % wanted, measured 3\.14, nan$"):
        claim(SOME, [2.0, 3.14159, float("nan")], 2.0, rtol=0.01)


@pytest.mark.parametrize("options", [{"expected": 1.0, "rtol": 0.5}, {"above": 0.1}, {"above": 0.1, "below": 3.0}])
def test_the_line_does_not_depend_on_the_measured_digits(options, capsys):
    for measured in (0.9, 1.1234567):
        claim(SOME, measured, **options)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_says_replaces_the_statement(capsys):
    claim(SOME, True, says="what this cell shows")
    assert capsys.readouterr().out == f"✓ {SOME}  what this cell shows\n"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: claim("Z99", True), r"claim_id: one of .* wanted, got 'Z99'"),
        (lambda: claim(SOME, 1.0, 1.0, above=0.0), "either an expected value or bounds"),
        (lambda: claim(SOME, 0.5), "measured: a boolean wanted where nothing is expected, got float"),
        (lambda: claim(SOME, torch.tensor(True)), "got Tensor"),
        (lambda: claim(SOME, [1.0, 2.0], [1.0, 2.0, 3.0]), r"shape \(2,\) of the measurement wanted, got \(3,\)"),
        (lambda: claim(SOME, 1.0, [1.0, 1.0]), r"shape \(\) of the measurement wanted, got \(2,\)"),
        (lambda: claim(SOME, [], 1.0), "at least one number wanted"),
        (lambda: claim(SOME, [], above=1.0), "at least one number wanted"),
    ],
)
def test_bad_use_is_named(call, words, capsys):
    with pytest.raises(ValueError, match=words):
        call()
    assert capsys.readouterr().out == ""
