"""How hard is the identity? Plain and residual stacks learn H(x) = x (He et al. 2015, section 3.1).

Every block can be the identity exactly: its branch W₂·relu(W₁x) is twice as wide as x, and relu(x) − relu(−x) = x.
So a solution exists at every depth, and what is measured is whether training finds it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["plain", "residual", "scaled"]
D_MODEL = 16
BATCH = 128


@dataclass(frozen=True)
class IdentityLosses:
    """Final mean squared errors on H(x) = x; `losses[kind]` is (depths, seeds), at the kind's best learning rate."""

    depths: tuple[int, ...]
    losses: dict[str, Tensor]


def _normal(seeds: Sequence[torch.Generator], *shape: int) -> Tensor:
    return torch.stack([torch.randn(*shape, generator=generator) for generator in seeds])


def train_on_identity(
    kind: Kind, depth: int, learning_rate: float, *, seeds: Sequence[int] = range(5), steps: int = 300
) -> Tensor:
    """Train `depth` blocks on H(x) = x, x standard normal (16,), with Adam; return the final loss of each seed (S,).

    Blocks are x ← F(x) ("plain"), x ← x + F(x) ("residual"), or the same with F's last weights begun at 1/√depth of
    their size ("scaled"). He initialisation, no normalisation. All seeds train at once, as a batch of matrices, each
    with its own generator: a seed's loss does not depend on which others run beside it.

    Raises ValueError for an unknown kind, a depth below 1, or no seeds.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind: one of {', '.join(get_args(Kind))} wanted, got {kind!r}")
    if depth < 1 or len(seeds) < 1:
        raise ValueError(f"depth and seeds: at least one wanted, got depth {depth} and {len(seeds)} seeds")
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    hidden = 2 * D_MODEL
    start = 1 / math.sqrt(depth) if kind == "scaled" else 1.0
    blocks = [
        [
            _normal(generators, D_MODEL, hidden) * math.sqrt(2 / D_MODEL),
            torch.zeros(len(seeds), 1, hidden),
            _normal(generators, hidden, D_MODEL) * start / math.sqrt(hidden),
            torch.zeros(len(seeds), 1, D_MODEL),
        ]
        for _block in range(depth)
    ]
    parameters = [tensor.requires_grad_() for block in blocks for tensor in block]
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    for _step in range(steps):
        x = h = _normal(generators, BATCH, D_MODEL)
        for w1, b1, w2, b2 in blocks:
            update = torch.baddbmm(b2, torch.relu(torch.baddbmm(b1, h, w1)), w2)
            h = update if kind == "plain" else h + update
        loss = (h - x).square().mean(dim=(1, 2))
        optimiser.zero_grad()
        loss.sum().backward()
        optimiser.step()
    return loss.detach()


def identity_losses(
    depths: Sequence[int] = (2, 4, 8, 16),
    *,
    learning_rates: Sequence[float] = (1e-3, 3e-3, 1e-2),
    seeds: Sequence[int] = range(5),
    steps: int = 300,
) -> IdentityLosses:
    """Train every kind at every depth and learning rate; keep, for each kind and depth, the best learning rate.

    The best is the one with the lowest median over the seeds, chosen for each kind separately.
    """
    from tqdm.auto import tqdm

    kinds: tuple[Kind, ...] = get_args(Kind)
    losses: dict[str, Tensor] = {}
    with tqdm(total=len(kinds) * len(depths) * len(learning_rates), desc="identity", leave=False) as bar:
        for kind in kinds:
            best = []
            for depth in depths:
                runs = []
                for rate in learning_rates:
                    runs.append(train_on_identity(kind, depth, rate, seeds=seeds, steps=steps))
                    bar.update()
                best.append(min(runs, key=lambda run: run.nan_to_num(torch.inf).median().item()))
            losses[kind] = torch.stack(best)
    return IdentityLosses(tuple(depths), losses)
