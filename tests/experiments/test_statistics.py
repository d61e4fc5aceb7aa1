"""Slopes over seeds, with their interval."""

import math

import numpy as np
import pytest

from addnorm_lib.experiments.statistics import checked_seeds, slope


def test_slope_interval():
    fitted = slope([0, 1, 2], [[0, 1, 2], [0, 3, 6]])
    half = 12.7062 * math.sqrt(2) / math.sqrt(2)  # t(0.975, 1) · s / √n with slopes 1 and 3
    assert (fitted.value, fitted.low, fitted.high) == pytest.approx((2, 2 - half, 2 + half), rel=1e-4)
    for x, y in (([0, 1], [[0, 1]]), ([0, 1], [[0, 1], [0, np.inf]]), ([0, 1, 2], [[0, 1], [1, 2]])):
        with pytest.raises(ValueError, match="x, y"):
            slope(x, y)


def test_seeds_are_listed_and_needed():
    assert checked_seeds(range(2)) == [0, 1]
    with pytest.raises(ValueError, match="seeds: one or more wanted"):
        checked_seeds(())
