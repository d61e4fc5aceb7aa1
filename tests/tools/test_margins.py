"""Margins: the recorder sees every claim with other seeds, and the scale is the one that the page explains."""

import json
import math

import nbformat
import pytest

from tools import margins, portability, refresh
from tools.settings import Setting


def line(measured, low=-math.inf, high=math.inf, cell=1, call=0):
    values = [measured] if isinstance(measured, float) else measured
    bounds = {"low": [low] * len(values), "high": [high] * len(values)}
    holds = all(low < value < high for value in values)
    return {"cell": cell, "call": call, "claim": "C1", "says": "so", "asserted": "", "measured": values,
            "holds": holds, **bounds}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "margin"),
    [
        (line(2.0, low=1.0), 1.0),
        (line(1.05, low=1.0), 0.05),
        (line(0.5, low=1.0), -0.5),
        (line(0.01, high=0.05), 0.8),
        (line(0.22, low=0.19, high=0.25), 1.0),
        (line(0.245, low=0.19, high=0.25), 1 / 6),
        (line(0.97, low=0.95), 0.4),
        (line([3.0, 0.1, 5.0], low=0.0), 0.1 / 3.0),
        (line(math.nan, low=0.0), -math.inf),
    ],
)
def test_a_margin_is_a_share(told, margin):
    (found,) = margins.summarise("chapter", [("own, seeds 0", [told])])
    assert found.margin == pytest.approx(margin)


def test_the_smallest_margin_of_all_runs_counts_and_says_where():
    runs = [("a", [line(2.0, low=1.0)]), ("b", [line(1.1, low=1.0)]), ("c", [line(3.0, low=1.0)])]
    (found,) = margins.summarise("chapter", runs)
    assert (found.where, found.nearest, found.runs) == ("b", 1.1, 3)
    assert "| C1 | so | 1.1 |" in margins.table({"chapter": [found]})


def test_a_boolean_that_fails_somewhere_is_listed_first():
    truth = line([], cell=2) | {"holds": False}
    found = margins.summarise("chapter", [("a", [line(2.0, low=1.0), truth])])
    assert (found[0].asserted, found[0].where) == ("true", "a")


def recorded(path, seed_set, out):
    return [json.loads(text) for text in margins.record(path, Setting(), seed_set, out).read_text("utf-8").splitlines()]


def test_claims_are_recorded_with_other_seeds(tmp_path):
    source = """\
import numpy as np, torch
from addnorm_lib.course import claim
claim("C1", torch.randn(1, generator=torch.Generator().manual_seed(0)), above=0)
torch.manual_seed(1)
claim("C2", [float(torch.randn(1)), np.random.default_rng(2).normal()], 0, atol=1e-9)
claim("C3", False)"""
    path = tmp_path / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in ("1", source)]), path)
    first, again, other = (recorded(path, seeds, tmp_path / name) for seeds, name in ((0, "a"), (0, "b"), (3, "c")))
    assert first == again
    assert [told["claim"] for told in first] == ["C1", "C2", "C3"]
    assert [told["cell"] for told in first] == [2, 2, 2]
    numbers, moved = ([value for told in lines for value in told["measured"]] for lines in (first, other))
    assert len(numbers) == 3 and all(a != b for a, b in zip(numbers, moved, strict=True))
    assert not first[2]["holds"]


def test_what_differs_in_a_setting_is_told_with_its_cell(tmp_path):
    cells = [nbformat.v4.new_code_cell(s) for s in ("1", "import os\nprint(os.environ['OMP_NUM_THREADS'])")]
    path = tmp_path / "threads.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    refresh.refresh(path)
    reported = []
    outcomes = portability.run([path], [Setting(), Setting(threads=2)], reported.append)
    assert outcomes == reported
    assert [bool(outcome.problem) for outcome in outcomes] == [False, True]
    assert "Cell 1" in outcomes[1].problem
    rows = portability.table(outcomes).splitlines()
    assert rows[2] in portability.page(outcomes) and "processor" in portability.page(outcomes)
    assert rows[2].startswith("| own instructions, 1 thread, text own, pinned | ") and rows[3].endswith("| ✗ |")
