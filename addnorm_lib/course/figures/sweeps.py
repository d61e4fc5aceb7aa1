"""What figures of sweeps share: medians over seeds with bars, and an axis of sizes that double."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray


def spread(ax: Axes, x: ArrayLike, values: NDArray[np.float64], **style: Any) -> NDArray[np.float64]:
    """Draw medians of values (points, seeds) with bars from the lowest to the highest seed; return the medians.

    NaN, where a seed diverged, counts as above all others; the bar ends at the highest finite one.
    """
    middle = np.median(np.where(np.isnan(values), np.inf, values), axis=1)
    errors = np.stack([middle - np.nanmin(values, axis=1), np.nanmax(values, axis=1) - middle])
    ax.errorbar(x, middle, yerr=errors, capsize=3, **style)
    return middle


def doubling_axis(ax: Axes, sizes: Sequence[int], name: str) -> None:
    """Make the x axis logarithmic, with a tick and its number at each of `sizes` alone, and name it."""
    ax.set_xscale("log", base=2)
    ax.minorticks_off()
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.set_xlabel(name)
