"""What short floating-point numbers do to a norm's statistics."""

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
    """Return (x − μ)/√(σ² + ε) for x (..., D) over the last axis, with every step, ε included, rounded to x's dtype.

    `torch.nn.functional.layer_norm` and the fused core take their statistics in float32 instead.
    """
    centred = x - x.mean(-1, keepdim=True)
    var = centred.square().mean(-1, keepdim=True)
    return centred / (var + torch.tensor(eps, dtype=x.dtype)).sqrt()
