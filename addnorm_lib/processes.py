"""How a worker process behaves: it leaves Ctrl-C to its parent, and ends with it."""

import multiprocessing
import os
import signal
import threading


def follow_parent() -> None:
    """Prepare a worker process: the parent alone answers Ctrl-C, and the worker does not outlive the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
