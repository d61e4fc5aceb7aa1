"""The fused core's contract in plain torch: the path of CPUs, of transforms, and of second derivatives."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

# torch sums a lone row of at least this many elements (at::internal::GRAIN_SIZE) in one part a thread.
_LONE_ROW_IS_SPLIT = 32768


def statistics_dtype(s: torch.dtype) -> torch.dtype:
    """Return the dtype in which the norm of a sum of dtype `s` is computed: float32, or float64 for float64."""
    return torch.promote_types(s, torch.float32)


def _mix(h: Tensor) -> Tensor:
    """Scatter the 32-bit numbers in an int64 tensor: a bijection (lowbias32 of Wellons's hash prospector)."""
    h = h ^ (h >> 16)
    h = h * 0x7FEB352D & 0xFFFFFFFF
    h = h ^ (h >> 15)
    h = h * 0x846CA68B & 0xFFFFFFFF
    return h ^ (h >> 16)


def keep_mask(shape: torch.Size, seed: Tensor, p: float) -> Tensor:
    """Return a boolean mask of `shape`, True with probability 1 - p, a function of (seed, row, column) alone.

    `seed` holds two numbers below 2**32, the contract's (seed, offset). Row m walks `a + column * b (mod 2**32)` with
    its own start a and odd stride b; the walk is scattered and its upper 24 bits are compared with p. The kernels
    compute the same mask in 32-bit arithmetic.
    """
    rows, columns = math.prod(shape[:-1]), shape[-1]
    row = torch.arange(rows, device=seed.device).unsqueeze(1)
    column = torch.arange(columns, device=seed.device)
    a = _mix((row & 0xFFFFFFFF) ^ seed[0])
    b = _mix(a ^ seed[1]) | 1
    u = _mix(a + column * b & 0xFFFFFFFF)
    return (u >> 8 >= drop_threshold(p)).reshape(shape)


def drop_threshold(p: float) -> int:
    """Return the 24-bit number below which an element is dropped."""
    return round(p * 2**24)


def keep_scale(p: float) -> float:
    """Return the factor 1 / (1 - p) of the elements kept; nothing is kept at p = 1."""
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


def _masked(x: Tensor, seed: Tensor, p: float) -> Tensor:
    return torch.where(keep_mask(x.shape, seed, p), x * keep_scale(p), 0.0)


class _Dropout(torch.autograd.Function):
    """Dropout that saves its seed instead of its mask. It is linear and symmetric: its own derivative at any order."""

    @staticmethod
    def forward(x: Tensor, seed: Tensor, p: float) -> Tensor:
        return _masked(x, seed, p)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, seed, ctx.p = inputs
        ctx.save_for_backward(seed)
        ctx.save_for_forward(seed)

    @staticmethod
    def backward(ctx, grad: Tensor):
        return dropout(grad, *ctx.saved_tensors, ctx.p), None, None

    @staticmethod
    def jvp(ctx, tangent: Tensor, *_) -> Tensor:
        return dropout(tangent, *ctx.saved_tensors, ctx.p)


def dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    """Return x with elements dropped as `keep_mask` says and the others divided by 1 - p."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return _masked(x, seed, p)
    return _Dropout.apply(x, seed, p)


def residual_sum(x: Tensor, residual: Tensor, alpha: float, dropout_p: float, seed: Tensor | None) -> Tensor:
    """Return `alpha * residual + dropout(x)`, contiguous, rounded once, in residual's dtype."""
    if alpha == 1.0 and dropout_p == 0.0:
        return (residual + x).contiguous()
    wide = statistics_dtype(residual.dtype)
    update = x.to(wide)
    if dropout_p > 0.0:
        update = dropout(update, seed, dropout_p)
    # Two operators, each rounded exactly. torch.add(update, residual, alpha=alpha) may fuse the product in its vector
    # loop and not in its tail, as the build likes; a row's bits would then depend on where in the batch it lies.
    return (residual.to(wide) * alpha + update).to(residual.dtype).contiguous()


def normalise(s: Tensor, weight: Tensor | None, bias: Tensor | None, norm: str, eps: float) -> Tensor:
    """Return LayerNorm or RMSNorm of s over its last axis in `statistics_dtype`, scaled and shifted."""
    wide = statistics_dtype(s.dtype)
    shape = s.shape[-1:]
    s = s.to(wide)
    weight = None if weight is None else weight.to(wide)
    bias = None if bias is None else bias.to(wide)
    if norm == "layer":
        return F.layer_norm(s, shape, weight, bias, eps)
    if s.shape[-1] >= _LONE_ROW_IS_SPLIT and s.numel() == s.shape[-1]:
        y = F.rms_norm(s.expand(2, *s.shape), shape, weight, eps)[0]
    else:
        y = F.rms_norm(s, shape, weight, eps)
    return y if bias is None else y + bias


def add_norm(
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
) -> tuple[Tensor, Tensor]:
    """Return (y, s) as `addnorm_lib.fused.add_norm` defines them, y in `out_dtype`. Arguments are taken as valid."""
    s = residual_sum(x, residual, alpha, dropout_p, seed)
    return normalise(s, weight, bias, norm, eps).to(out_dtype), s


def gradients(
    dy: Tensor | None,
    ds: Tensor | None,
    s: Tensor,
    weight: Tensor | None,
    seed: Tensor | None,
    norm: str,
    eps: float,
    alpha: float,
    dropout_p: float,
    x_dtype: torch.dtype,
    bias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return the gradients of x, residual, weight and bias in operators that can be differentiated again.

    With xhat and rstd those of s, wdy = weight * dy, c1 = mean(xhat * wdy), c2 = mean(wdy) (0 for RMSNorm)::

        dsum = (wdy - (xhat * c1 + c2)) * rstd + ds;  dresidual = alpha * dsum;  dx = dropout(dsum)
    """
    wide = statistics_dtype(s.dtype)
    dweight = dbias = None
    dsum = 0.0 if ds is None else ds.to(wide)
    if dy is not None:
        dy, centred = dy.to(wide), s.to(wide)
        if norm == "layer":
            centred = centred - centred.mean(-1, keepdim=True)
        rstd = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        xhat = centred * rstd
        wdy = dy if weight is None else dy * weight.to(wide)
        c1 = (xhat * wdy).mean(-1, keepdim=True)
        c2 = wdy.mean(-1, keepdim=True) if norm == "layer" else 0.0
        dsum = (wdy - (xhat * c1 + c2)) * rstd + dsum
        features = s.shape[-1]
        if weight is not None:
            dweight = (dy * xhat).reshape(-1, features).sum(0).to(weight.dtype)
        if bias_dtype is not None:
            dbias = dy.reshape(-1, features).sum(0).to(bias_dtype)
    dx = dsum if dropout_p == 0.0 else dropout(dsum, seed, dropout_p)
    return dx.to(x_dtype), (alpha * dsum).to(s.dtype), dweight, dbias
