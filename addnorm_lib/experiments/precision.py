"""What short floating-point numbers do to a norm's statistics and to the residual sum."""

from typing import NamedTuple

import torch
from torch import Tensor


class Variances(NamedTuple):
    """The biased variance over the last axis by two formulas, in the input's own dtype, and in float64."""

    one_pass: Tensor
    two_pass: Tensor
    exact: Tensor


def variances(x: Tensor) -> Variances:
    """Return E[x²] − E[x]², E[(x − E[x])²], and the latter in float64, of x (..., D).

    With unit roundoff u the one-pass formula errs by about u·E[x²], however small the variance is; the two-pass formula
    by about u·σ² (Chan, Golub & LeVeque 1983).
    """

    def two_pass(x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)).square().mean(-1)

    return Variances(x.square().mean(-1) - x.mean(-1).square(), two_pass(x), two_pass(x.double()))


def layer_norm_in_own_dtype(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Return layer norm of x (..., D) with every step, ε included, rounded to x's dtype.

    `torch.nn.functional.layer_norm` and the fused core take their statistics in float32 instead.
    """
    centred = x - x.mean(-1, keepdim=True)
    var = centred.square().mean(-1, keepdim=True)
    return centred / (var + torch.tensor(eps, dtype=x.dtype)).sqrt()


def added_up(update: float, steps: int, dtype: torch.dtype) -> Tensor:
    """Return a residual stream in `dtype` after 0 … `steps` additions of `update` (steps + 1,), in float64.

    Once the stream is so large that `update` is at most half of the distance to the next number, nothing is added any
    more. Raises ValueError on a negative number of steps.
    """
    if steps < 0:
        raise ValueError(f"steps: at least 0 wanted, got {steps}")
    stream = [torch.zeros((), dtype=dtype)]
    for _step in range(steps):
        stream.append(stream[-1] + torch.tensor(update, dtype=dtype))
    return torch.stack(stream).double()
