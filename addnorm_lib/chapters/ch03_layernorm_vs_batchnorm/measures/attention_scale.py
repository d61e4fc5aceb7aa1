"""What the scale of the tokens does to attention, with and without a norm before the queries and keys."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from addnorm_lib.experiments.training import one_thread
from addnorm_lib.layers import NORMS

Array = NDArray[np.float64]
SCALES = tuple(10.0**k for k in np.arange(-4, 2.01, 0.5))


class AttentionScale(NamedTuple):
    """What attention does at each scale of its input tokens; (S, scales) each.

    logit_std: standard deviation of QKᵀ/√d. entropy: of a row of attention weights, in units of log T (1: uniform,
    0: one token takes all). softmax_gradient: ‖diag(p) − ppᵀ‖_F, softmax's Jacobian, mean over rows.
    query_gradient: ‖∂out/∂W_Q‖ of a random linear read-out of the attention's output, for values of fixed scale.
    """

    logit_std: Array
    entropy: Array
    softmax_gradient: Array
    query_gradient: Array


def attention_against_scale(
    scales: Sequence[float] = SCALES,
    norm: str | None = None,
    *,
    tokens: int = 32,
    d_model: int = 64,
    eps: float = 1e-5,
    seeds: Iterable[int] = range(5),
) -> AttentionScale:
    """Feed one attention head random normal tokens x (T, D) times each of `scales`; float64, weights of variance 1/D.

    norm: what stands before W_Q and W_K, a name in `layers.NORMS` or None. The values are random and do not change with
    the scale, so that only the attention weights do. Vaswani et al. 2017, section 3.2.1 (why the logits are divided by
    √d).
    Raises ValueError on an unknown norm and on scales that are not positive.
    """
    if norm not in (None, *NORMS):
        raise ValueError(f"norm: one of {', '.join(map(repr, (None, *NORMS)))} wanted, got {norm!r}")
    if not scales or min(scales) <= 0:
        raise ValueError(f"scales: positive numbers wanted, got {scales!r}")
    rows = []
    with one_thread():
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)

            def normal(*shape: int, generator: torch.Generator = generator) -> torch.Tensor:
                return torch.randn(*shape, generator=generator, dtype=torch.float64)

            x, values, readout = normal(tokens, d_model), normal(tokens, d_model), normal(tokens, d_model)
            w_q, w_k = (normal(d_model, d_model) / math.sqrt(d_model) for _ in range(2))
            w_q.requires_grad_()
            row = []
            for scale in scales:
                h = scale * x if norm is None else NORMS[norm].function(scale * x, eps)
                logits = (h @ w_q) @ (h @ w_k).T / math.sqrt(d_model)
                p = logits.softmax(-1)
                (gradient,) = torch.autograd.grad((readout * (p @ values)).sum() / tokens, w_q)
                p = p.detach()
                entropy = torch.special.entr(p).sum(-1).mean() / math.log(tokens)
                jacobian = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]).flatten(1).norm(dim=1).mean()
                row.append([float(v) for v in (logits.detach().std(), entropy, jacobian, gradient.norm())])
            rows.append(row)
    if not rows:
        raise ValueError("seeds: one or more wanted, got none")
    return AttentionScale(*np.array(rows).transpose(2, 0, 1))
