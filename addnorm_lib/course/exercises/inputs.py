"""What exercises are tried on: small functions that print as their formula, and seeded tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Shown:
    """A function that prints as its formula, so that a message can name it."""

    function: Callable[..., Any]
    formula: str

    def __call__(self, *arguments: Any) -> Any:
        """Apply the function."""
        return self.function(*arguments)

    def __repr__(self) -> str:
        return self.formula


Shown.__name__ = Shown.__qualname__ = "function"  # what Python's own messages call it

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
