"""Medians over seeds with bars: what is drawn and what is returned."""

import numpy as np

from addnorm_lib.course.figures.style import new_figure
from addnorm_lib.course.figures.sweeps import doubling_axis, spread


def test_a_seed_that_diverged_counts_as_above_all_others():
    _figure, ax = new_figure()
    values = np.array([[3.0, 1.0, 2.0], [1.0, np.nan, 4.0]])
    np.testing.assert_array_equal(spread(ax, [1, 2], values), [2.0, 4.0])
    bars = ax.collections[0].get_segments()
    np.testing.assert_array_equal([bar[:, 1] for bar in bars], [[1.0, 3.0], [1.0, 4.0]])


def test_an_axis_of_doubling_sizes_has_a_tick_at_each():
    _figure, ax = new_figure()
    doubling_axis(ax, (1, 2, 8), "rows")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "8"]
    assert list(ax.get_xticks()) == [1, 2, 8] and not len(ax.get_xticks(minor=True))
    assert ax.get_xlabel() == "rows"
