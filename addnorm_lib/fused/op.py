"""From the public call to a backend: validation, autocast, the dropout seed, dispatch."""

import contextlib
import math

import torch
from torch import Tensor

from addnorm_lib.fused import eager

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_SMALLEST_EPS = torch.finfo(torch.float32).tiny


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: a torch.Tensor wanted, got {type(value).__name__}")
    if value.is_nested or value.layout is not torch.strided:
        raise TypeError(f"{name}: a dense tensor wanted, got {'nested' if value.is_nested else value.layout}")
    if value.dtype not in _DTYPES:
        raise TypeError(f"{name}: float16, bfloat16, float32 or float64 wanted, got {value.dtype}")


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: a number wanted, got {type(value).__name__}")


def _check(x, residual, weight, bias, norm, eps, alpha, dropout_p, backend) -> None:
    _check_tensor("x", x)
    _check_tensor("residual", residual)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x: shape (..., D) with D >= 1 wanted, got {tuple(x.shape)}")
    if residual.shape != x.shape:
        raise ValueError(f"residual: the shape of x, {tuple(x.shape)}, wanted, got {tuple(residual.shape)}")
    if residual.device != x.device:
        raise ValueError(f"residual: the device of x, {x.device}, wanted, got {residual.device}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is None:
            continue
        _check_tensor(name, parameter)
        if parameter.shape != x.shape[-1:]:
            raise ValueError(
                f"{name}: shape {(x.shape[-1],)} wanted, one number a feature, got {tuple(parameter.shape)}"
            )
        if parameter.device != x.device:
            raise ValueError(f"{name}: the device of x, {x.device}, wanted, got {parameter.device}")
    if norm not in ("layer", "rms"):
        raise ValueError(f"norm: 'layer' or 'rms' wanted, got {norm!r}")
    if backend not in ("auto", "triton", "eager"):
        raise ValueError(f"backend: 'auto', 'triton' or 'eager' wanted, got {backend!r}")
    _check_number("eps", eps)
    if not _SMALLEST_EPS <= eps < math.inf:
        raise ValueError(f"eps: a positive number, at least {_SMALLEST_EPS:.3g}, wanted, got {eps}")
    _check_number("alpha", alpha)
    if not -math.inf < alpha < math.inf:
        raise ValueError(f"alpha: a finite number wanted, got {alpha}")
    _check_number("dropout_p", dropout_p)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p: a probability, 0 to 1, wanted, got {dropout_p}")


def add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    norm: str,
    eps: float,
    alpha: float,
    dropout_p: float,
    return_sum: bool,
    backend: str,
) -> tuple[Tensor, Tensor | None]:
    """Check the arguments of `addnorm_lib.fused.add_norm`, choose a backend and run it."""
    _check(x, residual, weight, bias, norm, eps, alpha, dropout_p, backend)
    autocast = x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    if autocast:
        residual = residual.to(torch.promote_types(x.dtype, residual.dtype))
    if torch.promote_types(x.dtype, residual.dtype) != residual.dtype:
        raise TypeError(f"residual: the dtype of x, {x.dtype}, or a wider one wanted, got {residual.dtype}")
    if backend == "triton":
        raise ValueError("backend: 'triton' is not there yet; use 'auto' or 'eager'")
    seed = torch.randint(2**32, (2,), device=x.device) if dropout_p > 0.0 else None
    # On every device but the CPU torch's autocast runs layer_norm and rms_norm in float32.
    out_dtype = eager.statistics_dtype(x.dtype) if autocast and x.device.type != "cpu" else x.dtype
    with torch.autocast(x.device.type, enabled=False) if autocast else contextlib.nullcontext():
        return eager.add_norm(x, residual, weight, bias, norm, eps, alpha, dropout_p, seed, out_dtype)
