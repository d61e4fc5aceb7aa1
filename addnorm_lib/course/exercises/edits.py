"""A mistake told as an edit of the right solution.

A block of text lists mistakes: at the margin `name: edit`, four blanks in, the question that the mistake is answered
with; an edit too long for its line goes on eight blanks in, or starts there.

    γ and β swapped: weight * → bias *; + bias → + weight
        Are γ and β the wrong way round? `weight` multiplies, `bias` is added.
    RMSNorm: return weight * x / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + eps) + bias
        Is this RMSNorm? Layer norm subtracts the mean first.

Of a function, `old → new` replaces a fragment that stands once in its body; `every old → new` one that stands there
more than once; `old →` takes it out. Edits are parted by `; `, and each looks for its fragment in the solution as it
is. Without an arrow the text is the whole body. `⏎` is a new line, at the depth of the line that the fragment begins
in; any white space of a fragment fits any of the solution. `def name` names a function of the exercise's file: what is
no edit. Of a table, `key → value` changes an entry; a key may be cut short where only one begins so.
"""

import ast
import itertools
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from addnorm_lib.course.exercises.source import function_of, source_of

_ARROW, _NEWLINE = "→", "⏎"


class Told(NamedTuple):
    """A mistake as a block tells it."""

    name: str
    edit: str
    question: str


def read(block: str) -> list[Told]:
    """Return the mistakes of a block, in its order; raises ValueError for an entry without an edit or a question."""
    entries: list[tuple[str, list[str], list[str]]] = []
    for line in block.splitlines():
        depth, text = len(line) - len(line.lstrip(" ")), line.strip()
        if not text:
            continue
        if depth == 0:
            name, _colon, edit = text.partition(":")
            entries.append((name, [edit.strip()], []))
        elif not entries or depth not in (4, 8) or (depth == 8 and entries[-1][2]):
            raise ValueError(f"block: neither a name, nor the rest of an edit, nor a question: {line!r}")
        else:
            entries[-1][1 if depth == 8 else 2].append(text)
    told = [Told(name, " ".join(edit).strip(), " ".join(question)) for name, edit, question in entries]
    for one in told:
        if not all(one):
            raise ValueError(f"block: `name: edit`, and below it a question wanted, got {one}")
    return told


def paragraphs(block: str) -> tuple[str, ...]:
    """Return the texts of a block, one a line; a line that is set in goes on with the one before it."""
    return tuple(" ".join(text.split()) for text in re.split(r"\n(?! )", block.strip()))


def _parts(edit: str) -> list[tuple[str, str]]:
    pairs = []
    for part in re.split(r";\s+", edit):
        old, arrow, new = part.partition(_ARROW)
        if not arrow or not old.strip():
            raise ValueError(f"{part!r}: `old {_ARROW} new` wanted")
        pairs.append((old.strip(), new.strip()))
    return pairs


def _places(fragment: str, body: str) -> list[tuple[int, int]]:
    """Return where a fragment stands in the body, as whole words."""
    words = fragment.replace(_NEWLINE, " ").split()
    pattern = r"\s+".join(map(re.escape, words))
    before = r"(?<!\w)" if re.match(r"\w", words[0]) else ""
    after = r"(?!\w)" if re.search(r"\w$", words[-1]) else ""
    return [match.span() for match in re.finditer(before + pattern + after, body)]


def _split(source: str) -> tuple[str, str]:
    """Return a function's source as its head, with the docstring, and its body."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    first, second = function.body[0], function.body[1]
    assert isinstance(first, ast.Expr) and first.end_lineno is not None
    lines = source.splitlines(keepends=True)
    assert second.lineno > first.end_lineno
    return "".join(lines[: first.end_lineno]), "".join(lines[first.end_lineno :])


def _replaced(body: str, edit: str) -> str:
    changes = []
    for old, new in _parts(edit):
        everywhere = old.startswith("every ")
        fragment = old.removeprefix("every ").strip()
        places = _places(fragment, body)
        if not places:
            raise ValueError(f"{fragment!r} is not in the solution")
        if everywhere != (len(places) > 1):
            raise ValueError(f"{fragment!r} is in the solution {len(places)} times; `every` is for more than one")
        changes += [(start, end, new) for start, end in places]
    changes.sort()
    for (_start, end, _new), (start, *_rest) in itertools.pairwise(changes):
        if start < end:
            raise ValueError(f"{body[start:end]!r} is edited twice")
    for start, end, new in reversed(changes):
        line = body[body.rfind("\n", 0, start) + 1 :]
        margin = line[: len(line) - len(line.lstrip(" "))]
        body = body[:start] + re.sub(rf"\s*{_NEWLINE}\s*", "\n" + margin, new) + body[end:]
    return body


def edited(solve: Callable[..., Any], edit: str, filename: str) -> Callable[..., Any]:
    """Return the function that an edit makes of `solve`; it sees the names of the module in which `solve` stands.

    Raises ValueError where a fragment is not in the solution, or is there more than once without `every`, where two
    edits overlap, where nothing changes, and where no Python comes of it.
    """
    if edit.startswith("def "):
        name = edit.removeprefix("def ").strip()
        if not callable(solve.__globals__.get(name)):
            raise ValueError(f"{name!r} is no function defined above")
        return solve.__globals__[name]
    head, body = _split(source_of(solve))
    whole = textwrap.indent(re.sub(rf"\s*{_NEWLINE}\s*", "\n", edit), "    ")
    new = _replaced(body, edit) if _ARROW in edit else whole
    if new.split() == body.split():
        raise ValueError(f"{edit!r} changes nothing")
    try:
        return function_of(head + new, solve.__name__, solve.__globals__, filename)
    except SyntaxError as error:
        raise ValueError(f"{edit!r} makes no Python: {error.msg} in\n{new}") from error


def changed(values: dict[str, Any], edit: str, read_value: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return the table with the entries that an edit changes.

    `read_value(value, right)` makes a value of what is written; words stand without quotes. Raises ValueError for a
    key that is not in the table, or that several begin with, and for a value that is right.
    """
    new = dict(values)
    for start, text in _parts(edit):
        keys = [start] if start in values else [key for key in values if key.startswith(start)]
        if len(keys) != 1:
            raise ValueError(f"{start!r} begins {len(keys)} keys of the table")
        (key,) = keys
        right = values[key]
        new[key] = read_value(text if isinstance(right, str) else ast.literal_eval(text), right)
        if new[key] == right:
            raise ValueError(f"{key!r} is {text!r} in the solution")
    return new
