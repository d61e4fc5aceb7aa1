"""Every figure of chapter 6: its words are computed from its data, and they are the same on every machine."""

import pytest
import torch

from addnorm_lib.chapters.ch06_fused_add_norm import figures
from addnorm_lib.course.figures.style import Picture, png
from addnorm_lib.microscope import interpreter
from addnorm_lib.microscope.roofline import Machine
from addnorm_lib.microscope.traffic import add_norm_traffic


def traffic(keep_sum):
    ways = [
        {how: add_norm_traffic(8, 16, torch.float32, how, backward=b, keep_sum=keep_sum) for how in ("eager", "fused")}
        for b in (False, True)
    ]
    return *ways, 8, 16


def steps(rows, features):
    x = torch.arange(float(rows * features)).reshape(rows, features)
    return interpreter._in_tiles(x, x, None, None, 1e-5, 2, False)


CASES = {  # two inputs whose descriptions must differ
    "traffic_boxes": [traffic(True), traffic(False)],
    "roofline": [(Machine("cpu", 1e10, 1e11), {"one": 0.5, "two": 50}), (Machine("cpu", 1e10, 1e9), {"one": 0.5})],
    "tile_steps": [(steps(4, 8),), (steps(3, 6),)],
    "call_times": [((1, 4, 16, 64), (1, 1.1, 1.2, 3), 8), ((1, 4, 16, 64), (1, 4, 16, 64), 8)],
}


@pytest.mark.parametrize("name", CASES)
def test_a_description_is_computed_from_the_data(name):
    one, other = (getattr(figures, name)(*arguments) for arguments in CASES[name])
    assert isinstance(one, Picture)
    assert len(one.description) > 40 and "{" not in one.description
    assert one.description != other.description
    assert len(png(one.figure)) > 1000


def test_measured_numbers_are_not_in_the_words():
    """A roofline and call times differ from machine to machine; their verdicts do not."""
    slow, fast = (figures.roofline(Machine("cpu", b, a), {"one": 0.5}) for b, a in ((1e9, 9e9), (3e12, 6e13)))
    assert slow.description == fast.description
    slow, fast = (figures.call_times((1, 4, 16, 64), [f * t for t in (1, 1.1, 1.2, 3)], 8) for f in (1, 7))
    assert slow.description == fast.description


def test_the_words_count_what_the_programs_held():
    description = figures.tile_steps(steps(3, 6)).description
    assert "program 0: 4 of 16 lanes masked, means 5.00, 17.00" in description
    assert "program 1: 10 of 16 lanes masked, means 29.00" in description


def test_every_figure_is_tested():
    public = {
        name
        for name, function in vars(figures).items()
        if getattr(function, "__module__", "") == figures.__name__ and not name.startswith("_") and name.islower()
    }
    assert public - {"how_name"} == set(CASES)
