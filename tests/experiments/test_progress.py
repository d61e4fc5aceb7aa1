"""A bar for a live reader, after a while, and nothing of it in what is stored; for nobody else."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from addnorm_lib.experiments import progress
from tools import kernels

ROOT = Path(__file__).parents[2]
# A bar that would show at once, as on a machine on which everything takes longer than two seconds.
CELL = """
from addnorm_lib.experiments import progress
progress.DELAY = 0.0
print("before")
with progress.progress_bar(3) as bar:
    for step in range(3):
        bar.update()
print(type(bar).__name__)
"""


def outputs(live):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(CELL))])
    client = NotebookClient(notebook, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(ROOT)}})
    with kernels.clean_environment() as environment, kernels._in_force(environment), client.setup_kernel():
        client.kc.allow_stdin = live
        client.execute_cell(notebook.cells[0], 0)
    return notebook.cells[0].outputs


def test_whoever_cannot_answer_gets_no_bar():
    assert [(o.output_type, o.get("text")) for o in outputs(live=False)] == [("stream", "before\nSilent\n")]


def test_a_live_reader_sees_a_bar_that_leaves_nothing_behind():
    shown = outputs(live=True)
    assert "".join(o.get("text", "") for o in shown) == "before\n_InNotebook\n"
    (bar,) = [o for o in shown if o.output_type == "display_data"]
    assert bar.data == {}


@pytest.mark.parametrize("wanted", [True, False])
def test_without_a_terminal_there_is_no_bar(wanted, monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with progress.progress_bar(2, wanted) as bar:
        bar.update(2)
    assert isinstance(bar, progress.Silent)
    assert capsys.readouterr() == ("", "")


def test_at_a_terminal_there_is_one(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress.progress_bar(2) as bar:
        assert bar.total == 2 and not isinstance(bar, progress.Silent)
    with progress.progress_bar(2, wanted=False) as bar:
        assert isinstance(bar, progress.Silent)


def test_a_script_without_a_main_guard_trains_and_prints_what_it_prints(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from addnorm_lib.experiments.depth import depth_runs\n"
        "from addnorm_lib.experiments.training import train\n"
        "print(train(depth_runs(depths=(1,), steps=2, seeds=(0,)), workers=2).values('kind'))\n"
    )
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "['plain', 'residual']\n", "")
