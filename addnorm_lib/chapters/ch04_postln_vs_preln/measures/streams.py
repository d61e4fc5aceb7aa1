"""What is on the residual stream after each layer: its variance, its direction, and how alike its tokens are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.experiments.per_seed import State
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.results import Record
from addnorm_lib.experiments.stacked import chunks, initial_weights, normal, residual_states, skeleton, stack_of_record
from addnorm_lib.experiments.statistics import Slope, slope
from addnorm_lib.experiments.training import one_thread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StreamStatistics:
    """The residual stream x_0 … x_L after each of L layers, means over batch and tokens.

    variance (S, L+1): over the features. square_norm (S, L+1): ‖x_l‖²/d_model. before_norm (S, L): the same of the
    second sublayer's sum, which only Post-LN normalises. cosine (S, L): between x_l and x_{l+1}, l = 0…L−1.
    similarity (S, L+1): mean cosine between two tokens of a sequence.
    """

    variance: Array
    square_norm: Array
    before_norm: Array
    cosine: Array
    similarity: Array

    @property
    def layers(self) -> Array:
        """Return l = 0…L (L+1,)."""
        return np.arange(self.variance.shape[1])

    def growth(self) -> Slope:
        """Return k of variance ∝ l^k for l = 1…L, with its 95 % interval over the seeds."""
        return slope(np.log(self.layers[1:]), np.log(self.variance[:, 1:]))


def _stream(network: PlacementNet, state: State, x: Tensor) -> StreamStatistics:
    states, sums = residual_states(network, state, x)
    unit = F.normalize(states, dim=-1)
    tokens = x.shape[2]
    similarity = (unit.sum(3).square().sum(-1).mean(2) - tokens) / max(tokens * (tokens - 1), 1)
    return StreamStatistics(
        states.var(-1, correction=0).mean((2, 3)).numpy(),
        states.square().mean((2, 3, 4)).numpy(),
        sums.square().mean((2, 3)).numpy(),
        (unit[:, 1:] * unit[:, :-1]).sum(-1).mean((2, 3)).numpy(),
        similarity.numpy(),
    )


def _join(parts: Sequence[StreamStatistics]) -> StreamStatistics:
    return StreamStatistics(*(np.concatenate([getattr(p, name) for p in parts]) for name in parts[0].__annotations__))


def stream_statistics(
    placement: str,
    depth: int = 32,
    *,
    seeds: Iterable[int] = range(8),
    batch: int = 8,
    tokens: int = 8,
    d_model: int = 64,
    **options: Any,
) -> StreamStatistics:
    """Measure the residual stream at initialisation, on standard normal inputs (B, T, d_model).

    `options` go to PlacementNet. With `init="simplified", n_heads=1` this is the network of Xiong et al. 2020, lemma 2:
    E‖x‖² = 3d/2 before Post-LN's second norm, and between (1 + l/2)d and (1 + 3l/2)d after l layers of Pre-LN.
    """
    options = {"placement": placement, "depth": depth, "d_model": d_model, "d_ff": d_model, **options}
    network = skeleton(options)
    with one_thread():
        return _join(
            [
                _stream(network, initial_weights(options, chunk), normal(chunk, batch, tokens, d_model))
                for chunk in chunks(seeds)
            ]
        )


def stream_of_record(record: Record, *, trained: bool = True, samples: int = 128) -> StreamStatistics:
    """Measure the residual stream of the networks of `record` on `samples` test sequences: as trained, or as begun.

    Raises ValueError when the trained weights are wanted and the record has none (`Run.keep_state`).
    """
    with one_thread():
        return _stream(*stack_of_record(record, trained, samples))
