"""Other random numbers without another line of code: first on the path, it moves every seed by ADDNORM_SEEDS.

Python imports a module of this name when it starts, in the worker processes of a training too.
"""

import os

import numpy as np
import torch

_BY = 1000 * int(os.environ.get("ADDNORM_SEEDS", "0"))


def _moved(seed):
    return seed + _BY if isinstance(seed, int) else seed


if _BY:
    _default_rng, _manual_seed, _torch_generator = np.random.default_rng, torch.manual_seed, torch.Generator

    class _Generator(_torch_generator):
        def manual_seed(self, seed):
            super().manual_seed(_moved(seed))
            return self

    np.random.default_rng = lambda seed=None: _default_rng(_moved(seed))
    torch.manual_seed = torch.random.manual_seed = lambda seed: _manual_seed(_moved(seed))
    torch.Generator = _Generator
