"""The reader's own machine: how fast it moves bytes and does arithmetic, and how long a mere call takes."""

import importlib.util
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.utils.benchmark import Timer

from addnorm_lib.fused import add_norm
from addnorm_lib.microscope.bench import copy_seconds, seconds


class Machine(NamedTuple):
    """What was measured: bytes a second of a large copy, float32 operations a second of a matrix product."""

    device: str
    bandwidth: float
    arithmetic: float

    @property
    def ridge(self) -> float:
        """Operations a byte at which both take equally long (Williams et al. 2009, section 3)."""
        return self.arithmetic / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """Return the operations a second that the roofline allows at `intensity` operations a byte."""
        return min(self.arithmetic, intensity * self.bandwidth)


def measure_machine(device: str | torch.device = "auto") -> Machine:
    """Measure the roofline's two roofs: on the GPU where there are a CUDA device and Triton, else on the CPU.

    It takes about a second. The copy moves 2**28 bytes on a CPU and 2**30 on a GPU, more than a cache holds; the matrix
    product is float32.
    """
    if device == "auto":  # a GPU is timed by Triton's do_bench
        device = "cuda" if torch.cuda.is_available() and importlib.util.find_spec("triton") else "cpu"
    device = torch.device(device)
    gpu = device.type == "cuda"
    moved, size = (2**30, 4096) if gpu else (2**28, 1024)
    a, b = torch.randn(2, size, size, device=device)
    product = torch.empty_like(a)
    time = seconds(lambda: torch.mm(a, b, out=product), device)
    return Machine(device.type, moved / copy_seconds(moved, device), 2 * size**3 / time)


def call_seconds(rows: Sequence[int], features: int) -> list[float]:
    """Return the CPU time of one `add_norm(x, residual)` in float32, without gradients, for each number of rows.

    The least of seven measurements of 10 ms each. A round goes through all sizes, so that what else the machine does
    for a moment falls on all of them, and the least is without it.
    """
    timers = []
    for M in rows:
        x, residual = torch.randn(2, M, features)
        timer = Timer("add_norm(x, residual)", globals={"add_norm": add_norm, "x": x, "residual": residual})
        timers.append((timer, max(1, round(0.01 / timer.timeit(3).median))))
    measured = [[timer.timeit(calls).median for timer, calls in timers] for _round in range(7)]
    return [min(times) for times in zip(*measured, strict=True)]
