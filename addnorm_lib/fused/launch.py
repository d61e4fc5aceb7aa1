"""Functions that allocate and launch, without autograd. Needs Triton."""

import contextlib
import functools

import torch
import triton
from torch import Tensor

from addnorm_lib.fused import kernels
from addnorm_lib.fused.eager import drop_threshold, keep_scale, statistics_dtype
from addnorm_lib.fused.shapes import Tile, choose_config, count_programs


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    # Two in the interpreter, so that partial sums are summed there too.
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def _on(device: torch.device):
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def _rows(t: Tensor, D: int) -> tuple[Tensor, int | None]:
    """Return t as (M, D) with unit stride along D, a view where there is one, and its row stride (None where D)."""
    t = t.reshape(-1, D)
    if t.stride(1) != 1:
        t = t.contiguous()
    return t, None if t.stride(0) == D or t.shape[0] == 1 else t.stride(0)


def _options(tile: Tile) -> dict:
    return {"BM": tile.rows, "BN": tile.columns, "num_warps": tile.warps, "enable_fp_fusion": True}


def forward(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    norm: str,
    eps: float,
    alpha: float,
    dropout_p: float,
    out_dtype: torch.dtype,
    keep_sum: bool = True,
    keep_statistics: bool = True,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return (y, s, mean, rstd): y and s of x's shape, the statistics (M,). What is not kept, or not there, is None."""
    D = x.shape[-1]
    y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
    s = torch.empty(x.shape, dtype=residual.dtype, device=x.device) if keep_sum else None
    M = y.numel() // D
    rstd = torch.empty(M, dtype=statistics_dtype(residual.dtype), device=x.device) if keep_statistics else None
    mean = torch.empty_like(rstd) if keep_statistics and norm == "layer" else None
    if M:
        x, x_stride = _rows(x, D)
        residual, residual_stride = _rows(residual, D)
        weight, bias = (None if p is None else p.contiguous() for p in (weight, bias))
        tile = choose_config(D, residual.dtype).forward
        kernel = kernels.forward if tile.columns >= D else kernels.forward_wide
        with _on(x.device):
            kernel[(triton.cdiv(M, tile.rows),)](
                x, residual, weight, bias, seed, y, s, mean, rstd, x_stride, residual_stride, M,
                float(eps), float(alpha), drop_threshold(dropout_p), keep_scale(dropout_p),
                RMS=norm == "rms", D=D, **_options(tile),
            )  # fmt: skip
    return y, s, mean, rstd


def backward(
    dy: Tensor,
    ds: Tensor | None,
    s: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    seed: Tensor | None,
    norm: str,
    alpha: float,
    dropout_p: float,
    x_dtype: torch.dtype | None,
    residual_wanted: bool = True,
    weight_dtype: torch.dtype | None = None,
    bias_dtype: torch.dtype | None = None,
    programs: int | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of x, residual, weight and bias, each None where its dtype is None (or it is not wanted).

    Those of x and of residual are one tensor where alpha is 1, nothing is dropped and their dtypes agree.
    """
    D = s.shape[-1]
    M = s.numel() // D
    one_buffer = alpha == 1.0 and dropout_p == 0.0 and x_dtype in (s.dtype, None)
    dx = None if x_dtype is None else torch.empty_like(s, dtype=x_dtype)
    dresidual = torch.empty_like(s) if residual_wanted and (dx is None or not one_buffer) else None
    config = choose_config(D, s.dtype, two_gradients=dx is not None and dresidual is not None)
    tile = config.backward
    programs = programs or count_programs(M, config, _multiprocessors(s.device))
    partial_sums, gradients = [], []
    for dtype in (weight_dtype, bias_dtype):
        absent = dtype is None
        partial_sums.append(None if absent else torch.empty((programs, D), dtype=rstd.dtype, device=s.device))
        gradients.append(None if absent else torch.zeros(D, dtype=dtype, device=s.device))
    if M:
        dy, dy_stride = _rows(dy, D)
        ds, ds_stride = (None, None) if ds is None else _rows(ds, D)
        weight = None if weight is None else weight.contiguous()
        kernel = kernels.backward if tile.columns >= D else kernels.backward_wide
        with _on(s.device):
            kernel[(programs,)](
                dy, ds, s, weight, mean, rstd, seed, dx, dresidual, *partial_sums, dy_stride, ds_stride, M,
                float(alpha), drop_threshold(dropout_p), keep_scale(dropout_p),
                RMS=norm == "rms", D=D, STAGES=tile.stages, **_options(tile),
            )  # fmt: skip
            if any(g is not None for g in gradients):
                tile = config.finalize
                kernels.finalize[(triton.cdiv(D, tile.columns),)](
                    *partial_sums, *gradients, programs, D=D, **_options(tile)
                )
    return dx, dx if dresidual is None and residual_wanted else dresidual, *gradients
