"""`claim`: it raises on what does not hold, and prints what was measured beside what was asserted."""

import re

import numpy as np
import pytest
import torch

from addnorm_lib.course import contents
from addnorm_lib.course.assertions import ClaimError, chapter_claims, claim, claims, statements

STATEMENTS = statements()
SOME = next(iter(STATEMENTS))


def test_every_chapters_claims_have_a_statement_and_every_statement_a_chapter():
    named = [claim_id for number in contents.chapters() for claim_id in chapter_claims(number)]
    assert set(named) == set(STATEMENTS)
    assert all(re.fullmatch(r"[A-Z]+\d+", claim_id) for claim_id in STATEMENTS)
    assert all(statement.strip() for statement in STATEMENTS.values())
    assert len(set(STATEMENTS.values())) == len(STATEMENTS)


@pytest.mark.parametrize(
    ("measured", "expected", "options", "told"),
    [
        (True, None, {}, ""),
        (np.bool_(True), None, {}, ""),
        (2.0, 2.0, {}, ": 2, expected exactly 2"),
        (2.01, 2.0, {"rtol": 0.01}, ": 2.01, expected 2 ± 1 %"),
        (0.2213, 0.22, {"atol": 0.03}, ": 0.22, expected 0.22 ± 0.03"),
        (2.03, 2.0, {"rtol": 0.01, "atol": 0.02}, ": 2.03, expected 2 ± 1 % + 0.02"),
        (1.066667, 0.9 + 0.5 / 3, {"rtol": 1e-5}, ": 1.06667, expected 1.06667 ± 0.001 %"),
        (1.0, 1.0, {"rtol": 1e-9}, ": 1, expected 1 ± 1e−7 %"),
        ([2.0, 1.0], [2.0, 1.0], {}, ": 2, 1, expected exactly 2, 1"),
        (torch.ones(2, 3), 1.0, {}, ": 1, expected exactly 1"),
        (torch.tensor(3.0, requires_grad=True), 3, {}, ": 3, expected exactly 3"),
        (torch.ones(1, dtype=torch.bfloat16), 1, {}, ": 1, expected exactly 1"),
        (np.arange(9.0), np.arange(9), {}, ": 0 … 8, expected exactly 0, 1, 2, 3, 4, 5, 6, 7, …"),
        (4096, 4096, {}, ": 4096, expected exactly 4096"),
        ([-2.2e-16, 4.4e-16], 0, {"atol": 1e-12}, ": −2.2e−16 … 4.4e−16, expected 0 ± 1e−12"),
        (0.5, None, {"above": 0.4}, ": 0.50, above 0.4"),
        ([0.553, 0.617], None, {"below": 0.8}, ": 0.55 … 0.62, below 0.8"),
        (127.3, None, {"above": 50}, ": 130, above 50"),
        (0.0041, None, {"below": 0.05}, ": 0.0041, below 0.05"),
        (2.2e7, None, {"above": 1e6}, ": 2.2e7, above 1e6"),
        (-0.451, None, {"below": -0.2}, ": −0.45, below −0.2"),
        (0.5, None, {"above": 0.4, "below": 0.6}, ": 0.50, between 0.4 and 0.6"),
        (0.5, None, {"above": 0}, ": 0.50, above 0"),
    ],
)
def test_what_holds_prints_what_was_measured_and_what_was_asserted(measured, expected, options, told, capsys):
    claim(SOME, measured, expected, **options)
    assert capsys.readouterr().out == f"✓ {SOME}  {STATEMENTS[SOME]}{told}\n"


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
        (float("inf"), None, {"above": 1.0}),
    ],
)
def test_what_does_not_hold_raises_and_prints_nothing(measured, expected, options, capsys):
    with pytest.raises(ClaimError, match=f"✗ {SOME}  "):
        claim(SOME, measured, expected, **options)
    assert capsys.readouterr().out == ""


def test_the_error_names_the_measured_values_that_are_wrong():
    with pytest.raises(ClaimError, match=r": 3\.14, nan, expected 2 ± 1 %$"):
        claim(SOME, [2.0, 3.14159, float("nan")], 2.0, rtol=0.01)


def test_claims_are_looked_up_by_id_and_by_chapter(capsys):
    claims(SOME)
    assert capsys.readouterr().out == f"{SOME:<4} {STATEMENTS[SOME]}\n"
    claims(3)
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert told == list(chapter_claims(3)) == [f"C{number}" for number in range(1, 19)]
    claims()
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == set(STATEMENTS)
    for wrong in ("Z99", 99, None):
        with pytest.raises(ValueError, match="wanted: a chapter"):
            claims(wrong)


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
