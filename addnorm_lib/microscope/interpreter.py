"""The forward kernel step by step: every program's tiles, as the real kernel computes them in Triton's interpreter.

Triton reads `TRITON_INTERPRET` once, at its first import, and then interprets every kernel. So the interpreter runs in
a process of its own, and whoever calls it keeps a Triton that compiles. Where Triton is not installed, the same program
runs in `tiles`, addnorm_lib's own small tile language.
"""

import functools
import importlib.util
import inspect
import linecache
import multiprocessing
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from addnorm_lib.fused.shapes import next_power_of_2
from addnorm_lib.messages import _
from addnorm_lib.microscope import tiles
from addnorm_lib.processes import follow_parent

Array = NDArray[Any]

# The kernel's names for what a program holds.
_HELD = {
    "rows": "rows",
    "cols": "cols",
    "mask": "mask",
    "s": "total",
    "mean": "row_mean",
    "rstd": "row_rstd",
    "y": "out",
}


class Program(NamedTuple):
    """What program `pid` held in registers: rows (BM,), cols (BN,), mask, s, xhat and y (BM, BN), mean and rstd (BM,).

    A lane beyond the tensor has mask False; it computes all the same, and stores nothing.
    """

    pid: int
    rows: Array
    cols: Array
    mask: Array
    s: Array
    mean: Array
    rstd: Array
    xhat: Array
    y: Array


class Steps(NamedTuple):
    """All programs of one launch, what they wrote to y (M, D), and the bytes that they loaded and stored."""

    programs: list[Program]
    y: Array
    loaded: int
    stored: int


def available() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def step_through(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
    rows: int = 2,
    keep_sum: bool = False,
) -> Steps:
    """Run the fused forward kernel program by program: y = LayerNorm(x + residual) * weight + bias.

    x, residual (M, D) and weight, bias (D,) are float32, or all float16, on the CPU. A program takes `rows` rows (a
    power of two; the library itself would choose by `shapes.choose_config`) and the least power of two of columns that
    holds a row. With `keep_sum` the sum is stored too. It takes about ten milliseconds a program, and seconds at the
    first call. xhat is the product of what the kernel holds, all else is what it holds.

    Raises ValueError for other shapes, dtypes or tiles.
    """
    if x.dim() != 2 or residual.shape != x.shape:
        raise ValueError(f"residual: x's shape (M, D) wanted, got {tuple(residual.shape)} and x {tuple(x.shape)}")
    for name, tensor in {"x": x, "residual": residual, "weight": weight, "bias": bias}.items():
        if tensor is None:
            continue
        if tensor.dtype not in (torch.float32, torch.float16) or tensor.dtype != x.dtype or tensor.device.type != "cpu":
            raise ValueError(f"{name}: float32 or float16, as x, on the CPU wanted, got {tensor.dtype} {tensor.device}")
        if name in ("weight", "bias") and tensor.shape != x.shape[1:]:
            raise ValueError(f"{name}: shape {tuple(x.shape[1:])} wanted, got {tuple(tensor.shape)}")
    if rows < 1 or rows & (rows - 1):
        raise ValueError(f"rows: a power of two wanted, got {rows}")
    given = [None if t is None else t.detach().contiguous() for t in (x, residual, weight, bias)]
    if available():
        return _in_own_process(_steps, *(None if t is None else t.numpy() for t in given), eps, rows, keep_sum)
    return _in_tiles(*given, eps, rows, keep_sum)


def _in_tiles(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rows: int,
    keep_sum: bool,
) -> Steps:
    """`kernels.forward`, line by line, in `tiles`."""
    M, D = x.shape
    y, s = torch.empty_like(x), torch.empty_like(x)
    to_x, to_residual, to_y, to_s = (tiles.Pointer(t) for t in (x, residual, y, s))
    parameters = [None if p is None else tiles.Pointer(p) for p in (weight, bias)]
    cols = tiles.arange(0, next_power_of_2(D))
    programs = []
    for pid in range(-(-M // rows)):
        own = pid * rows + tiles.arange(0, rows).long()
        mask = (own < M)[:, None] & (cols < D)[None, :]
        at = own[:, None] * D + cols[None, :]
        total = tiles.load(to_residual + at, mask, other=0).float() + tiles.load(to_x + at, mask, other=0).float()
        total = total.to(x.dtype)
        if keep_sum:
            tiles.store(to_s + at, total, mask)
        mean = tiles.sum(total.float(), 1) / D
        mean = mean + tiles.sum(tiles.where(mask, total - mean[:, None], 0), 1) / D
        centred = tiles.where(mask, total - mean[:, None], 0)
        rstd = tiles.rsqrt(tiles.sum(centred * centred, 1) / D + eps)
        xhat = centred * rstd[:, None]
        gamma, beta = (
            absent if p is None else tiles.load(p + cols.expand(rows, -1), cols < D, other=0).float()
            for p, absent in zip(parameters, (1.0, 0.0), strict=True)
        )
        out = xhat * gamma + beta
        tiles.store(to_y + at, out, mask)
        programs.append(Program(pid, *(t.numpy() for t in (own, cols, mask, total, mean, rstd, xhat, out))))
    pointers = [p for p in (to_x, to_residual, *parameters, to_y, to_s) if p is not None]
    return Steps(programs, y.numpy(), *(sum(getattr(p.memory, n) for p in pointers) for n in ("loaded", "stored")))


def try_in_triton(forward_tile: Callable[..., Any]) -> str:
    """Say whether a tile function that was typed into a cell runs in Triton's interpreter too, and finds LayerNorm.

    `forward_tile(pid, x, residual, M, D, eps, BM, BN)` returns y (BM, BN), the program's rows of LayerNorm(x +
    residual). Its source is compiled anew with Triton's `tl` in place of `tiles`, so it may use nothing else.
    """
    M, D, eps, BM, BN = 5, 6, 1e-5, 2, 8
    x, residual = (torch.randn(M, D, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    try:
        forward_tile(0, tiles.Pointer(x), tiles.Pointer(residual), M, D, eps, BM, BN)
    except NotImplementedError:
        return _("nothing to run yet: the tile comes first")
    except Exception as error:
        return _("it does not run in addnorm_lib's tiles yet: {error}").format(error=error)
    if not available():
        return _("Triton is not installed here: your tile ran in addnorm_lib's own tile language alone")
    try:
        source = textwrap.dedent(inspect.getsource(forward_tile))
        y = _in_own_process(_tile, x.numpy(), residual.numpy(), source, forward_tile.__name__, eps, BM)
    except Exception as error:
        return _("Triton's interpreter refuses it: {error}").format(error=error)
    want = torch.nn.functional.layer_norm(x + residual, (D,), eps=eps).numpy()
    if np.allclose(y, want, rtol=1e-4, atol=1e-5):
        return _("Triton's interpreter ran your tile on a {M} × {D} tensor and found LayerNorm").format(M=M, D=D)
    return _("it runs in Triton's interpreter, but what comes out is not LayerNorm")


# The other process ----------------------------------------------------------------------------------------------------


def _interpret_from_now_on() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    follow_parent()


@functools.cache
def _interpreter() -> tuple[ProcessPoolExecutor, int]:
    """Return the one process that interprets kernels, and its id; it imports no Triton before it knows its task."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_interpret_from_now_on)
    return pool, pool.submit(os.getpid).result()


def _in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` under TRITON_INTERPRET=1. An interrupt ends the process, endless loop or not."""
    try:
        pool, process = _interpreter()
        try:
            return pool.submit(function, *arguments).result()
        except KeyboardInterrupt:
            _interpreter.cache_clear()
            os.kill(process, signal.SIGTERM)
            raise
    except BrokenExecutor as error:
        _interpreter.cache_clear()
        error.add_note("In a script, call step_through below `if __name__ == '__main__':`.")
        raise


def _steps(x: Array, residual: Array, weight: Any, bias: Any, eps: float, rows: int, keep_sum: bool) -> Steps:
    """Run the real kernel, and read each program's variables as its function returns."""
    from triton.runtime.interpreter import InterpreterBuilder

    from addnorm_lib.fused import kernels

    x, residual, weight, bias = (None if a is None else torch.from_numpy(a) for a in (x, residual, weight, bias))
    M, D = x.shape
    y, s = torch.empty_like(x), torch.empty_like(x) if keep_sum else None
    programs: list[Program] = []
    moved = {"loaded": 0, "stored": 0}
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def counted_load(self, pointers, mask, *rest):
        moved["loaded"] += int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        return load(self, pointers, mask, *rest)

    def counted_store(self, pointers, value, mask, *rest):
        moved["stored"] += int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        return store(self, pointers, value, mask, *rest)

    def watch(frame, event, argument):
        if event == "return" and frame.f_code.co_name == "forward" and "row_rstd" in frame.f_locals:
            held = {name: frame.f_locals[own].handle.data.copy() for name, own in _HELD.items()}
            xhat = frame.f_locals["centred"].handle.data * held["rstd"][:, None]
            programs.append(Program(len(programs), **held, xhat=xhat))

    InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store = counted_load, counted_store
    sys.setprofile(watch)
    try:
        kernels.forward[(-(-M // rows),)](
            x, residual, weight, bias, None, y, s, None, None, None, None, M, eps, 1.0, 0, 1.0,
            RMS=False, D=D, BM=rows, BN=next_power_of_2(D),
        )  # fmt: skip
    finally:
        sys.setprofile(None)
        InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store = load, store
    return Steps(programs, y.numpy(), **moved)


_SHELL = """
import triton
import triton.language as tl

{source}

{name}.__annotations__ = dict.fromkeys(("D", "BM", "BN"), tl.constexpr)
{name} = triton.jit({name})


@triton.jit
def shell(x, residual, y, M, eps, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    tile = {name}(tl.program_id(0), x, residual, M, D, eps, BM, BN)
    tl.store(y + rows[:, None] * D + cols[None, :], tile, (rows < M)[:, None] & (cols < D)[None, :])
"""


def _tile(x: Array, residual: Array, source: str, name: str, eps: float, rows: int) -> Array:
    """Compile a reader's tile function for Triton, and run it in a kernel that stores what it returns."""
    M, D = x.shape
    y = torch.empty(M, D)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tile.py")  # Triton reads the source of what it compiles
        path.write_text(_SHELL.format(source=source, name=name), "utf-8")
        spec = importlib.util.spec_from_file_location("tile", path)
        module = importlib.util.module_from_spec(spec)
        linecache.checkcache(str(path))
        spec.loader.exec_module(module)
        grid = (-(-M // rows),)
        module.shell[grid](
            torch.from_numpy(x), torch.from_numpy(residual), y, M, eps, D=D, BM=rows, BN=next_power_of_2(D)
        )
    return y.numpy()
