"""What a stored notebook keeps: text and outputs, and nothing that changes from run to run or between machines."""

import hashlib
import re
from pathlib import Path

import nbformat

from tools.kernels import execute

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
KEPT_CELL_METADATA = ("addnorm", "tags")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def tidy(notebook: nbformat.NotebookNode) -> None:
    """Strip, in place, what must not be stored: widget state and model ids, times, paths, editors' metadata."""
    kept = {"addnorm": notebook.metadata["addnorm"]} if "addnorm" in notebook.metadata else {}
    notebook.metadata = nbformat.from_dict({**kept, "kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    for index, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({k: cell.metadata[k] for k in KEPT_CELL_METADATA if cell.metadata.get(k)})
        name = cell.get("id", "")
        if name in seen or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            name = hashlib.sha256(f"{index} {cell.source}".encode()).hexdigest()[:8]
        cell["id"] = name
        seen.add(name)
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
            if "data" in output:
                # A model id dies with its kernel; the picture and its description beside it are what a reader sees.
                output.data.pop(WIDGET_VIEW, None)


def read(path: Path) -> nbformat.NotebookNode:
    """Read a notebook as version 4."""
    return nbformat.read(path, as_version=4)


def write(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook in one step, keys sorted, so that an interrupted run leaves the old file."""
    draft = path.with_name(path.name + ".new")
    draft.write_text(nbformat.writes(notebook) + "\n", "utf-8")
    draft.replace(path)


def refresh(path: Path) -> None:
    """Run the notebook, tidy it and store it in place; a failing notebook is left as it was."""
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    tidy(notebook)
    execute(notebook, path.parent)
    tidy(notebook)
    write(notebook, path)
