"""Every notebook of the collection, run three ways: as stored, solved, and with Colab's versions."""

import sys
from pathlib import Path

import pytest

from tools import bootstrap
from tools.kernels import strict
from tools.notebooks import all_notebooks
from tools.solving import solve

pytestmark = pytest.mark.slow
every_notebook = pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)


@every_notebook
def test_holds_as_stored(path):
    strict(Path(sys.executable), path)


@every_notebook
@pytest.mark.skipif(not bootstrap.read_marker(bootstrap.COLAB_VENV).get("done"), reason="no .venv-colab")
def test_holds_with_colabs_versions(path):
    strict(bootstrap.python_of(bootstrap.COLAB_VENV), path)


@every_notebook
def test_every_solution_passes(path):
    solve(path, only_affected=True)
