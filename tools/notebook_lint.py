"""Rules that every stored notebook keeps; each is here because strict nbval, GitHub or a reader trips over it."""

import io
import re
import statistics
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat

from tools import chapters, setup_cell
from tools.refresh import WIDGET_VIEW

MAX_LINES, MEDIAN_LINES, MAX_BYTES = 15, 8, 1_000_000
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/])(/(home|root|Users|tmp|usr|opt|var|mnt|content|work|workspaces?)/\w|[A-Z]:\\\w)"
)
# nbval's comments do what the tags do, and have no place for a reason.
NBVAL_COMMENT = re.compile(r"#\s*(NBVAL_|PYTEST_VALIDATE_)")
TAGS_WITH_REASON = re.compile(r"skip|raises|ignore|check-exception")
AMERICAN = re.compile(
    r"\b(colors?|colored|behaviors?|favors?|favorite|neighbors?|gray|centers?|centered|labeled|modeled|modeling|canceled|"
    r"(?:un)?(?:normal|initial|optim|general|regular|visual|minim|maxim|recogn|standard|real|organ|summar|stabil|vector|"
    r"memor|penal|emphas|parametr|parameter|special)iz(?:e[ds]?|ers?|ing|ations?)|analyz(?:e[ds]?|ing))\b",
    re.IGNORECASE,
)
# Code, formulas, links, HTML and quoted or italic titles keep the spelling they were given.
NOT_PROSE = re.compile(
    r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<[^>]+>|“[^”]*”|\"[^\"]*\"|\*[^*\n]+\*", re.DOTALL
)

Cell = nbformat.NotebookNode


def problems(path: Path) -> list[str]:
    """Return one line for everything that is wrong with the notebook: where it is, what it is, what was wanted."""
    notebook = nbformat.read(path, as_version=4)
    code = [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "code" and c.source.strip()]
    found = [f"{path.name}: {text}" for text in _of_notebook(path, notebook, code)]
    for index, cell in enumerate(notebook.cells):
        rules: list[Callable[[Cell], Iterator[str]]] = [_prose] if cell.cell_type == "markdown" else [_source, _outputs]
        found += [f"{path.name} cell {index}: {text}" for rule in [_tags, *rules] for text in rule(cell)]
    return found


def _of_notebook(path: Path, notebook: nbformat.NotebookNode, code: list[tuple[int, Cell]]) -> Iterator[str]:
    if path.stat().st_size > MAX_BYTES:
        yield f"{path.stat().st_size / 1e6:.2f} MB, wanted under {MAX_BYTES / 1e6:.0f} MB"
    if "widgets" in notebook.metadata:
        yield "stores widget state (metadata.widgets): run `make notebooks`"
    counts = [cell.execution_count for _, cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"execution counts are {counts}, wanted 1, 2, 3 … without a gap: run `make notebooks`"
    if code and code[0][1].source != setup_cell.text(setup_cell.address()):
        yield "its first code cell is not the set-up cell of tools/setup_cell.py: run `python -m tools.notebooks stamp`"
    lengths = [len(cell.source.splitlines()) for _, cell in code]
    if lengths and statistics.median(lengths) > MEDIAN_LINES:
        yield f"the median code cell has {statistics.median(lengths):g} lines, wanted {MEDIAN_LINES} at most"
    yield from _contract(path, [cell for _, cell in code])


def _contract(path: Path, code: list[Cell]) -> Iterator[str]:
    chapter = chapters.number(path)
    source = "\n".join(cell.source for cell in code)
    printed = chapters.printed(code)
    for claim in chapters.claims(chapter):
        if not re.search(rf"\bclaim\(\s*[\"']{claim}[\"']", source):
            yield f'no cell proves {claim}: wanted claim("{claim}", …)'
        elif not re.search(rf"✓ {claim}\b", printed):
            yield f"claim {claim} has no verdict line ✓ {claim} in the outputs"
    stubs = {chapters.exercise_of(cell): cell.source for cell in code}
    stubs.pop(None, None)
    for exercise in chapters.exercises(chapter):
        if exercise.id not in stubs:
            yield f'exercise {exercise.id} has no stub cell (metadata {{"addnorm": {{"exercise": "{exercise.id}"}}}})'
        elif stubs.pop(exercise.id) != exercise.stub.rstrip("\n"):
            yield f"the stub cell of exercise {exercise.id} differs from its `stub` in the library"
        if not re.search(rf"\bcheck\(\s*[\"']{re.escape(exercise.id)}[\"']", source):
            yield f'exercise {exercise.id} is never checked: wanted check("{exercise.id}", …)'
        elif not re.search(rf"○ {re.escape(exercise.id)}\b", printed):
            yield f"exercise {exercise.id} is not stored unsolved: wanted its line ○ {exercise.id} … in the outputs"
    for unknown in stubs:
        yield f"the stub cell of exercise {unknown} belongs to no exercise of this chapter"


def _tags(cell: Cell) -> Iterator[str]:
    for tag in cell.metadata.get("tags", ()):
        if TAGS_WITH_REASON.search(tag) and not cell.metadata.get("addnorm", {}).get("reason"):
            yield f'the tag {tag} has no reason (metadata {{"addnorm": {{"reason": "…"}}}})'


def _prose(cell: Cell) -> Iterator[str]:
    if path := ABSOLUTE_PATH.search(cell.source):
        yield f"an absolute path: {path[0]}…"
    yield from _spelling(NOT_PROSE.sub(" ", cell.source))


def _spelling(prose: str) -> Iterator[str]:
    for word in AMERICAN.findall(prose):
        yield f"American spelling: {word}"


def _source(cell: Cell) -> Iterator[str]:
    lines = cell.source.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines of code, wanted {MAX_LINES} at most"
    if path := ABSOLUTE_PATH.search(cell.source):
        yield f"an absolute path: {path[0]}…"
    if NBVAL_COMMENT.search(cell.source):
        yield "an nbval comment: use a tag with a reason"
    if any(line.lstrip().startswith(("%", "!")) for line in lines):
        yield "a magic or shell command: strict nbval and translations of the code want plain Python"
        return
    if cell.source.rstrip().endswith(";"):
        yield "a trailing `;`: end a plot with plt.show() or a figure object"
    for name in re.findall(
        r"\b(interact|interactive|interactive_output|interact_manual)\s*\(|\b(Output)\s*\(", cell.source
    ):
        yield f"uses {''.join(name)}: join a slider to an Image or HTML widget by observe"
    try:
        comments = [
            t.string for t in tokenize.generate_tokens(io.StringIO(cell.source).readline) if t.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError) as error:
        yield f"not Python: {error}"
        return
    yield from _spelling(NOT_PROSE.sub(" ", " ".join(comments)))


def _outputs(cell: Cell) -> Iterator[str]:
    for output in cell.outputs:
        data = output.get("data", {})
        text = "".join(output.get("text", "")) + "".join(data.get("text/plain", ""))
        if output.output_type == "error":
            yield f"an error is stored: {output.ename}: {output.evalue}"
        elif output.get("name") == "stderr":
            yield f"stderr is stored: {text.strip()[:80]}"
        elif path := ABSOLUTE_PATH.search(text):
            yield f"an absolute path in the output: {path[0]}…"
        elif address := re.search(r"\bat 0x[0-9a-f]{6,}", text):
            yield f"a memory address in the output: {address[0]}"
        if WIDGET_VIEW in data:
            yield "a widget's model id is stored: run `make notebooks`"
        pictures = [kind for kind in data if kind.startswith("image/")]
        if pictures and (len(text) < 20 or text.startswith("<")):
            yield f"a picture without a description: its text/plain is {text!r}"
