"""The fused core: residual add (with dropout and alpha) and LayerNorm or RMSNorm in one pass over memory."""

from typing import Literal, overload

from torch import Tensor

from addnorm_lib.fused import op

__all__ = ["add_norm"]

Norm = Literal["layer", "rms"]
Backend = Literal["auto", "triton", "eager"]


@overload
def add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    norm: Norm = "layer",
    eps: float = 1e-5,
    alpha: float = 1.0,
    dropout_p: float = 0.0,
    training: bool = True,
    return_sum: Literal[False] = False,
    backend: Backend = "auto",
) -> Tensor: ...


@overload
def add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    norm: Norm = "layer",
    eps: float = 1e-5,
    alpha: float = 1.0,
    dropout_p: float = 0.0,
    training: bool = True,
    return_sum: Literal[True],
    backend: Backend = "auto",
) -> tuple[Tensor, Tensor]: ...


def add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    norm: Norm = "layer",
    eps: float = 1e-5,
    alpha: float = 1.0,
    dropout_p: float = 0.0,
    training: bool = True,
    return_sum: bool = False,
    backend: Backend = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Add the sublayer's output to the residual stream and normalise the sum: the "Add & Norm" box.

    With the mean over the last axis, of size D::

        s = alpha * residual + dropout(x)
        y = (s - mean(s)) / sqrt(mean((s - mean(s))**2) + eps) * weight + bias     (norm="layer")
        y = s / sqrt(mean(s**2) + eps) * weight + bias                             (norm="rms")

    Args:
        x: the sublayer's output F(x), shape (..., D) with D >= 1, float16, bfloat16, float32 or float64. Any strides.
        residual: the residual stream, of exactly x's shape (nothing broadcasts), in x's dtype or a wider one:
            bfloat16 activations over a float32 stream are usual.
        weight: gamma, shape (D,), any of the four dtypes; None means one.
        bias: beta, shape (D,), any of the four dtypes; None means zero. Each of the two may stand alone.
        norm: "layer" for LayerNorm, "rms" for RMSNorm.
        eps: added to the variance (or mean square), so it has the unit of s squared. Must be positive: a row without
            variance then gives `bias`, not NaN.
        alpha: scales the shortcut: 1 in most models, larger in DeepNorm.
        dropout_p: the probability, 0 to 1, that an element of x is dropped; the others are divided by 1 - dropout_p.
            A pair of numbers (seed, offset), drawn from torch's generator of x's device, and the element's position
            decide; the mask is computed anew in backward and never stored. `torch.manual_seed` makes it repeat.
        training: False switches dropout off.
        return_sum: return s too, as a Pre-LN layer needs it for its next shortcut.
        backend: "triton" for the fused kernels, "eager" for plain torch, "auto" for Triton where it is installed and
            x is on a CUDA device of compute capability 7.5 or later, with D at most 65536; else eager. "triton" takes
            CPU tensors only under Triton's interpreter: `TRITON_INTERPRET=1` in the environment before Triton's first
            import.

    Returns:
        y of x's shape and dtype, or (y, s) with s of x's shape and residual's dtype. Both are contiguous.

    Rounding: s is rounded once, to its dtype, and the statistics are those of the rounded s, in float32 (float64 where
    residual is float64), so that `add_norm(x, residual)` is the norm of the tensor `x + residual`.

    Repeatability: the same input gives the same bits, and a row's result does not depend on the other rows.
    NaN and infinities stay in their own row.

    Derivatives: backward through y, s or both, for any subset of x, residual, weight and bias; a second derivative
    too. Under `torch.func` transforms and forward-mode differentiation the eager path runs, whatever `backend` says.
    (A *third* derivative of LayerNorm is torch's own there, and torch 2.13 gets that one wrong in silence.)

    Autocast: dtypes come out as from `torch.nn.functional.layer_norm(x + residual)`: float32 y for half-precision x on
    a GPU, x's dtype on the CPU; a residual narrower than x is widened first, as torch's addition would.

    Raises:
        TypeError: an argument is no tensor or no number, or its dtype or layout is not among those above.
        ValueError: shapes or devices differ, a number is out of range, or the backend cannot run here.

    Sources: the residual sum, He et al. 2015, section 3.2; LayerNorm, Ba et al. 2016, section 3; RMSNorm, Zhang &
    Sennrich 2019, section 4; y and s around it, Vaswani et al. 2017, section 3.1 (Post-LN), and Xiong et al. 2020,
    section 3.1 (Pre-LN); alpha, Wang et al. 2022, section 3; dropout before the sum, Vaswani et al. 2017, section 5.4.
    """
    y, s = op.add_norm(x, residual, weight, bias, norm, eps, alpha, dropout_p if training else 0.0, return_sum, backend)
    return (y, s) if return_sum else y
