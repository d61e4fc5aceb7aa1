"""A script: one short training on each path through the engine, in the environment that runs it.

There is no main guard below, on purpose: a reader's script has none either.
"""

import numpy as np
from torch import nn

from addnorm_lib.experiments.depth import DepthNet, depth_runs
from addnorm_lib.experiments.placement_training import text_grid, training_grid
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train

SHORT = {"steps": 12, "seeds": (0, 1)}


class Small(nn.Module):
    """A model that only this process knows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, x):
        """Return the logits."""
        return self.layers(x)


PATHS = {
    "in this process": train(Run(DepthNet, {"depth": 2}, **SHORT)),
    "in processes": train(depth_runs(depths=(2,), **SHORT)),
    "in threads, by vmap": train([Run(Small, lr=lr, **SHORT) for lr in (0.01, 0.1)]),
    "Adam with warm-up": train(Run(DepthNet, {"depth": 2}, optimiser="adam", lr=3e-3, warmup=4, **SHORT)),
    "Transformers": train(training_grid(("post", "pre"), depths=(2,), warmups=(0,), **SHORT)),
    "Transformers on text": train(text_grid(depths=(2,), warmups=(0,), **SHORT)),
}
falling = {name: (r.column("loss")[..., -1] < r.column("loss")[..., 0]).all() for name, r in PATHS.items()}
assert all(np.isfinite(results.column("loss")).all() for results in PATHS.values())
print(falling)
print(f"{sum(falling.values())} of {len(PATHS)} paths train")
