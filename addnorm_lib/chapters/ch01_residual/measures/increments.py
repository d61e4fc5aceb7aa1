"""How large are the branches' increments, before and after training? (De & Smith 2020, section 2.)"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train


@dataclass(frozen=True)
class BranchShares:
    """Var F_l / Var x_l per block l = 1 … L, (seeds, L), before and after training, and the training accuracy (seeds,).

    Variances over the examples and features of a mini-batch.
    """

    before: Tensor
    after: Tensor
    accuracy: Tensor


def branch_shares_in_training(
    *, depth: int = 16, seeds: Sequence[int] = range(5), steps: int = 300, learning_rate: float = 3e-3
) -> BranchShares:
    """Train residual networks x ← x + W·relu(LN(x)) to read digits; return the branches' shares of the variance.

    At initialisation every branch has output variance 1 (He initialisation behind a LayerNorm), so that block l adds
    1 to l. Adam, 128 digits a step.

    Raises ValueError when there is no block or no seed, and with fewer than two steps.
    """
    if steps < 2:
        raise ValueError(f"steps: at least 2 wanted, got {steps}")
    run = Run(
        DepthNet,
        {"kind": "residual", "depth": depth, "norm": "layer"},
        seeds=seeds,
        steps=steps,
        optimiser="adam",
        lr=learning_rate,
        record_every=steps - 1,
    )
    record = train(run)[0]
    shares = torch.from_numpy((record.response_std / record.activation_std) ** 2)  # (seeds, first and last step, L)
    return BranchShares(shares[:, 0], shares[:, -1], torch.from_numpy(1 - record.train_error))
