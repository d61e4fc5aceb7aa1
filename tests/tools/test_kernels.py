"""Notebooks run in a bare environment, and strict nbval's verdict comes back."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from tools import kernels, refresh


@pytest.fixture
def notebook_of(tmp_path):
    """Writes a notebook of code cells; with `run`, as `refresh` stores it."""

    def make(*sources, run=True):
        path = tmp_path / "small.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources]), path)
        if run:
            refresh.refresh(path)
        return path

    return make


def test_nothing_of_the_user_reaches_a_kernel(notebook_of, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", "/users/own")
    monkeypatch.setenv("MPLBACKEND", "svg")
    source = "import os\nprint(os.environ['ADDNORM_LANG'], os.environ['OMP_NUM_THREADS'], os.environ.get('MPLBACKEND'))"
    path = notebook_of(source, "print(os.environ['JUPYTER_CONFIG_DIR'] == '/users/own')")
    first, second = (cell.outputs[0].text for cell in refresh.read(path).cells)
    assert first.split()[:2] == ["en", "1"] and "svg" not in first
    assert second == "False\n"
    assert kernels.os.environ["JUPYTER_CONFIG_DIR"] == "/users/own"


def test_a_failing_cell_is_named_in_one_line(notebook_of):
    path = notebook_of("x = 1", "x / 0", run=False)
    before = path.read_bytes()
    with pytest.raises(kernels.NotebookError, match=r"^cell 1: ZeroDivisionError: division by zero$"):
        refresh.refresh(path)
    assert path.read_bytes() == before


def test_strict_passes_what_was_stored_and_fails_what_changed(notebook_of):
    path = notebook_of("print(1)", "2")
    kernels.strict(Path(sys.executable), path)
    path.write_text(path.read_text().replace('"1\\n"', '"3\\n"'))
    with pytest.raises(
        kernels.NotebookError, match=r"(?s)small.ipynb does not hold under strict nbval.*1 failed, 1 passed"
    ):
        kernels.strict(Path(sys.executable), path)


def test_the_command_line_runs_several_and_says_which_failed(notebook_of, tmp_path):
    good = notebook_of("print(1)").rename(tmp_path / "good.ipynb")
    bad = notebook_of("1 / 0", run=False)
    command = [sys.executable, "-m", "tools.notebooks", "refresh", str(good), str(bad)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stdout == "good.ipynb: done\n"
    assert run.stderr == "small.ipynb: cell 0: ZeroDivisionError: division by zero\n"


LINES = """\
✓ C6  share restored: 0.21 … 0.23, expected 0.22 ± 0.03
✓ C9  one token (of 3: 4) takes all: 4.4e−16, below 0.05
✓ C2  by hand: −1.34, 0, 1.34, expected −1.34, 0, 1.34 ± 1e−4
"""


def compared(text):
    """Return what nbval compares of an output."""
    for pattern, replacement in get_sanitize_patterns(kernels.SANITIZER.read_text("utf-8")):
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("0.21 … 0.23", "0.2 … 0.24", True),
        ("0.21 … 0.23", "0.22", True),
        ("4.4e−16", "0.0041", True),
        ("4.4e−16", "−2", True),
        ("4.4e−16", "inf", True),
        ("0.22 ± 0.03", "0.23 ± 0.03", False),
        ("0.22 ± 0.03", "0.22 ± 0.04", False),
        ("expected 0.22", "expected exactly 0.22", False),
        ("below 0.05", "below 0.06", False),
        ("below 0.05", "above 0.05", False),
        ("✓ C9", "✗ C9", False),
        ("✓ C9", "✓ C8", False),
        ("(of 3: 4)", "(of 3: 5)", False),
        ("share restored", "share kept", False),
        ("4.4e−16", "much", False),
        ("✓ C6", "○ C6", False),
        (": −1.34, 0, 1.34, exp", ": −1.34, 0.001, 1.34, exp", True),
        ("expected −1.34, 0", "expected −1.34, 1", False),
    ],
)
def test_of_a_claims_line_the_measured_number_alone_may_differ(old, new, same):
    changed = LINES.replace(old, new)
    assert changed != LINES
    assert (compared(changed) == compared(LINES)) is same


def test_strict_and_plain_nbval_let_the_measured_number_differ_and_no_bound(notebook_of):
    """In a folder of the project, from another one: nothing is set, and no option is given but --nbval."""
    path = notebook_of("from addnorm_lib.course import claim\nclaim('C9', 0.0123, below=0.05, says='so')", "1")
    stored = path.read_text("utf-8")
    changed = stored.replace("so: 0.012, below", "so: 0.023, below")
    assert changed != stored
    folder = kernels.SANITIZER.parents[1] / "build" / "plain"
    folder.mkdir(parents=True, exist_ok=True)
    inside = folder / "notebook.ipynb"
    for text, status in ((changed, 0), (stored.replace(", below 0.05", ", below 0.06"), 1)):
        path.write_text(text, "utf-8")
        inside.write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "--nbval", str(inside)]
        variables = {k: v for k, v in kernels.os.environ.items() if not k.startswith("PYTEST_")}
        run = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent, env=variables)
        assert run.returncode == status, run.stdout + run.stderr
        if status:
            with pytest.raises(kernels.NotebookError, match="does not hold"):
                kernels.strict(Path(sys.executable), path)
        else:
            kernels.strict(Path(sys.executable), path)


def test_a_cell_may_change_the_environment_that_it_is_run_in(notebook_of):
    path = notebook_of("import os\nprint(os.environ['OMP_NUM_THREADS'])")
    kernels.strict(Path(sys.executable), path)
    with pytest.raises(kernels.NotebookError, match="does not hold"):
        kernels.strict(Path(sys.executable), path, {"OMP_NUM_THREADS": "2"})
