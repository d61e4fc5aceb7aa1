"""Every figure of chapter 1: its words are computed from its data, its picture has the size it says."""

import base64
import io
import sys

import pytest
import torch
from PIL import Image

from addnorm_lib.chapters.ch01_residual import figures
from addnorm_lib.chapters.ch01_residual.measures.identity import IdentityLosses
from addnorm_lib.chapters.ch01_residual.measures.increments import BranchShares
from addnorm_lib.course.figures.style import DPI, SHARPNESS, Picture, png, shrink


def ramp(*shape):
    return torch.linspace(0.1, 0.9, torch.Size(shape).numel()).reshape(shape)


def losses(plain):
    kinds = {"plain": plain, "residual": 1.0, "scaled": 0.1}
    return IdentityLosses((2, 4), {kind: level * (1 + ramp(2, 3)) for kind, level in kinds.items()})


def shares(after):
    return BranchShares(ramp(2, 4).flip(1), after * ramp(2, 4).flip(1), torch.ones(2))


# The figure's function, and two inputs whose descriptions must differ.
CASES = {
    figures.broadcast_map: [(ramp(3, 2), ramp(1, 2)), (ramp(3, 2), ramp(3, 2))],
    figures.identity_losses: [(losses(10.0),), (losses(0.01),)],
    figures.gain_curves: [({0.5: 0.5 ** torch.arange(9.0)},), ({2.0: 2 ** torch.arange(9.0)},)],
    figures.deviations: [((1, 4), {0.5: ramp(2, 3)}), ((1, 4), {0.5: 3 * ramp(2, 3)})],
    figures.path_lengths: [({0.5: torch.eye(5)[0]},), ({0.5: torch.eye(5)[2]},)],
    figures.reconstruction: [((0, 4), {"one": ramp(2, 3) / 2}), ((0, 4), {"one": ramp(2, 3) / 20})],
    figures.read_back_digits: [(ramp(3, 64), {"deep": ramp(3, 64)}), (ramp(3, 64), {"deep": -ramp(3, 64)})],
    figures.branch_shares: [(shares(0.5),), (shares(1.5),)],
}
EACH = pytest.mark.parametrize("figure", CASES, ids=lambda function: function.__name__)


def test_every_figure_is_tested():
    public = {
        function
        for name, function in vars(figures).items()
        if getattr(function, "__module__", "") == figures.__name__ and not name.startswith("_")
    }
    assert public == set(CASES)


@EACH
def test_the_description_is_computed_from_the_data(figure):
    one, other = (figure(*arguments) for arguments in CASES[figure])
    assert isinstance(one, Picture)
    assert repr(one) == one.description != other.description
    assert "{" not in one.description and len(one.description) > 40


@EACH
def test_the_picture_has_its_size_and_its_words(figure, shown):
    picture = figure(*CASES[figure][0])
    (image, metadata), (words, _none) = shown(picture)
    width, height = (round(DPI * inches) for inches in picture.figure.get_size_inches())
    assert metadata["image/png"]["alt"] == image["text/plain"] == words["text/plain"] == picture.description
    assert (metadata["image/png"]["width"], metadata["image/png"]["height"]) == pytest.approx((width, height), abs=1)
    stored = Image.open(io.BytesIO(base64.b64decode(image["image/png"])))
    assert stored.size == pytest.approx((SHARPNESS * width, SHARPNESS * height), abs=2)
    assert len(stored.convert("RGB").getcolors(1 << 20)) > 4
    assert words["text/markdown"] == f"*{picture.description}*"


@EACH
def test_nothing_is_left_open_in_pyplot(figure):
    picture = figure(*CASES[figure][0])
    png(picture.figure)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_shrinking_keeps_the_picture():
    data = png(figures.deviations(*CASES[figures.deviations][0]).figure)
    before, after = (Image.open(io.BytesIO(d)).convert("RGB") for d in (data, shrink(data)))
    assert before.size == after.size
    differences = [abs(a - b) for a, b in zip(before.tobytes(), after.tobytes(), strict=True)]
    assert sum(differences) / len(differences) < 2
