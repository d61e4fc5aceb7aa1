"""How a worker process behaves: it leaves Ctrl-C to its parent, ends with it, and does not run its script again."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator


def follow_parent() -> None:
    """Prepare a worker process: the parent alone answers Ctrl-C, and the worker does not outlive the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Keep processes that start inside from importing the caller's script, of which they need nothing.

    Python's way is to import it in every new process; a script without `if __name__ == "__main__":` would then do all
    its work again in each, and fail with a traceback a process.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
