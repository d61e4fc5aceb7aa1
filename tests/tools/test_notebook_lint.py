"""Each rule finds the one thing that is wrong in a notebook that is otherwise right."""

from types import SimpleNamespace

import nbformat
import pytest

from tools import chapters, notebook_lint, setup_cell
from tools.kernels import NotebookError

STUB = "def double(x):\n    raise NotImplementedError"
new = nbformat.v4


def _stream(text, name="stdout"):
    return new.new_output("stream", name=name, text=text)


def _picture(text):
    return new.new_output("display_data", data={"image/png": "iVBO", "text/plain": text})


@pytest.fixture
def good(monkeypatch):
    """A chapter with a claim, a picture and an exercise, as it should be stored."""
    exercise = SimpleNamespace(id="1.1", claims=("B1",), stub=STUB, solution_source=STUB)
    monkeypatch.setattr(chapters, "claims", lambda number: ("B1",))
    monkeypatch.setattr(chapters, "exercises", lambda number: [exercise])
    cells = [
        new.new_markdown_cell("# Title\n\nThe *normalized* `color` of a neighbour, $\\text{center}$."),
        new.new_code_cell(setup_cell.text(setup_cell.address())),
        new.new_code_cell('claim("B1", 1, 1)', outputs=[_stream("✓ B1 one is one\n")]),
        new.new_code_cell("plt.show()", outputs=[_picture("A line that rises from 0 to 1.")]),
        new.new_code_cell(STUB, metadata={"addnorm": {"exercise": "1.1"}}),
        new.new_code_cell('check("1.1", double)', outputs=[_stream("○ 1.1 not attempted yet\n")]),
    ]
    for count, cell in enumerate(cells[1:], 1):
        cell.execution_count = count
    return new.new_notebook(cells=cells)


def problems(notebook, tmp_path):
    path = tmp_path / "01_small.ipynb"
    nbformat.write(notebook, path)
    return notebook_lint.problems(path)


def test_a_good_notebook_has_no_problems(good, tmp_path):
    assert problems(good, tmp_path) == []


def _source(index, text):
    return lambda notebook: notebook.cells[index].update(source=text)


def _outputs(index, *outputs):
    return lambda notebook: notebook.cells[index].update(outputs=list(outputs))


def _count(index, count):
    return lambda notebook: notebook.cells[index].update(execution_count=count)


def _metadata(index, **metadata):
    return lambda notebook: notebook.cells[index].update(metadata=nbformat.from_dict(metadata))


ERROR = new.new_output("error", ename="ValueError", evalue="no", traceback=[])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_count(3, None), "execution counts are [1, 2, None, 4, 5]"),
        (_count(3, 9), "execution counts are [1, 2, 9, 4, 5]"),
        (lambda n: n.metadata.update(widgets={}), "stores widget state"),
        (lambda n: n.metadata.update(filler="x" * 1_000_000), "MB, wanted under 1 MB"),
        (_source(1, "import sys"), "is not the set-up cell"),
        (_source(2, 'claim("B1", 1, 1)\n' + "x = 1\n" * 15), "16 lines of code, wanted 15 at most"),
        (_source(2, 'print("B1")'), 'no cell proves B1: wanted claim("B1", …)'),
        (_outputs(2), "claim B1 has no verdict line ✓ B1"),
        (_source(4, STUB + "  # mine"), "the stub cell of exercise 1.1 differs from its `stub`"),
        (_metadata(4), "exercise 1.1 has no stub cell"),
        (_metadata(4, addnorm={"exercise": "1.9"}), "the stub cell of exercise 1.9 belongs to no exercise"),
        (_source(5, "double"), "exercise 1.1 is never checked"),
        (_outputs(5, _stream("✓ 1.1 right\n")), "exercise 1.1 is not stored unsolved"),
        (_metadata(3, tags=["nbval-skip"]), "the tag nbval-skip has no reason"),
        (_metadata(3, tags=["raises-exception"]), "the tag raises-exception has no reason"),
        (_source(3, "# NBVAL_IGNORE_OUTPUT\nplt.show()"), "an nbval comment"),
        (_source(3, "%pip install numpy"), "a magic or shell command"),
        (_source(3, "plt.plot(x);"), "a trailing `;`"),
        (_source(3, "interact(f, x=3)"), "uses interact"),
        (_source(3, "with widgets.Output():\n    pass"), "uses Output"),
        (_source(3, "open('/home/me/x')"), "an absolute path: /home/m…"),
        (_source(3, "# the center of x\nplt.show()"), "American spelling: center"),
        (_source(3, "def f(:"), "not Python"),
        (_source(0, "# Title\n\nWe normalize here."), "American spelling: normalize"),
        (_source(0, "# Title\n\nSee /home/me/x."), "an absolute path: /home/m…"),
        (_outputs(3, ERROR), "an error is stored: ValueError: no"),
        (_outputs(3, _stream("careful", "stderr")), "stderr is stored: careful"),
        (_outputs(3, _stream("in /tmp/x")), "an absolute path in the output: /tmp/x…"),
        (_outputs(3, _stream("<Line2D at 0x7f0012ab>")), "a memory address in the output"),
        (_outputs(3, _picture("<Figure size 640x480 with 1 Axes>")), "a picture without a description"),
        (_outputs(3, _picture("")), "a picture without a description"),
        (
            _outputs(3, new.new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}})),
            "a widget's model id is stored",
        ),
    ],
)
def test_each_rule_finds_its_fault(good, tmp_path, spoil, said):
    spoil(good)
    found = problems(good, tmp_path)
    assert any(said in line for line in found), found


def test_code_cells_are_short_in_the_median(good, tmp_path):
    for index in (2, 3, 5):
        good.cells[index].source += "\nx = 1" * 8
    assert any("the median code cell has 9 lines, wanted 8" in line for line in problems(good, tmp_path))


def test_a_reason_allows_a_tag(good, tmp_path):
    _metadata(3, tags=["nbval-skip"], addnorm={"reason": "draws the reader's own GPU"})(good)
    assert problems(good, tmp_path) == []


def test_a_chapter_that_the_library_does_not_know_is_named(good, tmp_path, monkeypatch):
    monkeypatch.undo()
    path = tmp_path / "99_small.ipynb"
    nbformat.write(good, path)
    with pytest.raises(NotebookError, match="chapter 99 has no folder that lists its claims"):
        notebook_lint.problems(path)
