"""Every figure of chapter 2, on small real runs: its words are computed from its data."""

import numpy as np
import pytest

from addnorm_lib.chapters.ch02_degradation import figures, measures
from addnorm_lib.course.figures.style import Picture
from addnorm_lib.experiments import statistics
from addnorm_lib.experiments.depth import DepthNet, depth_runs
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train

SHORT = {"steps": 20, "seeds": (0, 1), "keep_state": True}


def rate_grid(*rates):
    branches = (1.0, "1/sqrt(L)")
    runs = [
        Run(DepthNet, {"depth": 4, "norm": None, "branch": branch}, lr=lr, steps=20, seeds=(0, 1))
        for branch in branches
        for lr in rates
    ]
    return train(runs, progress=False)


@pytest.fixture(scope="module")
def runs():
    """Return a sweep over depth and learning rate in which every kind has two of each."""
    return {
        "sweep": train(depth_runs(depths=(2, 4), **SHORT), workers=1, progress=False),
        "long": train(depth_runs(depths=(2, 4), **(SHORT | {"steps": 60})), workers=1, progress=False),
        "rates": train([r for lr in (0.01, 0.1) for r in depth_runs(depths=(4,), lr=lr, **SHORT)], progress=False),
        "grid": rate_grid(0.01, 0.1),
        "hot": rate_grid(0.01, 1e4),
        "shortcuts": train([Run(DepthNet, {"depth": 8, "shortcut": f}, **SHORT) for f in (1.0, 0.5)], progress=False),
    }


def slopes(value):
    return statistics.Slope(value, value - 0.1, value + 0.1)


CASES = {
    "depth_sweep": lambda r: [(r["sweep"],), (r["long"].where(depth=2),)],
    "block_gradients": lambda r: [
        (r["sweep"].one(kind="plain", depth=4), r["sweep"].one(kind="residual", depth=4)),
        (r["sweep"].one(kind="residual", depth=2), r["sweep"].one(kind="plain", depth=2)),
    ],
    "learning_rates": lambda r: [(r["rates"],), (r["sweep"].where(depth=2),)],
    "variance_growth": lambda r: [
        ({"no norm": measures.variance_per_block(4, norm=None, seeds=(0,))},),
        ({"batch norm": measures.variance_per_block(6, seeds=(0,))},),
    ],
    "depth_rate_grid": lambda r: [(r["grid"],), (r["hot"],)],
    "shortcut_factors": lambda r: [(r["shortcuts"],), (r["shortcuts"].where(shortcut=1.0),)],
    "shattering": lambda r: [
        (0.5 ** np.arange(6.0).reshape(2, 3), 0.5 ** np.arange(6.0).reshape(2, 3), slopes(-1.0), slopes(-0.6)),
        (0.5 ** np.arange(6.0).reshape(2, 3), 0.5 ** np.arange(6.0).reshape(2, 3), slopes(-2.0), slopes(-0.6)),
    ],
    "trained_paths": lambda r: [
        (measures.path_gradients(r["sweep"].one(kind="residual", depth=4)),),
        (measures.path_gradients(r["sweep"].one(kind="residual", depth=2)),),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_a_description_is_computed_from_the_data(name, runs):
    one, other = (getattr(figures, name)(*arguments) for arguments in CASES[name](runs))
    assert isinstance(one, Picture)
    assert len(one.description) > 40 and "{" not in one.description
    assert one.description != other.description


def test_the_four_curves_of_the_exercise_can_be_read_without_the_picture():
    assert all(f"{curve} train" in figures.four_curves().description for curve in "ABCD")


def test_every_figure_is_tested():
    public = {
        name
        for name, function in vars(figures).items()
        if getattr(function, "__module__", "") == figures.__name__ and not name.startswith("_") and name.islower()
    }
    assert public - {"kind_name", "four_curves"} == set(CASES)
