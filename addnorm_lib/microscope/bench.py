"""Measure the fused core against what a user would take instead: `python -m addnorm_lib.microscope.bench`.

Each shape is judged in one run: GB/s from the fewest bytes the operation can move (its floor), the ratio to a copy of
the same number of bytes on the same device, the ratio to each peer, the error against float64, the peak memory.
On a CPU the core's path is plain torch; the comparison is then with torch's own lines, eager and compiled.
"""

import argparse
import importlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.fused import add_norm
from addnorm_lib.fused.eager import normalise
from addnorm_lib.messages import _

EPS = 1e-5
WIDTHS = (256, 512, 768, 1024, 2048, 4096, 8192, 16384)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DECODE = (1, 8, 64)  # rows of one decoding step
DIRECTIONS = ("forward", "backward", "both")
Implementation = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class Case(NamedTuple):
    """One shape: `rows` tokens of `features` numbers, normalised by "layer" or "rms"; the sum is kept, as in Pre-LN."""

    norm: str
    dtype: torch.dtype
    rows: int
    features: int

    def floor(self, direction: str) -> int:
        """Bytes that must be moved: forward reads x and residual and writes y and s; backward reads dy, s and ds and
        writes one gradient, that of x and residual alike. Each moves the rows' statistics, 4 bytes a number. "both" is
        the one and then the other.
        """
        statistics = 8 if self.norm == "layer" else 4
        once = self.rows * (4 * self.features * self.dtype.itemsize + statistics)
        return 2 * once if direction == "both" else once


class Result(NamedTuple):
    """What one implementation did with one case in one direction. Seconds, GB/s (10**9 bytes), MB (2**20 bytes)."""

    norm: str
    dtype: str
    rows: int
    features: int
    direction: str
    implementation: str
    seconds: float
    gb_per_s: float
    of_copy: float
    speed_of_ours: float  # its seconds / ours: above 1, ours is faster
    error: float
    peak_mb: float | None


def _torch_lines(norm: str) -> Implementation:
    def run(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        s = x + residual
        if norm == "layer":
            return F.layer_norm(s, s.shape[-1:], weight, bias, EPS), s
        return F.rms_norm(s, s.shape[-1:], weight, EPS), s

    return run


def _ours(norm: str) -> Implementation:
    def run(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return add_norm(x, residual, weight, bias if norm == "layer" else None, norm=norm, eps=EPS, return_sum=True)

    return run


def _liger(norm: str) -> Implementation:
    if norm == "rms":
        op = importlib.import_module("liger_kernel.ops.fused_add_rms_norm").LigerFusedAddRMSNormFunction
        return lambda x, residual, weight, bias: op.apply(x, residual, weight, EPS, 0.0, "llama", False)
    op = importlib.import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction

    def run(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        s = x + residual
        return op.apply(s, weight, bias, EPS), s

    return run


def _flash_attn(norm: str) -> Implementation:
    op = importlib.import_module("flash_attn.ops.triton.layer_norm").layer_norm_fn
    return lambda x, residual, weight, bias: op(
        x,
        weight,
        bias if norm == "layer" else None,
        residual=residual,
        eps=EPS,
        prenorm=True,
        is_rms_norm=norm == "rms",
    )


def _quack(norm: str) -> Implementation:
    if norm == "layer":
        raise ImportError
    op = importlib.import_module("quack").rmsnorm
    return lambda x, residual, weight, bias: op(x, weight, residual=residual, eps=EPS, prenorm=True)


def _apex(norm: str) -> Implementation:
    module = importlib.import_module("apex.normalization.fused_layer_norm")

    def run(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        s = x + residual
        if norm == "layer":
            return module.fused_layer_norm_affine(s, weight, bias, s.shape[-1:], EPS), s
        return module.fused_rms_norm_affine(s, weight, s.shape[-1:], EPS), s

    return run


def _compiled(norm: str) -> Implementation:
    torch.compiler.reset()  # after eight shapes of one function it would stop compiling, without a word
    return torch.compile(_torch_lines(norm), dynamic=False)


OURS = "addnorm"
PEERS = {OURS: _ours, "torch eager": _torch_lines, "torch.compile": _compiled}
GPU_PEERS = {"Liger": _liger, "flash-attn": _flash_attn, "quack": _quack, "apex": _apex}


def implementations(norm: str, device: torch.device) -> dict[str, Implementation]:
    """Return those that can run here, ours first; a package that is not installed is left out."""
    found = {}
    for name, make in (PEERS | (GPU_PEERS if device.type == "cuda" else {})).items():
        try:
            found[name] = make(norm)
        except ImportError:
            continue
    return found


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Return the median time of `run`: on a GPU by `triton.testing.do_bench`, which flushes the L2 cache."""
    if device.type == "cuda":
        from triton.testing import do_bench

        return do_bench(run, return_mode="median") / 1e3
    from torch.utils.benchmark import Timer

    run()
    return Timer("run()", globals={"run": run}).blocked_autorange(min_run_time=0.3).median


def copy_seconds(bytes_moved: int, device: torch.device) -> float:
    """Return the time of a device copy that moves `bytes_moved`: half of them read, half written."""
    source = torch.empty(bytes_moved // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return seconds(lambda: target.copy_(source), device)


def _largest_error(got: Tensor, want: Tensor) -> float:
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def measure(case: Case, device: torch.device) -> Iterator[Result]:
    """Time every implementation on one case: forward, backward, and both."""
    shape = (case.rows, case.features)
    x, residual, dy, ds = (torch.randn(shape, device=device, dtype=case.dtype) for _ in range(4))
    weight, bias = (torch.rand(case.features, device=device, dtype=case.dtype) + 0.5 for _ in range(2))
    inputs = [t.requires_grad_() for t in (x, residual, weight) + ((bias,) if case.norm == "layer" else ())]

    few = slice(0, 64)
    s64 = (x + residual).detach()[few].double().requires_grad_()
    y64 = normalise(s64, weight.double(), bias.double() if case.norm == "layer" else None, case.norm, EPS)
    (ds64,) = torch.autograd.grad((y64, s64), s64, (dy[few].double(), ds[few].double()))
    once = copy_seconds(case.floor("forward"), device)
    copies = {"forward": once, "backward": once, "both": copy_seconds(case.floor("both"), device)}
    ours: dict[str, float] = {}
    for name, run in implementations(case.norm, device).items():

        def forward(run=run):
            return run(x, residual, weight, bias)

        def backward(outputs):
            return torch.autograd.grad(outputs, inputs, (dy, ds), retain_graph=True)

        try:
            outputs = forward()
            gradients = backward(outputs)
            errors = {"forward": _largest_error(outputs[0].detach()[few], y64.detach())}
            errors["backward"] = _largest_error(gradients[0][few], ds64)
            errors["both"] = max(errors.values())
            peak = None
            if device.type == "cuda":
                del gradients
                outputs = None
                torch.cuda.reset_peak_memory_stats(device)
                before = torch.cuda.memory_allocated(device)
                outputs = forward()
                backward(outputs)
                peak = (torch.cuda.max_memory_allocated(device) - before) / 2**20
            times = {"forward": seconds(forward, device)}
            times["backward"] = seconds(lambda outputs=outputs: backward(outputs), device)
            times["both"] = seconds(lambda forward=forward: backward(forward()), device)
        except Exception as error:  # a peer's failure is a finding, not the end of the run
            if name == OURS:
                raise
            print(_("{name} failed on {case}: {error}").format(name=name, case=case, error=error), file=sys.stderr)
            continue
        ours = ours or times
        for direction, time in times.items():
            yield Result(
                case.norm,
                str(case.dtype).removeprefix("torch."),
                case.rows,
                case.features,
                direction,
                name,
                time,
                case.floor(direction) / time / 1e9,
                copies[direction] / time,
                time / ours[direction],
                errors[direction],
                peak,
            )


def table(results: list[Result]) -> str:
    """Return the results as text, one line each."""
    head = _(
        "norm   dtype     rows    features  direction  implementation     µs      GB/s  of copy  ours  error    MB"
    )
    lines = [
        f"{r.norm:<6} {r.dtype:<9} {r.rows:<7} {r.features:<9} {r.direction:<10} {r.implementation:<14} "
        f"{r.seconds * 1e6:>8.1f} {r.gb_per_s:>9.1f} {r.of_copy:>7.0%} {r.speed_of_ours:>5.2f}x {r.error:.0e} "
        + ("" if r.peak_mb is None else f"{r.peak_mb:>6.0f}")
        for r in results
    ]
    return "\n".join([head, *lines])


def draw(results: list[Result], path: Path) -> None:
    """Draw a panel a norm, dtype and direction: GB/s over features under the roof that the copy sets.

    Of decoding steps the forward pass is drawn, in microseconds: there the call counts, not the bytes.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    large = {(r.norm, r.dtype, r.features): r.rows for r in sorted(results, key=lambda r: r.rows)}

    def panel_of(r: Result) -> tuple[str, str, str, str]:
        decode = r.rows < large[r.norm, r.dtype, r.features]
        return _("rows = {rows},").format(rows=r.rows) if decode else "", r.norm, r.dtype, r.direction

    keys = sorted({k for k in map(panel_of, results) if not k[0] or k[3] == "forward"}, key=lambda k: (len(k[0]), k))
    columns = min(3, len(keys))
    rows = math.ceil(len(keys) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.5 * columns, 3.6 * rows), squeeze=False, layout="constrained")
    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
    for axis, panel in itertools.zip_longest(axes.flat, keys):
        if panel is None:
            axis.set_visible(False)
            continue
        own = [r for r in results if panel_of(r) == panel]
        decode = bool(panel[0])
        shown = {id(r): 1e6 * r.seconds if decode else r.gb_per_s for r in own}
        roof = {r.features: shown[id(r)] * r.of_copy if decode else r.gb_per_s / r.of_copy for r in own}
        axis.plot(list(roof), list(roof.values()), "k--", label=_("copy of as many bytes"))
        names = list(dict.fromkeys(r.implementation for r in own))
        for name, colour, marker in zip(names, colours, "osD^vXP", strict=False):
            points = [(r.features, shown[id(r)]) for r in own if r.implementation == name]
            axis.plot(*zip(*points, strict=True), color=colour, marker=marker, label=name)
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.set(xlabel=_("features D"), ylabel=_("µs") if decode else _("GB/s of the floor"))
        axis.set_title(" ".join(filter(None, panel)))
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def cases(
    device: torch.device, megabytes: int, features: Iterable[int], decode: Iterable[int], full: bool
) -> list[Case]:
    """Return the grid: at each width a tensor of about `megabytes` MB, and `decode` numbers of rows."""
    dtypes = DTYPES if device.type == "cuda" else (torch.float32,)
    norms = ("layer", "rms") if full or device.type == "cuda" else ("layer",)
    return [
        Case(norm, dtype, rows, width)
        for norm, dtype, width in itertools.product(norms, dtypes, features)
        for rows in (max(1, megabytes * 2**20 // (width * dtype.itemsize)), *decode)
    ]


def main(arguments: list[str] | None = None) -> list[Result]:
    """Run the grid, print the table, and write JSON and the picture where asked."""
    parser = argparse.ArgumentParser(prog="python -m addnorm_lib.microscope.bench", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--megabytes", type=int, help="MB a tensor; default 256 on a GPU, 4 on a CPU")
    parser.add_argument("--features", type=int, nargs="+", help="widths D; default 256 to 16384 on a GPU, 512 on a CPU")
    parser.add_argument("--decode", type=int, nargs="*", help="rows of decoding steps; default 1 8 64, on a CPU none")
    parser.add_argument("--full", action="store_true", help="on a CPU the GPU's grid too, in float32")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--figure", type=Path, help="draw GB/s under the copy's roof to this file")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    all_of_it = gpu or options.full
    where = torch.cuda.get_device_name(device) if gpu else _("a CPU with {n} threads").format(n=torch.get_num_threads())
    print(_("torch {version} on {where}").format(version=torch.__version__, where=where))
    if not gpu:
        print(_("No GPU: the core's path is plain torch here, compared with torch's own lines, eager and compiled."))
    features = options.features or (WIDTHS if all_of_it else (512,))
    decode = options.decode if options.decode is not None else DECODE if all_of_it else ()
    grid = cases(device, options.megabytes or (256 if gpu else 4), features, decode, options.full)
    results = [result for case in grid for result in measure(case, device)]
    print(table(results))
    if options.json:
        document = {"torch": torch.__version__, "device": where, "results": [r._asdict() for r in results]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.figure:
        draw(results, options.figure)
    return results


if __name__ == "__main__":
    main()
