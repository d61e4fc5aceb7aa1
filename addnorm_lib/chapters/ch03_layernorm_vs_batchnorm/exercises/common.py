"""What the exercises of chapter 3 share."""

from typing import Any

import torch

from addnorm_lib.course.exercises import inputs

# Most cases are float32, so that torch.nn's modules and functions take them; float32 sets these tolerances.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}


def floats(*values: Any) -> torch.Tensor:
    """Return the numbers, or lists of them, as a float32 tensor."""
    return torch.tensor(values, dtype=torch.float32)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return standard normal numbers of this shape, float32, the same for the same seed."""
    return inputs.normal(*shape, seed=seed).float()
