"""Source code as a result: highlighted in a notebook, plain elsewhere; and functions made of it."""

import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any


class Source:
    """Source code that shows highlighted in a notebook and plain elsewhere."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __repr__(self) -> str:
        return self.source

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.source}\n```"


def source_of(function: Callable[..., Any]) -> str:
    """Return a function's source from the margin on; raises OSError where there is none."""
    return textwrap.dedent(inspect.getsource(function)).strip()


def function_of(source: str, name: str, namespace: dict[str, Any], filename: str) -> Callable[..., Any]:
    """Return the function `name` that `source` defines; it sees the names of `namespace`, and leaves it as it is.

    `inspect` and tracebacks find the source under `filename`. Raises SyntaxError where the source is no Python.
    """
    made: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace, made)
    lines = [f"{line}\n" for line in source.splitlines()]
    linecache.cache[filename] = (len(source), None, lines, filename)
    return made[name]
