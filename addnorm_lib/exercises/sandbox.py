"""Run a learner's function: with a deadline, on copies of its inputs, with its output caught.

Whatever the function does, the caller gets an `Outcome`. Only KeyboardInterrupt passes: the reader's own stop button.
"""

import contextlib
import copy
import ctypes
import io
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch


class DeadlineExceeded(BaseException):
    """The function ran past its deadline (a BaseException: `except Exception` in a loop must not swallow it)."""


@dataclass(frozen=True)
class Outcome:
    """What one call did: returned `value`, or raised `error`, or ran out of time; `changed` arguments in place."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False
    changed: tuple[int, ...] = field(default=())
    printed: str = ""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineExceeded in this thread once `seconds` have passed.

    On the main thread of a POSIX system by SIGALRM, which also interrupts a sleeping call; elsewhere (Windows, a
    kernel's subshell) by an asynchronous exception, which interrupts Python code only.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and hasattr(signal, "setitimer"):

        def ring(signum: int, frame: object) -> None:
            raise DeadlineExceeded

        previous = signal.signal(signal.SIGALRM, ring)
        # Rings again every tenth of a second: a bare `except:` in the learner's loop swallows one ring, seldom all.
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        return

    target, lock, done = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(DeadlineExceeded))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            done = True
        timer.cancel()


@contextlib.contextmanager
def _own_randomness() -> Iterator[None]:
    """Give every global random state back as it was: torch's, NumPy's and Python's."""
    of_numpy, of_python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)


def _unchanged(before: Any, after: Any) -> bool:
    if type(before) is not type(after):
        return False
    if isinstance(before, np.ndarray):
        return before.dtype == after.dtype and bool(np.array_equal(before, after, equal_nan=before.dtype.kind in "fc"))
    if isinstance(before, torch.Tensor):
        return (
            before.shape == after.shape
            and before.dtype == after.dtype
            and torch.equal(torch.nan_to_num(before.detach()), torch.nan_to_num(after.detach()))
        )
    if isinstance(before, (list, tuple)):
        return len(before) == len(after) and all(map(_unchanged, before, after))
    if isinstance(before, torch.nn.Module):
        return all(map(_unchanged, before.state_dict().values(), after.state_dict().values()))
    return callable(before) or bool(before == after)


def call(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Outcome:
    """Call `function` on a copy of `arguments` for at most `seconds`, and say what happened."""
    given = copy.deepcopy(arguments)
    printed = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
            _own_randomness(),
            deadline(seconds),
        ):
            warnings.simplefilter("ignore")
            value = function(*given)
    except KeyboardInterrupt:
        raise
    except DeadlineExceeded:
        return Outcome(timed_out=True, printed=printed.getvalue())
    except BaseException as error:
        return Outcome(error=error, printed=printed.getvalue())
    changed = tuple(i for i, pair in enumerate(zip(arguments, given, strict=True)) if not _unchanged(*pair))
    return Outcome(value=value, changed=changed, printed=printed.getvalue())
