"""Measure what a stack of blocks does to values, gradients and information.

A *branch* is a function F from (..., D) to (..., D). A stack applies `x ← F(x)` (plain) or `x ← x + F(x)` (residual).
Jacobians are exact (automatic differentiation) and of the branch's own dtype: use float64 inputs for exact claims.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Branch = Callable[[Tensor], Tensor]


def _square_stack(jacobians: Tensor) -> Tensor:
    if jacobians.ndim != 3 or jacobians.shape[1] != jacobians.shape[2]:
        raise ValueError(f"jacobians: shape (L, D, D) wanted, got {tuple(jacobians.shape)}")
    return jacobians


def jacobian(function: Branch, x: Tensor) -> Tensor:
    """Return the Jacobian ∂f_i/∂x_j (D_out, D) of `function` at the vector x (D,)."""
    if x.ndim != 1:
        raise ValueError(f"x: a vector, shape (D,), wanted, got {tuple(x.shape)}")
    return torch.func.jacrev(function)(x)


def branch_jacobians(branches: Sequence[Branch], x: Tensor, *, residual: bool) -> Tensor:
    """Return J_1 … J_L (L, D, D): each branch's Jacobian at the point where the forward pass of x (D,) meets it."""
    jacobians = []
    for branch in branches:
        jacobians.append(jacobian(branch, x))
        update = branch(x)
        x = x + update if residual else update
    return torch.stack(jacobians)


def jacobian_product(jacobians: Tensor, *, residual: bool) -> Tensor:
    """Return ∂x_L/∂x_0 (D, D): J_L ⋯ J_1 for a plain stack, (I + J_L) ⋯ (I + J_1) for a residual one.

    jacobians (L, D, D), the first block first. He et al. 2016, section 2, equation 5, is the residual case.
    """
    identity = torch.eye(_square_stack(jacobians).shape[-1], dtype=jacobians.dtype)
    product = identity
    for j in jacobians:
        product = (identity + j if residual else j) @ product
    return product


def gain(matrix: Tensor) -> float:
    """Return ‖J‖_F / √D, the root mean square of the singular values: 1 for the identity (D, D)."""
    return (matrix.norm() / math.sqrt(matrix.shape[-1])).item()


def deviation_from_identity(matrix: Tensor) -> float:
    """Return ‖M − I‖_F / ‖I‖_F of a square matrix (D, D)."""
    return gain(matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype))


def predicted_deviation(gains: Iterable[float]) -> float:
    """Return √(∏(1 + s_l²) − 1): the deviation of ∏(I + J_l) from I for independent branches of gains s_l.

    In ∏(I + J_l) = I + Σ(products of one, two, … Jacobians) the terms are uncorrelated when the J_l are independent
    with mean zero, so that their squared norms add.
    """
    return math.sqrt(math.expm1(sum(math.log1p(s * s) for s in gains)))


def gradients_by_layer(jacobians: Tensor, gradient: Tensor, *, residual: bool) -> Tensor:
    """Return the norm of ∂loss/∂x_l for l = 0 … L (L + 1,), given `gradient` = ∂loss/∂x_L, (D,) or (K, D).

    With K gradients the root mean square over them is returned, so that K unit vectors give 1 at l = L.
    """
    g = gradient if gradient.ndim == 2 else gradient[None]
    norms = [g.norm(dim=1)]
    for j in reversed(_square_stack(jacobians)):
        g = g @ j + g if residual else g @ j
        norms.append(g.norm(dim=1))
    return torch.stack(norms[::-1]).square().mean(dim=1).sqrt()


def path_expansion(jacobians: Tensor) -> Tensor:
    """Return M_0 … M_L (L + 1, D, D): M_k is the sum over all paths that take k branches, so that Σ M_k = ∏(I + J_l).

    The coefficients of the polynomial ∏(I + t·J_l) in t, by one pass over the blocks (L² products instead of 2^L).
    Veit et al. 2016, section 3.
    """
    n, d = _square_stack(jacobians).shape[:2]
    by_length = torch.zeros(n + 1, d, d, dtype=jacobians.dtype)
    by_length[0] = torch.eye(d, dtype=jacobians.dtype)
    for l, j in enumerate(jacobians):
        by_length[1 : l + 2] += j @ by_length[: l + 1]
    return by_length


def enumerate_paths(jacobians: Tensor) -> Tensor:
    """Return every path's own product, all 2^L of them (2^L, D, D): for small L, to check the expansion by hand.

    A path takes J_l or the identity at each block. Raises ValueError for more than 16 blocks (65 536 paths).
    """
    n, d = _square_stack(jacobians).shape[:2]
    if n > 16:
        raise ValueError(f"jacobians: at most 16 blocks wanted (2^16 paths), got {n}")
    identity = torch.eye(d, dtype=jacobians.dtype)
    paths = []
    for taken in itertools.product((False, True), repeat=n):
        path = identity
        for take, j in zip(taken, jacobians, strict=True):
            path = j @ path if take else path
        paths.append(path)
    return torch.stack(paths)


def path_energy_shares(by_length: Tensor) -> Tensor:
    """Return ‖M_k‖_F² / Σ‖M_k‖_F² (L + 1,): the share of the gradient's energy carried by paths of length k."""
    energy = by_length.square().sum(dim=(1, 2))
    return energy / energy.sum()


def stream(branches: Sequence[Branch], x: Tensor, *, residual: bool) -> list[Tensor]:
    """Return x_0 … x_L: the input and what each block makes of it."""
    states = [x]
    for branch in branches:
        update = branch(states[-1])
        states.append(states[-1] + update if residual else update)
    return states


def branch_shares(branches: Sequence[Branch], x: Tensor) -> Tensor:
    """Return Var F_l(x_{l−1}) / Var x_l for each residual block l = 1 … L (L,), variances over all elements.

    De & Smith 2020, section 2: 1/(l + 1) at initialisation when each branch adds variance 1 to an input of variance 1.
    """
    states = stream(branches, x, residual=True)
    return torch.stack([(after - before).var() / after.var() for before, after in itertools.pairwise(states)])


def read_back(features: Tensor, inputs: Tensor, *, train_fraction: float = 0.7) -> Tensor:
    """Return what a linear read-out recovers of `inputs` (N, D) from `features` (N, K), for every row (N, D).

    Ridge regression, fitted to the first `train_fraction` of the rows, with the penalty chosen by cross-validation.
    Raises ValueError when the numbers of rows differ.
    """
    from sklearn.linear_model import RidgeCV

    if len(features) != len(inputs):
        raise ValueError(f"features: as many rows as inputs, {len(inputs)}, wanted, got {len(features)}")
    x, y = features.double().numpy(), inputs.double().numpy()
    split = int(train_fraction * len(x))
    # One scale for all features: a feature that hardly ever fires must not be blown up to unit variance.
    x = x / x[:split].std()
    model = RidgeCV(alphas=np.logspace(-8, 2, 11)).fit(x[:split], y[:split])
    return torch.from_numpy(model.predict(x))


def reconstruction_r2(features: Tensor, inputs: Tensor, *, train_fraction: float = 0.7) -> float:
    """Return R² of `read_back` on the rows that it was not fitted to, over all of the inputs' features at once.

    1: everything is still there; 0: no better than the mean.
    """
    recovered = read_back(features, inputs, train_fraction=train_fraction)
    split = int(train_fraction * len(inputs))
    held_out = inputs[split:].double()
    error = (recovered[split:] - held_out).square().sum()
    return float(1 - error / (held_out - held_out.mean(dim=0)).square().sum())


def moved_by(function: Branch, x: Tensor, index: Any, *, by: float = 1.0) -> Tensor:
    """Return which outputs of `function` change when the input's elements x[index] do: a boolean of the output's shape.

    "Change" is exact: a single differing bit counts, so that False means that the output does not read x[index] at
    all. `index` picks one element, (b, t, d), or several at once, (b, t) or (slice(None), t). They are moved by
    different amounts, from `by` to 2·`by`, since layer norm would not notice a common shift; and once more by −2 times
    as much, since RMSNorm would not notice a mere change of sign. `function` gets copies: x is left as it was.

    x: a floating dtype, any shape; use float64 where outputs may move little. Raises ValueError for an x that is not
    floating, for a poke that x's dtype rounds away, and for a function that gives two results for one input (dropout).
    """
    if not x.is_floating_point():
        raise ValueError(f"x: a floating dtype wanted, got {x.dtype}")
    with torch.no_grad():
        before = function(x.clone())
        if not _same(before, function(x.clone())).all():
            raise ValueError("function: the same output for the same input wanted, got two; is dropout on?")
        chosen = x[index]
        amounts = torch.linspace(by, 2 * by, chosen.numel(), dtype=x.dtype, device=x.device).reshape(chosen.shape)
        moved = torch.zeros_like(before, dtype=torch.bool)
        for amount in (amounts, -2 * amounts):
            poked = x.clone()
            poked[index] += amount
            if (poked[index] == chosen).any():
                raise ValueError(f"by: an amount that {x.dtype} does not round away beside x wanted, got {by:g}")
            moved |= ~_same(before, function(poked))
    return moved


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def shortest_gradient_path(output: Tensor, leaf: Tensor) -> int | None:
    """Return the fewest autograd nodes between `output` and the leaf tensor `leaf`, or None where no gradient flows.

    1 means that the operation which made `output` read `leaf` itself.
    """
    frontier, seen, length = [output.grad_fn], set(), 0
    while frontier:
        following = []
        for node in frontier:
            if node is None or node in seen:
                continue
            seen.add(node)
            if getattr(node, "variable", None) is leaf:
                return length
            following.extend(parent for parent, _index in node.next_functions)
        frontier, length = following, length + 1
    return None
