"""A chapter in a real JupyterLab: readable before it is run, alive after, and an exercise solved by typing.

The notebook here is a small one with the parts that every chapter has; `CHAPTERS` lists the real ones.
"""

import re
import shutil
from pathlib import Path

import nbformat
import pytest

from tools import chapters, refresh, setup_cell, solving

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(3600),  # only what hangs is ended
    pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def lab(small_notebook, tmp_path_factory):
    """One JupyterLab and one Chromium for all tests here; what they show is each test's own (see `desk`)."""
    from tools.lab import browser_page, jupyterlab

    folder = tmp_path_factory.mktemp("lab")
    with jupyterlab(folder) as address, browser_page() as page:
        yield folder, address, page


@pytest.fixture
def desk(lab, request):
    """A folder, and a function that opens a notebook of that folder in a page of this test's own."""
    from tools.lab import OpenNotebook, end_kernels

    root, address, first = lab
    folder = root / re.sub(r"\W", "_", request.node.name)
    folder.mkdir()
    page = first.context.new_page()
    yield folder, lambda name: OpenNotebook(page, address, f"{folder.name}/{name}")
    page.close()
    end_kernels(first, address)


def test_the_page_says_what_is_broken(small_notebook, desk):
    """The other test relies on `errors()`: it has to see an error where there is one."""
    folder, open_notebook = desk
    notebook = nbformat.read(small_notebook.path, as_version=4)
    notebook.cells = [nbformat.v4.new_code_cell("print('before')"), nbformat.v4.new_code_cell("1 / 0")]
    nbformat.write(notebook, folder / "broken.ipynb")
    opened = open_notebook("broken.ipynb")
    assert opened.errors() == []
    opened.run_all()
    assert "ZeroDivisionError" in opened.errors()[0]


@pytest.mark.parametrize("path", [None, *CHAPTERS], ids=lambda p: p.stem if p else "small")
def test_a_reader_works_through_a_notebook(path, small_notebook, desk):
    folder, open_notebook = desk
    exercise = small_notebook.exercise if path is None else chapters.exercises(chapters.number(path))[0]
    stored = nbformat.read(shutil.copy(small_notebook.path if path is None else path, folder / "chapter.ipynb"), 4)
    pictures = sum("image/png" in o.get("data", {}) for cell in stored.cells for o in cell.get("outputs", ()))
    n_panels = sum(map(_panels, stored.cells))
    _write_slice(stored, exercise, folder / "slice.ipynb")

    # As stored: every picture is there, drawn, and nothing looks broken.
    opened = open_notebook("chapter.ipynb")
    shown = opened.page.locator(".jp-OutputArea-output img")
    assert pictures > 0
    shown.nth(pictures - 1).wait_for()
    assert shown.count() == pictures
    assert all(shown.evaluate_all("all => all.map(e => e.complete && e.naturalWidth > 0)"))
    assert opened.errors() == []

    # Run: every panel and the first exercise, and what they need.
    opened = open_notebook("slice.ipynb")
    opened.run_all()
    assert opened.errors() == []
    assert f"○ {exercise.id} " in _text(opened)

    panels = opened.page.locator(".addnorm-panel")
    assert n_panels > 0
    panels.nth(n_panels - 1).wait_for()
    assert panels.count() == n_panels
    for panel in panels.all():
        _move_every_slider(opened.page, panel)

    source = exercise.stub.strip().splitlines()[0]
    stub = opened.code_cells.filter(has_text=source).first
    opened.replace_source(stub, exercise.solution_source)
    opened.run_cell(stub)
    check = opened.code_cells.filter(has_text=f'check("{exercise.id}"').first
    opened.run_cell(check)
    assert f"✓ {exercise.id} " in check.locator(".jp-OutputArea").inner_text()
    assert opened.errors() == []


def _panels(cell):
    """How many panels the stored cell shows: a picture is a panel's unless its words follow it once more, in italics.

    (A figure's do; whoever reads the stored page sees a panel's words in the picture.)
    """
    outputs = [output.data for output in cell.get("outputs", ()) if "data" in output]
    told = {data["text/plain"] for data in outputs if "text/markdown" in data}
    return sum("image/png" in data and data["text/plain"] not in told for data in outputs)


def _write_slice(notebook, exercise, out):
    """Write the cells with panels, the exercise's stub and its check, and the cells that these need, not yet run."""
    (stub,) = (cell for cell in notebook.cells if chapters.exercise_of(cell) == exercise.id)
    asked = stub.source
    stub.source += "\n" + exercise.solution_source  # what the solution needs has to be there, too
    check = re.compile(rf"\bcheck\(\s*[\"']{re.escape(exercise.id)}[\"']")
    notebook.cells = solving.sliced(
        notebook, lambda cell: bool(cell is stub or _panels(cell) or check.search(cell.source))
    )
    stub.source = asked
    for cell in notebook.cells:
        cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, out)


def _move_every_slider(page, panel):
    """Each slider, moved by one key, changes the picture and the words."""
    picture, readout = panel.locator("img.addnorm-picture"), panel.locator(".addnorm-readout")
    handles = panel.locator(".noUi-handle").all()
    assert handles
    for handle in handles:
        before = picture.get_attribute("src"), readout.inner_text()
        at_the_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
        handle.press("ArrowLeft" if at_the_end else "ArrowRight")
        page.wait_for_function(
            "([img, src, text, old]) => img.src != src && text.innerText != old",
            arg=[picture.element_handle(), before[0], readout.element_handle(), before[1]],
        )


def _text(opened):
    return "\n".join(opened.page.locator(".jp-OutputArea-output").all_inner_texts())


class _Small:
    """A stored notebook with a panel, a stub and a check, and its exercise."""

    class exercise:
        id = "0.1"
        stub = "def double(x):\n    raise NotImplementedError"
        solution_source = "def double(x):\n    return 2 * x"

    def __init__(self, path: Path):
        self.path = path
        cells = [
            setup_cell.text(setup_cell.address()),
            PNG_SOURCE,
            PANEL_SOURCE,
            "box = panel()\nshow(box)",
            self.exercise.stub,
            CHECK_SOURCE,
            'check("0.1", double)',
        ]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.cells[4].metadata["addnorm"] = {"exercise": "0.1"}
        nbformat.write(notebook, path)
        refresh.refresh(path)


PNG_SOURCE = """\
import base64, struct, zlib
def png(grey):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\\0" + bytes([grey]) * 64) * 32
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 32, 8, 0, 0, 0, 0))
    return b"\\x89PNG\\r\\n\\x1a\\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")"""
PANEL_SOURCE = """\
import ipywidgets as w
from IPython.display import display
def panel():
    slider, picture, text = w.IntSlider(3, 0, 9), w.Image(value=png(90)), w.HTML("grey is 90")
    picture.add_class("addnorm-picture"), text.add_class("addnorm-readout")
    def draw(change):
        picture.value, text.value = png(30 * change.new), f"grey is {30 * change.new}"
    slider.observe(draw, "value")
    return w.VBox([slider, picture, text]).add_class("addnorm-panel")
def show(box):
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    data = {"image/png": base64.b64encode(png(90)).decode(), "text/plain": "A grey rectangle, 64 by 32."}
    display({"application/vnd.jupyter.widget-view+json": view, **data}, raw=True)"""
CHECK_SOURCE = """\
def check(id, answer):
    try:
        print(f"✓ {id} right" if answer(3) == 6 else f"✗ {id} wrong")
    except NotImplementedError:
        print(f"○ {id} not attempted yet")"""


@pytest.fixture(scope="module")
def small_notebook(tmp_path_factory):
    return _Small(tmp_path_factory.mktemp("small") / "small.ipynb")
