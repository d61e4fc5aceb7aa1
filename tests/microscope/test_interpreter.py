"""The tile language, and the kernel's programs one by one: the same with Triton and without."""

import importlib.util
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from addnorm_lib import reference
from addnorm_lib.chapters.ch06_fused_add_norm.exercises.ex02_forward_tile import forward_tile
from addnorm_lib.microscope import interpreter, tiles
from addnorm_lib.microscope.interpreter import step_through, try_in_triton

TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not TRITON, reason="Triton is not installed on this platform")


@pytest.fixture
def without_triton(monkeypatch):
    monkeypatch.setattr(interpreter, "available", lambda: False)


def inputs(rows, features, dtype=torch.float32):
    return [torch.randn(*shape).to(dtype) for shape in ((rows, features), (rows, features), (features,), (features,))]


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 20), st.sampled_from([1, 2, 4]))
def test_the_programs_are_the_formula(rows, features, block):
    x, residual, weight, bias = inputs(rows, features)
    steps = interpreter._in_tiles(x, residual, weight, bias, 1e-5, block, False)
    s = reference.residual_sum(x.numpy(), residual.numpy())
    np.testing.assert_allclose(steps.y, reference.layer_norm(s, weight.numpy(), bias.numpy()), rtol=1e-3, atol=1e-4)
    assert len(steps.programs) == -(-rows // block)
    for pid, program in enumerate(steps.programs):
        own = slice(pid * block, min(rows, (pid + 1) * block))
        count = own.stop - own.start
        assert program.pid == pid
        assert program.mask.sum() == count * features
        np.testing.assert_allclose(program.s[:count, :features], s[own], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(program.mean[:count], s[own].mean(1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(program.xhat[:count, :features], reference.layer_norm(s[own]), rtol=1e-3, atol=1e-4)
        assert not program.s[~program.mask].any() and not program.xhat[~program.mask].any()


@needs_triton
@pytest.mark.parametrize(
    ("dtype", "parameters", "keep_sum"),
    [(torch.float32, True, False), (torch.float32, False, True), (torch.float16, True, True)],
)
def test_the_real_kernel_holds_what_the_tiles_hold(dtype, parameters, keep_sum, monkeypatch):
    x, residual, weight, bias = inputs(5, 6, dtype)
    given = (x, residual, weight, bias) if parameters else (x, residual)
    real = step_through(*given, keep_sum=keep_sum)
    monkeypatch.setattr(interpreter, "available", lambda: False)
    ours = step_through(*given, keep_sum=keep_sum)
    assert (real.loaded, real.stored) == (ours.loaded, ours.stored)
    assert len(real.programs) == len(ours.programs) == 3
    for one, other in zip(real.programs, ours.programs, strict=True):
        assert one.pid == other.pid
        for name in ("rows", "cols", "mask", "s"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
            assert getattr(one, name).dtype == getattr(other, name).dtype, name
        for name in ("mean", "rstd", "xhat", "y"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(real.y, ours.y, rtol=1e-3 if dtype == torch.float16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("keep_sum", [False, True])
def test_each_element_is_loaded_once_and_stored_once(without_triton, keep_sum):
    x, residual, *_ = inputs(7, 12)
    steps = step_through(x, residual, rows=4, keep_sum=keep_sum)
    assert steps.loaded == 2 * 7 * 12 * 4
    assert steps.stored == (2 if keep_sum else 1) * 7 * 12 * 4


def test_a_row_alone_has_the_bits_that_it_has_among_others(without_triton):
    x, residual, *_ = inputs(6, 11)
    together = step_through(x, residual).y
    for row in range(6):
        assert step_through(x[row : row + 1], residual[row : row + 1]).y.tobytes() == together[row : row + 1].tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"residual": torch.zeros(4, 5)}, r"residual: .*\(4, 5\)"),
        ({"x": torch.zeros(6), "residual": torch.zeros(6)}, r"residual: .*\(6,\)"),
        ({"weight": torch.zeros(6).double()}, "weight: .*float64"),
        ({"bias": torch.zeros(5)}, r"bias: shape \(6,\) wanted, got \(5,\)"),
        ({"x": torch.zeros(4, 6).half()}, "residual: .*float32"),
        ({"rows": 3}, "rows: a power of two wanted, got 3"),
        ({"rows": 0}, "rows: a power of two wanted, got 0"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        step_through(**({"x": torch.zeros(4, 6), "residual": torch.zeros(4, 6)} | change))


@needs_triton
def test_a_failure_in_the_other_process_is_a_failure_here():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        interpreter._in_own_process(os.listdir, "nowhere")
    assert interpreter._in_own_process(os.getenv, "TRITON_INTERPRET") == "1"


# Exercise 6.2 in Triton itself


def not_yet(pid, x, residual, M, D, eps, BM, BN):
    raise NotImplementedError


def broken(pid, x, residual, M, D, eps, BM, BN):
    return tiles.load(x + tiles.arange(0, 64))


def torchs_own(pid, x, residual, M, D, eps, BM, BN):
    return torch.zeros(BM, BN)


def test_what_is_not_there_yet_is_not_run(without_triton):
    assert "nothing to run yet" in try_in_triton(not_yet)
    assert "not masked off" in try_in_triton(broken)
    assert "Triton is not installed here" in try_in_triton(forward_tile)


@needs_triton
def test_the_solution_is_triton_code():
    assert "nothing to run yet" in try_in_triton(not_yet)
    assert "found LayerNorm" in try_in_triton(forward_tile)


@needs_triton
def test_what_triton_cannot_run_is_said():
    assert "refuses" in try_in_triton(torchs_own)


# The tile language


def test_a_load_reads_its_lanes_and_counts_their_bytes():
    pointer = tiles.Pointer(torch.arange(6.0))
    mask = tiles.arange(0, 4) < 3
    assert tiles.load(pointer + 2 + tiles.arange(0, 4), mask, other=-1.0).tolist() == [2, 3, 4, -1]
    assert pointer.memory.loaded == 12
    bare = tiles.load(pointer + tiles.arange(0, 4), mask)
    assert bare[:3].tolist() == [0, 1, 2] and bare[3].isnan()


def test_a_store_writes_its_lanes_and_counts_their_bytes():
    values = torch.zeros(2, 3)
    pointer = tiles.Pointer(values)
    tiles.store(pointer + tiles.arange(0, 8), torch.arange(8.0), tiles.arange(0, 8) < 5)
    assert values.tolist() == [[0, 1, 2], [3, 4, 0]]
    assert pointer.memory.stored == 20
    tiles.store(pointer, 7.0)
    assert values[0, 0] == 7


@pytest.mark.parametrize("offset", [-1, 6, 100])
def test_an_address_outside_is_an_error_and_one_masked_off_is_not(offset):
    pointer = tiles.Pointer(torch.zeros(6)) + torch.tensor([0, offset])
    with pytest.raises(IndexError, match=f"element {offset} of 6"):
        tiles.load(pointer)
    with pytest.raises(IndexError, match=f"element {offset} of 6"):
        tiles.store(pointer, 1.0)
    assert tiles.load(pointer, torch.tensor([True, False]), other=0).tolist() == [0, 0]


@pytest.mark.parametrize("bounds", [(0, 3), (0, 0), (2, 1), (1, 7)])
def test_a_range_is_a_power_of_two_long(bounds):
    with pytest.raises(ValueError, match="arange: a power of two"):
        tiles.arange(*bounds)


def test_functions_are_those_of_torch():
    tile = torch.rand(2, 4)
    assert torch.equal(tiles.sum(tile, 1), tile.sum(1)) and torch.equal(tiles.sum(tile), tile.sum())
    assert tiles.sum(tile, axis=0, keep_dims=True).shape == (1, 4)
    assert torch.equal(tiles.rsqrt(tile), tile.rsqrt()) and torch.equal(tiles.sqrt(tile), tile.sqrt())
    assert tiles.zeros([2, 3], tiles.float32).dtype == torch.float32
    assert tiles.where(tile > 0.5, 1.0, 0.0).tolist() == (tile > 0.5).float().tolist()


def test_pointers_are_equal_where_their_memory_is():
    one, other = tiles.Pointer(torch.arange(3.0)), tiles.Pointer(torch.arange(3.0))
    assert one == other and repr(one) == "→[0, 1, 2]"
    tiles.store(other, 5.0)
    assert one != other


@needs_triton
def test_an_interrupt_ends_an_endless_tile():
    """Ctrl-C reaches the reader's process; the one that interprets must neither go on nor say a word."""
    script = textwrap.dedent(
        """
        import os, signal, threading, time
        from addnorm_lib.microscope import interpreter

        if __name__ == "__main__":
            _pool, worker = interpreter._interpreter()
            threading.Timer(1, os.killpg, (os.getpgid(0), signal.SIGINT)).start()
            try:
                interpreter._in_own_process(time.sleep, 6000)
            except KeyboardInterrupt:
                print("stopped", worker)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=500, start_new_session=True
    )
    word, worker = done.stdout.split()
    assert (word, done.stderr) == ("stopped", "")
    deadline = time.monotonic() + 100
    while _is_alive(int(worker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(int(worker))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
