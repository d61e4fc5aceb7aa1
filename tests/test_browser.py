"""A chapter in a real JupyterLab: readable before it is run, alive after, and an exercise solved by typing.

The notebook here is a small one with the parts that every chapter has; `CHAPTERS` lists the real ones.
"""

import shutil
from pathlib import Path

import nbformat
import pytest

from tools import chapters, refresh, setup_cell

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="Chromium is not installed"),
]


def test_the_page_says_what_is_broken(small_notebook, tmp_path):
    """The other test relies on `errors()`: it has to see an error where there is one."""
    from tools.lab import OpenNotebook, browser_page, jupyterlab

    notebook = nbformat.read(small_notebook.path, as_version=4)
    notebook.cells = [nbformat.v4.new_code_cell("print('before')"), nbformat.v4.new_code_cell("1 / 0")]
    nbformat.write(notebook, tmp_path / "broken.ipynb")
    with jupyterlab(tmp_path) as address, browser_page() as page:
        opened = OpenNotebook(page, address, "broken.ipynb")
        assert opened.errors() == []
        opened.run_all()
        assert "ZeroDivisionError" in opened.errors()[0]


@pytest.mark.parametrize("path", [None, *CHAPTERS], ids=lambda p: p.stem if p else "small")
def test_a_reader_works_through_a_notebook(path, small_notebook, tmp_path):
    from tools.lab import OpenNotebook, browser_page, jupyterlab

    exercise = small_notebook.exercise if path is None else chapters.exercises(chapters.number(path))[0]
    stored = shutil.copy(small_notebook.path if path is None else path, tmp_path / "chapter.ipynb")
    pictures = sum(
        "image/png" in o.get("data", {}) for c in nbformat.read(stored, 4).cells for o in c.get("outputs", ())
    )
    with jupyterlab(tmp_path) as address, browser_page() as page:
        opened = OpenNotebook(page, address, "chapter.ipynb")

        # As stored: every picture is there, drawn, and nothing looks broken.
        shown = page.locator(".jp-OutputArea-output img")
        assert pictures > 0
        shown.nth(pictures - 1).wait_for()
        assert shown.count() == pictures
        assert all(shown.evaluate_all("all => all.map(e => e.complete && e.naturalWidth > 0)"))
        assert opened.errors() == []

        opened.run_all()
        assert opened.errors() == []
        assert f"○ {exercise.id} " in _text(opened)

        panels = page.locator(".addnorm-panel").all()
        assert panels
        for panel in panels:
            _move_every_slider(page, panel)

        source = exercise.stub.strip().splitlines()[0]
        stub = opened.code_cells.filter(has_text=source).first
        opened.replace_source(stub, exercise.solution_source)
        opened.run_cell(stub)
        check = opened.code_cells.filter(has_text=f'check("{exercise.id}"').first
        opened.run_cell(check)
        assert f"✓ {exercise.id} " in check.locator(".jp-OutputArea").inner_text()
        assert opened.errors() == []


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
