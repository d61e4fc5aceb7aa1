"""How large are the branches' increments, before and after training? (De & Smith 2020, section 2.)"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class BranchShares:
    """Var F_l / Var x_l per block l = 1 … L, (seeds, L), before and after training, and the final accuracy (seeds,)."""

    before: Tensor
    after: Tensor
    accuracy: Tensor


@functools.cache
def standardised_digits() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's handwritten digits: pixels (1797, 64), centred and scaled, and labels (1797,)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = torch.tensor(data.data, dtype=torch.float32) / 16
    return (pixels - pixels.mean(dim=0)) / (pixels.std(dim=0) + 0.1), torch.tensor(data.target)


def branch_shares_in_training(
    *,
    depth: int = 16,
    d_model: int = 64,
    seeds: Sequence[int] = range(5),
    steps: int = 150,
    learning_rate: float = 3e-3,
    batch: int = 128,
) -> BranchShares:
    """Train residual networks x ← x + W₂·relu(W₁·LN(x)) to read digits; return the branches' shares of the variance.

    At initialisation every branch has output variance 1 (He initialisation behind a LayerNorm), so that block l adds
    1 to l. The variance is over examples and features. Adam; seeds train together, each with its own weights.

    Raises ValueError when there is no block, no step or no seed.
    """
    if min(depth, steps, len(seeds)) < 1:
        raise ValueError(f"depth, steps, seeds: at least one wanted, got {depth}, {steps} and {len(seeds)}")
    from tqdm.auto import trange

    pixels, labels = standardised_digits()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def weight(rows: int, columns: int, scale: float) -> Tensor:
        draws = [torch.randn(rows, columns, generator=generator) for generator in generators]
        return (torch.stack(draws) * scale / math.sqrt(rows)).requires_grad_()

    def norm(h: Tensor) -> Tensor:
        return F.layer_norm(h, (d_model,))

    read_in, read_out = weight(pixels.shape[1], d_model, 1.0), weight(d_model, 10, 1.0)
    blocks = [(weight(d_model, d_model, math.sqrt(2)), weight(d_model, d_model, 1.0)) for _block in range(depth)]

    def forward(x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        h = norm(x @ read_in)
        updates, states = [], []
        for w1, w2 in blocks:
            updates.append(torch.relu(norm(h) @ w1) @ w2)
            h = h + updates[-1]
            states.append(h)
        return norm(h) @ read_out, updates, states

    def shares() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            logits, updates, states = forward(pixels)
        ratios = [u.var(dim=(1, 2)) / s.var(dim=(1, 2)) for u, s in zip(updates, states, strict=True)]
        return torch.stack(ratios, dim=1), (logits.argmax(dim=-1) == labels).double().mean(dim=1)

    before, _ = shares()
    optimiser = torch.optim.Adam([read_in, read_out, *(w for block in blocks for w in block)], lr=learning_rate)
    for _step in trange(steps, desc="digits", leave=False):
        rows = [torch.randint(len(pixels), (batch,), generator=generator) for generator in generators]
        logits, _, _ = forward(torch.stack([pixels[r] for r in rows]))
        targets = torch.cat([labels[r] for r in rows])
        loss = F.cross_entropy(logits.flatten(0, 1), targets) * len(seeds)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after, accuracy = shares()
    return BranchShares(before, after, accuracy)
