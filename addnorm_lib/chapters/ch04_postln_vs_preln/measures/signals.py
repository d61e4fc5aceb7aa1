"""What a stack of encoder layers does to one token at initialisation, fast enough for a slider."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.experiments.training import one_thread
from addnorm_lib.layers import NORMS, deepnorm, residual_block

MAX_DEPTH = 32
WIDTH = 64
SEEDS = 8
TOKENS = 4


class Signals(NamedTuple):
    """What a stack of L layers does at initialisation. Norms are geometric means over tokens and seeds.

    gradient (L+1,): of the gradient at the stream x_0 … x_L, when one of norm 1 arrives at the top.
    second_weight (L,): of the gradient of every layer's W₂, the feed-forward's second matrix.
    variance (L+1,): of the stream over its features, the mean over tokens and seeds.
    """

    gradient: NDArray[np.float64]
    second_weight: NDArray[np.float64]
    variance: NDArray[np.float64]


@functools.cache
def drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Return W_v, W_o, W_1, W_2 (4, L, S, D, D) with Xavier's variance, tokens and arriving gradients (S, B, D)."""
    generator = torch.Generator().manual_seed(0)
    weights, tokens, arriving = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((4, MAX_DEPTH, SEEDS, WIDTH, WIDTH), *[(SEEDS, TOKENS, WIDTH)] * 2)
    )
    return weights / math.sqrt(WIDTH), tokens, F.normalize(arriving, dim=-1)


def initial_gains(init: str, depth: int) -> tuple[float, float, float, float]:
    """Return what W_v, W_o, W_1 and W_2 are multiplied with."""
    if init == "deepnorm":
        return (deepnorm(depth).beta,) * 4
    closing = 1 / math.sqrt(2 * depth) if init == "gpt2" else 1.0
    return 1.0, closing, 1.0, closing


@functools.lru_cache(maxsize=4096)
def signals(
    placement: str,
    depth: int,
    *,
    norm: str = "layer",
    final_norm: bool = False,
    alpha: float = 1.0,
    gains: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
    shortcut_only: bool = False,
) -> Signals:
    """Measure encoder layers that one token enters, so that attention is W_o W_v x. D = d_ff = 64, float64.

    With `shortcut_only` no gradient flows through the branches.
    """
    weights, tokens, arriving = drawn()

    def normalise(x: Tensor) -> Tensor:
        return NORMS[norm].function(x, 1e-5)

    def add(x: Tensor, update: Tensor) -> Tensor:
        return alpha * x + update

    with one_thread():
        x = tokens.clone().requires_grad_()
        stream, hidden, updates = [x], [], []
        for layer in range(depth):
            for first, second in ((0, 1), (2, 3)):  # attention, feed-forward

                def sublayer(z: Tensor, layer: int = layer, first: int = first, second: int = second) -> Tensor:
                    h = gains[first] * ((z.detach() if shortcut_only else z) @ weights[first, layer])
                    h = torch.relu(h) if first else h
                    update = gains[second] * (h @ weights[second, layer])
                    if first:
                        hidden.append(h)
                        updates.append(update)
                    return update

                x = residual_block(placement, x, sublayer, normalise, add=add)
            stream.append(x)
        top = normalise(x) if final_norm else x
        gradients = torch.autograd.grad(top, stream if shortcut_only else stream + updates, arriving)
    at_stream, at_updates = gradients[: depth + 1], gradients[depth + 1 :]
    # One token's gradient of W₂ is an outer product: its norm is the product of the two.
    second_weight = _norms(hidden) * _norms(at_updates) if at_updates else np.full((depth, 1), np.nan)
    return Signals(
        _typical(_norms(at_stream)),
        _typical(second_weight),
        torch.stack(stream).detach().var(-1, correction=0).mean((1, 2)).numpy(),
    )


def _norms(vectors: Sequence[Tensor]) -> NDArray[np.float64]:
    return torch.stack(list(vectors)).detach().norm(dim=-1).flatten(1).numpy()


def _typical(norms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(np.log(norms).mean(axis=1))
