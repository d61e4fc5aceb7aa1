"""What exercises are tried on: small functions that print as their formula, and seeded tensors."""

import torch

from addnorm_lib.exercises.exercise import Shown

half = Shown(lambda z: z / 2, "z ↦ z/2")
square = Shown(lambda z: z**2, "z ↦ z²")
sine = Shown(torch.sin, "sin")
zero = Shown(torch.zeros_like, "z ↦ 0")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return standard normal numbers of this shape, float64, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def vector(*values: float) -> torch.Tensor:
    """Return the numbers as a float64 vector."""
    return torch.tensor(values, dtype=torch.float64)
