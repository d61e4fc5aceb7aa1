"""The sandbox: whatever a learner's function does, the caller gets an outcome, and nothing leaks out."""

import contextlib
import os
import random
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient

from addnorm_lib.course.exercises.sandbox import call


def spin():
    while True:
        pass


def spin_and_swallow():
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def spin_and_swallow_the_first_ring():
    try:
        spin()
    except:  # noqa: E722
        spin()


@pytest.mark.parametrize("function", [spin, spin_and_swallow, spin_and_swallow_the_first_ring, lambda: time.sleep(60)])
def test_the_deadline_ends_a_call_on_the_main_thread(function):
    assert call(function, (), 0.2).timed_out


@pytest.mark.parametrize("function", [spin, spin_and_swallow])
def test_the_deadline_ends_a_call_on_another_thread(function):
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(call(function, (), 0.2)), daemon=True)
    thread.start()
    thread.join(300)
    assert outcomes[0].timed_out


def test_no_timer_is_left_behind():
    before = signal.getsignal(signal.SIGALRM)
    call(lambda: 1, (), 0.05)
    call(spin, (), 0.05)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before

    late = []

    def quick_call_then_work():
        late.append(call(lambda: 1, (), 0.5))
        ends = time.monotonic() + 0.8
        while time.monotonic() < ends:
            pass
        late.append("not interrupted")

    thread = threading.Thread(target=quick_call_then_work)
    thread.start()
    thread.join(300)
    assert late[0].value == 1
    assert late[1] == "not interrupted"


def recurse():
    return recurse()


def leave():
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "error"),
    [(leave, SystemExit), (recurse, RecursionError), (lambda: 1 / 0, ZeroDivisionError), (lambda x: x, TypeError)],
)
def test_every_error_is_an_outcome(function, error):
    outcome = call(function, (), 5.0)
    assert isinstance(outcome.error, error)
    assert not outcome.timed_out


def test_keyboard_interrupt_passes_through():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(stop, (), 5.0)


def test_output_is_caught_and_kept(capfd):
    def chatty(x):
        print("looking at", x)
        return x

    outcome = call(chatty, (3,), 5.0)
    assert (outcome.value, outcome.printed) == (3, "looking at 3\n")
    assert capfd.readouterr() == ("", "")


def set_first(x):
    x[0] = 7


def shrink(x):
    x.resize_(1)


def with_nan(*values):
    return torch.tensor([*values, torch.nan])


@pytest.mark.parametrize(
    ("function", "argument", "changed"),
    [
        (lambda x: x.add_(1), torch.ones(2), True),
        (lambda x: x + 1, torch.ones(2), False),
        (lambda x: x + 1, with_nan(1.0), False),
        (set_first, with_nan(1.0), True),
        (set_first, [1, 2], True),
        (set_first, [torch.ones(2), torch.ones(2)], True),
        (set_first, np.ones(2), True),
        (lambda x: x + 1, np.ones(2), False),
        (shrink, torch.ones(2), True),
        (lambda module: module.weight.data.zero_(), torch.nn.Linear(2, 2), True),
        (lambda module: module(torch.ones(2)), torch.nn.Linear(2, 2), False),
    ],
)
def test_a_change_in_place_is_seen_and_does_not_reach_the_caller(function, argument, changed):
    before = repr(argument)
    assert call(function, (argument,), 5.0).changed == ((0,) if changed else ())
    assert repr(argument) == before


def test_the_global_random_state_is_untouched():
    def reseed():
        torch.manual_seed(123)
        np.random.seed(123)
        random.seed(123)
        return torch.rand(1), np.random.rand(), random.random()

    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    call(reseed, (), 5.0)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]


def test_what_a_function_sets_for_everybody_is_set_back():
    def settings():
        return (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_anomaly_enabled(),
            np.geterr(),
            sys.getrecursionlimit(),
            os.getcwd(),
        )

    def careless(x):
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True)
        torch.autograd.set_detect_anomaly(True)
        np.seterr(all="raise")
        sys.setrecursionlimit(5000)
        os.chdir("/")
        raise ValueError(len(changed.append(settings()) or ""))

    changed = []
    before = settings()
    assert isinstance(call(careless, (torch.ones(1),), 5.0).error, ValueError)
    assert all(a != b for a, b in zip(changed[0], before, strict=True))
    assert settings() == before


def test_a_loop_that_catches_everything_is_stopped():
    def stubborn():
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(0.01)

    tracing = sys.gettrace()
    assert call(stubborn, (), 0.3).timed_out
    assert sys.gettrace() is tracing


def test_a_function_that_swallows_the_deadline_and_returns_has_run_out_of_time():
    def late():
        try:
            time.sleep(5)
        except BaseException:
            return 1

    assert call(late, (), 0.2).timed_out


def test_exit_does_not_end_the_kernel_of_a_notebook():
    cell = """
    from addnorm_lib.course import check

    def residual_block(x, branch):
        exit()
        return x + branch(x)

    check("1.1", residual_block)
    """
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)), nbformat.v4.new_code_cell("print('alive')")]
    )
    root = Path(__file__).parents[3]
    NotebookClient(notebook, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(root)}}).execute()
    line, alive = ("".join(o.get("text", "") for o in c.outputs) for c in notebook.cells)
    assert line.startswith("✗ 1.1 your function raised SystemExit (line 2: exit())")
    assert line.count("\n") == 1
    assert alive == "alive\n"
