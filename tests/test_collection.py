"""Every notebook of the collection, run as stored, solved, with Colab's versions, and far from this machine.

What is trained once need not be trained again: the runs of one setting share their finished records. Whichever run of
a notebook comes first trains; the folder is new each time that the tests are run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap, portability
from tools.kernels import clean_environment, strict
from tools.notebooks import all_notebooks
from tools.setup_cell import ROOT
from tools.solving import solve

REQUIRED = os.environ.get("ADDNORM_REQUIRE", "").split(",")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]  # only what hangs is ended
every_notebook = pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
with_colab = pytest.mark.skipif(
    not bootstrap.read_marker(bootstrap.COLAB_VENV).get("done"), reason="Colab's versions: no .venv-colab"
)


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """Environment variables that let the runs of one setting find each other's records; one folder for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return {"ADDNORM_RECORDS": str(shared / "records")}


@every_notebook
def test_holds_as_stored(path, kept):
    strict(Path(sys.executable), path, kept)


@every_notebook
@with_colab
def test_holds_with_colabs_versions(path, kept):
    strict(bootstrap.python_of(bootstrap.COLAB_VENV), path, kept)


@every_notebook
def test_every_solution_passes(path, kept):
    solve(path, only_affected=True, changes=kept)


@with_colab
def test_the_engine_trains_with_colabs_versions():
    """The notebooks above may have taken finished records: here each of the engine's paths trains."""
    python = bootstrap.python_of(bootstrap.COLAB_VENV)
    with clean_environment({"PYTHONPATH": str(ROOT)}) as environment:
        environment.pop("ADDNORM_RECORDS", None)
        script = ROOT / "tests" / "experiments" / "engine_paths.py"
        run = subprocess.run([python, script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "6 of 6 paths train"


@every_notebook
@pytest.mark.skipif("portability" not in REQUIRED, reason="portability: `python -m tools.notebooks portable`")
def test_holds_far_from_this_machine(path, tmp_path_factory):
    outcome = portability.hold(path, portability.FAR, tmp_path_factory.mktemp("far"))
    assert not outcome.problem, str(outcome)
