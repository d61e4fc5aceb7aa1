"""Random branches at initialisation, as functions: what the probes are pointed at before any training."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.probes import Branch


def _weights(depth: int, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    if depth < 1 or rows < 1:
        raise ValueError(f"depth and d_model: at least 1 wanted, got {depth} and {rows}")
    return torch.randn(depth, rows, columns, generator=generator, dtype=torch.float64) / math.sqrt(rows)


def relu_layers(depth: int, d_model: int, *, seed: int = 0) -> list[Branch]:
    """Return plain layers x ↦ relu(xW) with He initialisation (He et al. 2015b, section 2.2), float64."""
    generator = torch.Generator().manual_seed(seed)
    weights = math.sqrt(2) * _weights(depth, d_model, d_model, generator)
    return [lambda x, w=w: torch.relu(x @ w) for w in weights]


def mlp_branches(
    depth: int, d_model: int, *, scale: float = 1.0, layer_norm: bool = False, seed: int = 0
) -> list[Branch]:
    """Return branches x ↦ scale · relu(N(x) W₁) W₂ with He initialisation, float64; N is LayerNorm or nothing.

    For an input of mean square 1 the output has mean square scale².
    """
    generator = torch.Generator().manual_seed(seed)
    first = math.sqrt(2) * _weights(depth, d_model, d_model, generator)
    second = scale * _weights(depth, d_model, d_model, generator)

    def branch(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        return torch.relu((F.layer_norm(x, x.shape[-1:]) if layer_norm else x) @ w1) @ w2

    return [lambda x, w1=w1, w2=w2: branch(x, w1, w2) for w1, w2 in zip(first, second, strict=True)]
