"""The forward kernel step by step: every program's tiles, as the real kernel computes them in Triton's interpreter.

Triton reads `TRITON_INTERPRET` once, at its first import, and then interprets every kernel. So the interpreter runs in
a process of its own, and whoever calls it keeps a Triton that compiles. Where Triton is not installed, the same program
runs in `tiles`, addnorm_lib's own small tile language.
"""

import importlib.util
import inspect
import io
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from addnorm_lib.fused import tiles
from addnorm_lib.fused.shapes import next_power_of_2
from addnorm_lib.messages import _

Array = NDArray[Any]

# The kernel's names for what a program holds.
_HELD = {"rows": "rows", "cols": "cols", "mask": "mask", "s": "total", "mean": "row_mean", "rstd": "row_rstd"}


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

    x, residual (M, D) and weight, bias (D,) are float32 on the CPU. A program takes `rows` rows (a power of two; the
    library itself would choose by `shapes.choose_config`) and the least power of two of columns that holds a row. With
    `keep_sum` the sum is stored too. It takes about ten milliseconds a program, after two seconds to start.

    Raises ValueError for other shapes, dtypes or tiles, RuntimeError where Triton's process fails.
    """
    if x.dim() != 2 or residual.shape != x.shape:
        raise ValueError(f"residual: x's shape (M, D) wanted, got {tuple(residual.shape)} and x {tuple(x.shape)}")
    for name, tensor in {"x": x, "residual": residual, "weight": weight, "bias": bias}.items():
        if tensor is not None and (tensor.dtype != torch.float32 or tensor.device.type != "cpu"):
            raise ValueError(f"{name}: float32 on the CPU wanted, got {tensor.dtype} on {tensor.device}")
    if rows < 1 or rows & (rows - 1):
        raise ValueError(f"rows: a power of two wanted, got {rows}")
    inputs = {"x": x, "residual": residual, "weight": weight, "bias": bias}
    given = {name: t.detach().contiguous() for name, t in inputs.items() if t is not None}
    if available():
        arrays = {name: t.numpy() for name, t in given.items()}
        return _unpacked(_in_own_process(task="steps", eps=eps, rows=rows, keep_sum=keep_sum, **arrays))
    return _in_tiles(**given, eps=eps, rows=rows, keep_sum=keep_sum)


def _in_tiles(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
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
        own = pid * rows + tiles.arange(0, rows)
        mask = (own < M)[:, None] & (cols < D)[None, :]
        at = own[:, None] * D + cols[None, :]
        total = tiles.load(to_residual + at, mask, other=0) + tiles.load(to_x + at, mask, other=0)
        if keep_sum:
            tiles.store(to_s + at, total, mask)
        mean = tiles.sum(total, 1) / D
        mean = mean + tiles.sum(tiles.where(mask, total - mean[:, None], 0), 1) / D
        centred = tiles.where(mask, total - mean[:, None], 0)
        rstd = tiles.rsqrt(tiles.sum(centred * centred, 1) / D + eps)
        xhat = centred * rstd[:, None]
        gamma, beta = (
            absent if p is None else tiles.load(p + cols.expand(rows, -1), cols < D, other=0)
            for p, absent in zip(parameters, (1.0, 0.0), strict=True)
        )
        out = xhat * gamma + beta
        tiles.store(to_y + at, out, mask)
        programs.append(Program(pid, *(t.numpy() for t in (own, cols, mask, total, mean, rstd, xhat, out))))
    pointers = [p for p in (to_x, to_residual, *parameters, to_y, to_s) if p is not None]
    return Steps(programs, y.numpy(), *(sum(getattr(p.memory, n) for p in pointers) for n in ("loaded", "stored")))


def try_in_triton(forward_tile: Callable[..., Any]) -> str:
    """Say whether an answer to exercise 6.2, a tile function written in a cell, runs in Triton's interpreter too.

    The function's source is compiled anew with Triton's `tl` in place of `tiles`, so it may use nothing else.
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
        arrays = {"x": x.numpy(), "residual": residual.numpy()}
        y = _in_own_process(task="tile", source=source, name=forward_tile.__name__, eps=eps, rows=BM, **arrays)["y"]
    except (OSError, RuntimeError) as error:
        return _("Triton's interpreter refuses it: {error}").format(error=error)
    want = torch.nn.functional.layer_norm(x + residual, (D,), eps=eps).numpy()
    if np.allclose(y, want, rtol=1e-4, atol=1e-5):
        return _("Triton's interpreter ran your tile on a {M} × {D} tensor and found LayerNorm").format(M=M, D=D)
    return _("it runs in Triton's interpreter, but what comes out is not LayerNorm")


# The other process ----------------------------------------------------------------------------------------------------


def _in_own_process(**arrays: Any) -> dict[str, Array]:
    """Run `_serve` under TRITON_INTERPRET=1: arrays in, arrays out."""
    sent = io.BytesIO()
    np.savez(sent, **arrays)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=sent.getvalue(),
        capture_output=True,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(words[-1] if words else f"Triton's process ended with {done.returncode}")
    return dict(np.load(io.BytesIO(done.stdout)))


def _unpacked(arrays: dict[str, Array]) -> Steps:
    count = int(arrays.pop("programs"))
    programs = [Program(pid, *(arrays[f"{pid} {name}"] for name in Program._fields[1:])) for pid in range(count)]
    return Steps(programs, arrays["y"], int(arrays["loaded"]), int(arrays["stored"]))


def _steps(x: Tensor, residual: Tensor, weight: Any, bias: Any, eps: float, rows: int, keep_sum: bool) -> dict:
    """Run the real kernel, and read each program's variables as its function returns."""
    from triton.runtime.interpreter import InterpreterBuilder

    from addnorm_lib.fused import kernels

    M, D = x.shape
    y, s = torch.empty_like(x), torch.empty_like(x) if keep_sum else None
    held: dict[str, Any] = {}
    moved = {"loaded": 0, "stored": 0}
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def counted_load(self, pointers, mask, *rest):
        moved["loaded"] += int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        return load(self, pointers, mask, *rest)

    def counted_store(self, pointers, value, mask, *rest):
        moved["stored"] += int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8
        return store(self, pointers, value, mask, *rest)

    def watch(frame, event, argument):
        if event == "return" and frame.f_code.co_name == "forward" and frame.f_code.co_filename == kernels.__file__:
            values = {name: frame.f_locals[own].handle.data.copy() for name, own in _HELD.items()}
            values["xhat"] = frame.f_locals["centred"].handle.data * values["rstd"][:, None]
            values["y"] = frame.f_locals["out"].handle.data.copy()
            pid = len(held) // len(values)
            held.update({f"{pid} {name}": value for name, value in values.items()})

    InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store = counted_load, counted_store
    sys.setprofile(watch)
    kernels.forward[(-(-M // rows),)](
        x, residual, weight, bias, None, y, s, None, None, None, None, M, eps, 1.0, 0, 1.0,
        RMS=False, D=D, BM=rows, BN=next_power_of_2(D),
    )  # fmt: skip
    sys.setprofile(None)
    return held | moved | {"programs": -(-M // rows), "y": y.numpy()}


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


def _tile(x: Tensor, residual: Tensor, source: str, name: str, eps: float, rows: int) -> dict:
    """Compile a reader's tile function for Triton, and run it in a kernel that stores what it returns."""
    M, D = x.shape
    y = torch.empty_like(x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tile.py")
        path.write_text(_SHELL.format(source=source, name=name), "utf-8")
        spec = importlib.util.spec_from_file_location("tile", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["tile"] = module
        spec.loader.exec_module(module)
        module.shell[(-(-M // rows),)](x, residual, y, M, eps, D=D, BM=rows, BN=next_power_of_2(D))
    return {"y": y.numpy()}


def _serve() -> None:
    given = dict(np.load(io.BytesIO(sys.stdin.buffer.read())))
    x, residual, weight, bias = (
        torch.from_numpy(given[name]) if name in given else None for name in ("x", "residual", "weight", "bias")
    )
    eps, rows = float(given["eps"]), int(given["rows"])
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a reader's tile prints is no answer
    if given["task"] == "steps":
        answer = _steps(x, residual, weight, bias, eps, rows, bool(given["keep_sum"]))
    else:
        answer = _tile(x, residual, str(given["source"]), str(given["name"]), eps, rows)
    sent = io.BytesIO()
    np.savez(sent, **answer)
    out.write(sent.getvalue())


if __name__ == "__main__":
    _serve()
