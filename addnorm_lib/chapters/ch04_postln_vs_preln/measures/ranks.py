"""Whether tokens stay apart when attention alone mixes them."""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from addnorm_lib.experiments.statistics import checked_seeds
from addnorm_lib.experiments.training import one_thread
from addnorm_lib.layers import MultiHeadAttention

Array = NDArray[np.float64]


@torch.no_grad()
def rank_collapse(
    depth: int = 12,
    *,
    skip: bool,
    branch_scale: float | Literal["1/sqrt(L)"] = 1.0,
    tokens: int = 16,
    d_model: int = 64,
    n_heads: int = 1,
    seeds: Iterable[int] = range(8),
) -> Array:
    """Return how different the tokens still are after 0…L attentions at initialisation, (S, L+1), in float64.

    The measure is ‖X − 1x̄ᵀ‖_F / ‖X‖_F with the tokens' mean x̄: 0 when all tokens are one. A layer is A(LN(x)), or with
    `skip` x + branch_scale · A(LN(x)); no feed-forward. Dong et al. 2021, theorem 2.2: without the skip the residual is
    at most of the order of its cube in the layer before.
    """
    scale = depth**-0.5 if branch_scale == "1/sqrt(L)" else float(branch_scale)
    rows = []
    with one_thread(), torch.random.fork_rng(devices=[]):
        for seed in checked_seeds(seeds):
            torch.manual_seed(seed)
            x = torch.randn(1, tokens, d_model, dtype=torch.float64)
            row = []
            for l in range(depth + 1):
                row.append(float((x - x.mean(1, keepdim=True)).norm() / x.norm()))
                if l < depth:
                    update = MultiHeadAttention(d_model, n_heads).double()(F.layer_norm(x, (d_model,)))
                    x = x + scale * update if skip else update
            rows.append(row)
    return np.array(rows)
