"""Notebooks run in a bare environment, and strict nbval's verdict comes back."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

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
