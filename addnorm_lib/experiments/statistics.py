"""What is said about numbers that were measured with several seeds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


def checked_seeds(seeds: Iterable[int]) -> list[int]:
    """Return the seeds as a list. Raises ValueError when there is none."""
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds: one or more wanted, got none")
    return seeds


@dataclass(frozen=True)
class Slope:
    """A fitted slope and its 95 % confidence interval over the seeds."""

    value: float
    low: float
    high: float


def slope(x: ArrayLike, y: ArrayLike) -> Slope:
    """Fit a line to every row of y (S, N) over x (N,): the mean slope and its Student t interval over the S rows.

    Raises ValueError with fewer than two rows or points, or when something is not finite.
    """
    from scipy.stats import t

    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if y.ndim != 2 or x.shape != y.shape[1:] or min(y.shape) < 2:
        raise ValueError(f"x, y: shapes (N,) and (S, N) with two or more of each wanted, got {x.shape}, {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("x, y: finite numbers wanted")
    centred = x - x.mean()
    slopes = y @ centred / (centred @ centred)
    half = t.ppf(0.975, len(slopes) - 1) * slopes.std(ddof=1) / math.sqrt(len(slopes))
    return Slope(float(slopes.mean()), float(slopes.mean() - half), float(slopes.mean() + half))
