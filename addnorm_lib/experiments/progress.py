"""A progress bar for whoever is watching: a live reader of a notebook, or a terminal. Nobody else gets one.

A bar in an executed notebook would be a text that depends on the machine's speed. Whether a reader is there, a kernel
can tell: every request to run a cell says whether its sender could answer a question (`allow_stdin` in Jupyter's
messaging protocol). JupyterLab, VS Code and Colab can; nbval, nbconvert, nbclient and papermill say that they cannot.
"""

import contextlib
import sys
import time
from typing import Any

from addnorm_lib.messages import _

DELAY = 2.0  # seconds of work before a bar appears


def someone_watches() -> bool:
    """Return whether a live reader has asked for the work that is being done."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if hasattr(shell, "kernel"):
        request = shell.get_parent().get("content", {})
        return bool(request.get("allow_stdin", True))  # a widget's message asks nothing, and has a reader behind it
    return sys.stderr is not None and sys.stderr.isatty()


class Silent(contextlib.AbstractContextManager["Silent"]):
    """A bar that nobody sees."""

    def __exit__(self, *_error: object) -> None: ...

    def update(self, n: int = 1) -> None:
        """Count nothing."""


class _InNotebook(contextlib.AbstractContextManager["_InNotebook"]):
    """tqdm's notebook bar, shown after `DELAY`, and gone from the cell's outputs when the work is done."""

    def __init__(self, total: int, unit: str) -> None:
        from tqdm.notebook import tqdm

        self._bar = tqdm(total=total, unit=unit, leave=False, display=False)
        self._since = time.monotonic()
        self._shown: Any = None

    def update(self, n: int = 1) -> None:
        """Count `n` more steps."""
        from IPython.display import display

        self._bar.update(n)
        if self._shown is None and time.monotonic() - self._since > DELAY:
            self._shown = display(self._bar.container, display_id=True)

    def __exit__(self, *_error: object) -> None:
        self._bar.close()
        if self._shown is not None:
            # A saved notebook would keep a view of a widget that is no more.
            self._shown.update({}, raw=True)


def progress_bar(total: int, wanted: bool = True) -> Any:
    """Return a context manager with `update(n)`: a bar over `total` steps where it is wanted and somebody watches."""
    if not wanted or not someone_watches():
        return Silent()
    try:
        from tqdm import tqdm
    except ImportError:
        return Silent()
    if sys.stderr is not None and sys.stderr.isatty():
        return tqdm(total=total, unit=_("step"), delay=DELAY, leave=False)
    try:
        return _InNotebook(total, _("step"))
    except ImportError:  # a kernel without ipywidgets
        return Silent()
