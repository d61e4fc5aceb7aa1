"""Every figure of chapter 3: its words are computed from its data, its picture holds what was measured."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from addnorm_lib import probes
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm import figures
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.attention_scale import attention_against_scale
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.normalisation import batch_size_runs, norm_runs
from addnorm_lib.course.figures.numbers import between
from addnorm_lib.course.figures.style import Picture
from addnorm_lib.experiments.training import train

SHORT = {"steps": 5, "seeds": (0, 1), "depth": 2}


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def shared(norm, *shape):
    index = (1,) * len(shape)
    return {"layer": probes.moved_by(norm, normal(*shape), index), "rms": torch.ones(shape) > 0}, index


def curves(eps):
    stds = np.logspace(-6, 1, 40)
    return stds, {eps: stds / np.sqrt(stds**2 + eps)}


def ramp(*shape):
    return np.linspace(0.9, 0.1, int(np.prod(shape))).reshape(shape)


@pytest.fixture(scope="module")
def runs():
    """Return short real sweeps: two over the learning rate (the second diverges at its end), two over batch size."""
    return {
        "calm": train(norm_runs((None, "layer"), (0.01, 0.1), **SHORT), workers=1, progress=False),
        "hot": train(norm_runs((None, "rms"), (0.01, 1e9), **SHORT), workers=1, progress=False),
        "short": train(batch_size_runs((2, 64), **SHORT), workers=1, progress=False),
        "long": train(batch_size_runs((2, 64), **SHORT | {"steps": 150}), workers=1, progress=False),
    }


# Arguments whose descriptions must differ.
CASES = {
    "worked_token": lambda r: [(torch.arange(1.0, 5.0),), (torch.tensor([3.0, -1.0]),)],
    "shared_statistics": lambda r: [
        (*shared(lambda x: F.layer_norm(x, (4,)), 2, 3, 4), ("B", "T", "D")),
        (*shared(lambda x: F.layer_norm(x, (3, 4)), 2, 3, 4), ("B", "T", "D")),
        (*shared(lambda x: F.layer_norm(x, (4,)), 3, 4), ("B", "D")),
        (*shared(F.instance_norm, 2, 3, 2, 2), ("B", "C", "H", "W")),
    ],
    "eps_curves": lambda r: [curves(1e-5), curves(1e-3)],
    "spectra": lambda r: [({"layer": torch.tensor([1.0, 1, 0, 0])},), ({"rms": torch.tensor([1.0, 1, 1, 0])},)],
    "fluctuations": lambda r: [
        ((2, 4, 8), {"digits": np.sqrt([[1 / 2, 1 / 4, 1 / 8]] * 2)}),
        ((2, 4, 8), {"text": np.ones((2, 3))}),
    ],
    "batch_sizes": lambda r: [(r["short"],), (r["long"],)],
    "norm_rates": lambda r: [(r["calm"], (100.0,)), (r["hot"], (100.0,)), (r["calm"], (0.01, 100.0))],
    "token_scatter": lambda r: [({"embedded": (ramp(20), ramp(20))},), ({"embedded": (ramp(20), 3 + ramp(20))},)],
    "attention_curves": lambda r: [
        ((0.1, 1, 100), {"none": attention_against_scale((0.1, 1, 100), seeds=(0, 1))}),
        ((0.1, 1, 100), {"layer": attention_against_scale((0.1, 1, 100), "layer", seeds=(0, 1))}),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_a_description_is_computed_from_the_data(name, runs):
    pictures = [getattr(figures, name)(*arguments) for arguments in CASES[name](runs)]
    assert all(isinstance(picture, Picture) for picture in pictures)
    descriptions = [picture.description for picture in pictures]
    assert all(len(text) > 40 and "{" not in text for text in descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_the_words_name_the_axes_that_share_a_statistic():
    maps, index = shared(lambda x: F.layer_norm(x, (4,)), 2, 3, 4)
    text = figures.shared_statistics(maps, index, ("B", "T", "D")).description
    assert "(B, T, D) = (2, 3, 4)" in text
    assert "layer norm 4 (along D)" in text
    assert "RMSNorm 24 (along B, T, D)" in text
    alone = torch.zeros(2, 3, dtype=torch.bool)
    alone[0, 1] = True
    assert (
        "batch norm 1 (along none)"
        in figures.shared_statistics({"batch": alone, "layer": alone}, (0, 1), "BD").description
    )


def test_the_words_count_each_poked_element_too():
    maps, index = shared(lambda x: F.layer_norm(x, (4,)), 2, 4)
    picture = figures.shared_statistics(maps, index, ("B", "D"))
    assert "Outputs that move (dots and ×): layer norm 4 (along D)" in picture.description
    marks = [line.get_marker() for line in picture.figure.axes[0].lines]
    assert (marks.count("."), marks.count("x")) == (3, 1)
    block, index = shared(lambda x: F.layer_norm(x, (4,)), 2, 3, 4)
    first = figures.shared_statistics(block, index, ("B", "T", "D")).figure.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["sample 0", "sample 1"]


@pytest.mark.parametrize(("shown", "label"), [(1 / 16, "digits =\nshuffled ≈ 1/√B"), (1 / 4, "digits =\nshuffled")])
def test_curves_that_end_together_share_a_label(shown, label):
    sizes = (4, 16, 64, 256)
    falling = shown * np.sqrt(256 / np.array(sizes))
    picture = figures.fluctuations(sizes, {"digits": [falling] * 2, "read": [[0.5] * 4] * 2, "shuffled": [falling] * 2})
    assert [text.get_text() for text in picture.figure.axes[0].texts] == [label, "read"]


def test_the_words_tell_the_accuracy_in_bands(runs):
    record = runs["long"].one(norm="batch", batch_size=2)
    share = between(100 * np.median(1 - record.test_error), 20, 80)
    assert f"batch norm {share} % at B = 2;" in figures.batch_sizes(runs["long"]).description


def test_a_diverged_rate_is_a_cross_and_no_point_of_the_curve(runs):
    axes = figures.norm_rates(runs["hot"], (100.0,)).figure.axes[0]
    crosses = [line.get_xdata() for line in axes.lines if line.get_marker() == "x"]
    assert [list(x) for x in crosses] == [[1e9], []]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0.01], rtol=0.1)


def test_the_words_count_the_rates_below_each_limit(runs):
    limits = (0.01, 1.5, 100.0)
    picture = figures.norm_rates(runs["calm"], limits)
    for norm, name in ((None, "no norm"), ("layer", "layer norm")):
        medians = np.array([np.median(record.train_loss) for record in runs["calm"].where(norm=norm)])
        said = ["none" if count == 0 else "most" if count > 1 else "some" for count in
                ((medians < limit).sum() for limit in limits)]  # fmt: skip
        assert f"{name} {' and '.join(said)}" in picture.description
    assert "How many of 2 learning rates" in picture.description
    assert "below 0.01 and below 1.5 and below 100 (dotted)" in picture.description
    dotted = [line.get_ydata()[0] for line in picture.figure.axes[0].lines if line.get_linestyle() == ":"]
    assert dotted == list(limits)
    bar = picture.figure.axes[0].collections[0].get_segments()[0]
    np.testing.assert_allclose(bar[:, 1], np.sort(runs["calm"].where(norm=None)[0].train_loss))


def test_every_figure_is_tested():
    public = {
        name
        for name, function in vars(figures).items()
        if getattr(function, "__module__", "") == figures.__name__ and not name.startswith("_") and name.islower()
    }
    assert public - {"norm_name"} == set(CASES)
