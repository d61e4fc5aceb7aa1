"""Run a learner's function: with a deadline, on copies of its inputs, with its output caught.

Whatever the function does, the caller gets an `Outcome`. Only KeyboardInterrupt passes: the reader's own stop button.
"""

import contextlib
import copy
import ctypes
import inspect
import io
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
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
def deadline(seconds: float) -> Iterator[threading.Event]:
    """Raise DeadlineExceeded in this thread once `seconds` have passed; the event yielded says whether they have.

    On the main thread of a POSIX system by SIGALRM, which also interrupts a sleeping call; elsewhere (Windows, a
    kernel's subshell) by an asynchronous exception, which interrupts Python code only.
    """
    passed = threading.Event()
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and hasattr(signal, "setitimer"):
        here, rings, tracing = sys._getframe(), 0, sys.gettrace()

        def raise_again(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                raise DeadlineExceeded
            return raise_again

        def ring(signum: int, frame: FrameType | None) -> None:
            nonlocal rings
            rings += 1
            passed.set()
            if rings > 3:  # the loop catches everything: raise once more, on the line that caught it
                while frame is not None and frame is not here:
                    frame.f_trace, frame = raise_again, frame.f_back
                sys.settrace(raise_again)
            raise DeadlineExceeded

        previous = signal.signal(signal.SIGALRM, ring)
        # Rings again every tenth of a second: a bare `except:` in the learner's loop swallows a ring.
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        try:
            yield passed
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if rings > 3:
                sys.settrace(tracing)
            signal.signal(signal.SIGALRM, previous)
        return

    target, lock, done = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not done:
                passed.set()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(DeadlineExceeded))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield passed
    finally:
        with lock:
            done = True
        timer.cancel()


@contextlib.contextmanager
def _exit_raises() -> Iterator[None]:
    """Make `exit()` raise SystemExit: in a notebook it stops the kernel instead, once the cell has ended."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None

    def leave() -> None:
        raise SystemExit

    if shell is None:
        yield
        return
    shell.ask_exit = leave
    try:
        yield
    finally:
        del shell.ask_exit


@contextlib.contextmanager
def _own_globals() -> Iterator[None]:
    """Give what a function may have set for everybody back as it was: random states, dtype, device, threads, …"""
    of_numpy, of_python, errors = np.random.get_state(), random.getstate(), np.geterr()
    dtype, device, threads = torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()
    deterministic, anomaly = torch.are_deterministic_algorithms_enabled(), torch.is_anomaly_enabled()
    folder, recursion = os.getcwd(), sys.getrecursionlimit()
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)
            np.seterr(**errors)
            torch.set_default_dtype(dtype)
            torch.use_deterministic_algorithms(deterministic)
            torch.autograd.set_detect_anomaly(anomaly)
            sys.setrecursionlimit(recursion)
            # These three cost something, or leave a mark, even where nothing has changed.
            if torch.get_default_device() != device:
                torch.set_default_device(device)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            if os.getcwd() != folder:
                os.chdir(folder)


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
            _own_globals(),
            _exit_raises(),
            deadline(seconds) as passed,
        ):
            warnings.simplefilter("ignore")
            value = function(*given)
            if inspect.iscoroutine(value):
                value.close()  # else Python warns later, with our path, that it was never awaited
    except KeyboardInterrupt:
        raise
    except DeadlineExceeded:
        return Outcome(timed_out=True, printed=printed.getvalue())
    except BaseException as error:
        return Outcome(error=error, printed=printed.getvalue())
    if passed.is_set():  # the function swallowed the deadline and went on
        return Outcome(timed_out=True, printed=printed.getvalue())
    changed = tuple(i for i, pair in enumerate(zip(arguments, given, strict=True)) if not _unchanged(*pair))
    return Outcome(value=value, changed=changed, printed=printed.getvalue())
