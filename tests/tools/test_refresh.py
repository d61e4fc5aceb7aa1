"""What is stored is the same whoever ran it, and twice the same."""

import nbformat
import pytest

from tools import refresh

WIDGET = """\
import ipywidgets, base64
from IPython.display import display
slider = ipywidgets.IntSlider()
view = {"version_major": 2, "version_minor": 0, "model_id": slider.model_id}
display({"application/vnd.jupyter.widget-view+json": view, "text/plain": "A slider at nought."}, raw=True)"""


@pytest.fixture
def path(tmp_path):
    new = nbformat.v4
    notebook = new.new_notebook(
        cells=[new.new_markdown_cell("# Title"), new.new_code_cell("print(1 + 1)"), new.new_code_cell(WIDGET)],
        metadata={
            "widgets": {"state": {}},
            "papermill": {"path": "/somewhere"},
            "kernelspec": {"name": "mine", "display_name": "Mine"},
        },
    )
    notebook.cells[1].metadata = {"execution": {"iopub.status.idle": "2026"}, "tags": ["seen"], "collapsed": True}
    notebook.cells[1].execution_count = 7
    path = tmp_path / "small.ipynb"
    nbformat.write(notebook, path)
    return path


def test_only_what_readers_need_is_stored(path):
    refresh.refresh(path)
    stored = refresh.read(path)
    nbformat.validate(stored)
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    assert stored.metadata.kernelspec.name == "python3" and "version" not in stored.metadata.language_info
    assert stored.cells[1].metadata == {"tags": ["seen"]}
    assert [cell.execution_count for cell in stored.cells[1:]] == [1, 2]
    assert stored.cells[1].outputs[0].text == "2\n"
    assert stored.cells[2].outputs[0].data == {"text/plain": "A slider at nought."}


def test_a_second_refresh_changes_nothing(path):
    refresh.refresh(path)
    once = path.read_bytes()
    refresh.refresh(path)
    assert path.read_bytes() == once
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_doubled_and_missing_cell_ids_become_stable_ones(path):
    first, second = refresh.read(path), refresh.read(path)
    for notebook in (first, second):
        notebook.cells[2]["id"] = notebook.cells[1]["id"]
        del notebook.cells[0]["id"]
        refresh.tidy(notebook)
    ids = [cell["id"] for cell in first.cells]
    assert len(set(ids)) == 3
    assert ids == [cell["id"] for cell in second.cells]
    assert ids[1] == refresh.read(path).cells[1]["id"]
