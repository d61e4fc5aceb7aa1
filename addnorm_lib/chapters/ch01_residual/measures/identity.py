"""How hard is the identity? Plain and residual stacks learn H(x) = x (He et al. 2015, section 3.1).

Every block can be the identity exactly: its branch W₂·relu(W₁x) is twice as wide as x, and relu(x) − relu(−x) = x.
So a solution exists at every depth, and what is measured is whether training finds it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from addnorm_lib.experiments.data import Dataset
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train

Kind = Literal["plain", "residual", "scaled"]


def normal_vectors(d_model: int = 16, n_train: int = 4096, n_test: int = 512, seed: int = 0) -> Dataset:
    """Return standard normal vectors x (N, d_model) float32, and y = x."""
    x = np.random.default_rng(seed).standard_normal((n_train + n_test, d_model)).astype(np.float32)
    return Dataset(x[:n_train], x[:n_train], x[n_train:], x[n_train:], n_outputs=d_model)


class IdentityStack(nn.Module):
    """`depth` blocks on x (B, d_model): x ← F(x) ("plain") or x ← x + F(x) ("residual"), F(x) = W₂·relu(W₁x + b₁) + b₂.

    "scaled" is "residual" with W₂ begun at 1/√depth of its size. He initialisation, no normalisation.
    Raises ValueError for an unknown kind or a depth below 1.
    """

    def __init__(self, kind: Kind, depth: int, d_model: int = 16) -> None:
        super().__init__()
        if kind not in get_args(Kind):
            raise ValueError(f"kind: one of {', '.join(get_args(Kind))} wanted, got {kind!r}")
        if depth < 1:
            raise ValueError(f"depth: at least 1 wanted, got {depth}")
        self.kind = kind
        hidden = 2 * d_model
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, hidden), nn.ReLU(), nn.Linear(hidden, d_model)) for _block in range(depth)
        )
        for first, _relu, last in self.blocks:
            nn.init.normal_(first.weight, std=math.sqrt(2 / d_model))
            nn.init.normal_(last.weight, std=math.sqrt((1 / depth if kind == "scaled" else 1) / hidden))
            nn.init.zeros_(first.bias)
            nn.init.zeros_(last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the stack's output, of the shape of x."""
        for block in self.blocks:
            x = block(x) if self.kind == "plain" else x + block(x)
        return x


@dataclass(frozen=True)
class IdentityLosses:
    """Final mean squared errors on H(x) = x; `losses[kind]` is (depths, seeds), at the kind's best learning rate."""

    depths: tuple[int, ...]
    losses: dict[str, Tensor]


def identity_losses(
    depths: Sequence[int] = (2, 4, 8, 16),
    *,
    learning_rates: Sequence[float] = (1e-3, 3e-3, 1e-2),
    seeds: Sequence[int] = range(5),
    steps: int = 300,
) -> IdentityLosses:
    """Train every kind at every depth and learning rate with Adam; keep, for each kind and depth, the best rate.

    The best is the one with the lowest median over the seeds, chosen for each kind and depth separately.
    Raises ValueError on bad input before any training starts.
    """
    if not depths or not learning_rates:
        raise ValueError(f"depths, learning_rates: one or more wanted, got {depths!r} and {learning_rates!r}")
    results = train(
        [
            Run(
                IdentityStack,
                {"kind": kind, "depth": depth},
                data=f"{__name__}:{normal_vectors.__name__}",
                seeds=seeds,
                steps=steps,
                optimiser="adam",
                lr=rate,
                record_every=steps,
            )
            for kind in get_args(Kind)
            for depth in depths
            for rate in learning_rates
        ]
    )

    def best(kind: str, depth: int) -> Tensor:
        runs = torch.from_numpy(results.where(kind=kind, depth=depth).column("train_loss"))
        return runs[runs.nan_to_num(torch.inf).median(dim=1).values.argmin()]

    losses = {kind: torch.stack([best(kind, depth) for depth in depths]) for kind in get_args(Kind)}
    return IdentityLosses(tuple(depths), losses)
