"""Solutions are injected and every check has to pass; cells that no solution touches need not run again."""

from types import SimpleNamespace

import nbformat
import pytest

from tools import chapters, refresh, solving
from tools.kernels import NotebookError

CHECK = """\
def check(id, answer):
    try:
        print(f"✓ {id} right" if answer(3) == 6 else f"✗ {id} wrong")
    except NotImplementedError:
        print(f"○ {id} not attempted yet")"""
SOURCES = [
    "import math  # stands for the set-up cell",
    CHECK,
    "def slow(x):\n    return math.factorial(x)",
    "long_run = slow(9)",
    "two = 1\nsettings = {}",
    "settings['two'] = 2",
    "def double(x):\n    raise NotImplementedError",
    'check("1.1", double)',
    "try:\n    eight = double(4)\nexcept NotImplementedError:\n    eight = None",
    "print(eight)",
]
SOLUTION = "def double(x):\n    return settings['two'] * x"


@pytest.fixture
def solve(tmp_path, monkeypatch):
    """Solves the small notebook with a given solution; returns its ✓ lines and the notebook that was written."""

    def run(solution, sources=SOURCES, **options):
        exercise = SimpleNamespace(id="1.1", claims=(), stub=SOURCES[6], solution_source=solution)
        monkeypatch.setattr(chapters, "exercises", lambda number: [exercise])
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        for cell in notebook.cells:
            if cell.source.startswith("def double"):
                cell.metadata["addnorm"] = {"exercise": "1.1"}
        path = tmp_path / "01_small.ipynb"
        nbformat.write(notebook, path)
        passed = solving.solve(path, tmp_path / "solved.ipynb", **options)
        return passed, refresh.read(tmp_path / "solved.ipynb")

    return run


def test_a_right_solution_passes(solve):
    passed, notebook = solve(SOLUTION)
    assert passed == ["✓ 1.1 right"]
    assert notebook.cells[6].source == SOLUTION
    assert notebook.cells[-1].outputs[0].text == "8\n"


def test_only_what_a_solution_can_change_is_run(solve):
    passed, notebook = solve(SOLUTION, only_affected=True)
    assert passed == ["✓ 1.1 right"]
    sources = [cell.source for cell in notebook.cells]
    assert sources == [*SOURCES[:2], *SOURCES[4:6], SOLUTION, *SOURCES[7:]]


def test_a_slice_holds_what_is_wanted_and_what_that_needs():
    sources = [*SOURCES[:5], "import os\nfrom os import path", *SOURCES[5:], "print(settings)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.cells.insert(3, nbformat.v4.new_markdown_cell("Not code."))

    def left(wanted, **options):
        return [cell.source for cell in solving.sliced(notebook, lambda cell: cell.source == wanted, **options)]

    assert left("print(eight)") == [SOURCES[0], sources[5], SOURCES[6], *SOURCES[8:]]
    assert left("print(settings)") == [SOURCES[0], *sources[4:7], "print(settings)"]
    assert left(SOURCES[5]) == [SOURCES[0], *sources[4:7]]
    assert left(SOURCES[5], forwards=True) == [SOURCES[0], *sources[4:7], "print(settings)"]


def test_a_wrong_solution_is_named(solve):
    with pytest.raises(NotebookError, match=r"the solution of 1.1 does not pass: \['✗ 1.1 wrong'\]"):
        solve("def double(x):\n    return x")


def test_an_exercise_without_check_or_stub_is_named(solve):
    with pytest.raises(NotebookError, match=r"1.1 does not pass: it is never checked"):
        solve(SOLUTION, [s for s in SOURCES if not s.startswith("check")])
    with pytest.raises(NotebookError, match=r"exercise 1.1 has no stub cell"):
        solve(SOLUTION, [s for s in SOURCES if not s.startswith("def double")])
