"""Chapter 3's panels say what PyTorch and the reference compute, at the ends of their range too."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import PathPatch

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm import panels
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import FEATURES, NORMS, TOKENS
from addnorm_lib.course.panels.vector import LARGEST, MAX_FEATURES, PRESETS

FINITE = st.floats(-LARGEST, LARGEST).filter(lambda value: value == 0 or abs(value) > 1e-12)


@pytest.fixture(scope="module")
def layer_norm_panel():
    return panels.layer_norm_panel()


def number(text):
    return float(text.replace("−", "-"))


def lists(readout):
    assert "-" not in readout  # a minus sign is no hyphen
    return [[number(text) for text in found.split(", ")] for found in re.findall(r"\[([^]]*)\]", readout)]


@settings(max_examples=40)  # a redraw each
@given(x=st.lists(FINITE, min_size=1, max_size=MAX_FEATURES), power=st.integers(-120, 10), data=st.data())
def test_the_layer_norm_panel_is_the_reference(layer_norm_panel, x, power, data):
    eps = 10 ** (power / 10)
    sliders = st.integers(-20, 20).map(lambda n: n / 10)
    weight, bias = (data.draw(st.lists(sliders, min_size=4, max_size=4)) for _parameter in range(2))
    names = {f"gamma{i + 1}": g for i, g in enumerate(weight)} | {f"beta{i + 1}": b for i, b in enumerate(bias)}
    readout = layer_norm_panel.set(x=", ".join(map(repr, x)), eps=eps, **names)
    count = len(x)
    # Shifting does not change layer norm, and spares the reference the rounding of a large common mean.
    shifted = np.array(x) - x[0]
    shown = lists(readout)
    want = [x, reference.layer_norm(shifted, eps=eps), weight[:count], bias[:count]]
    want.append(want[1] * want[2] + want[3])
    for got, values, digits in zip(shown, want, (6, 3, 3, 3, 3), strict=True):
        np.testing.assert_allclose(got, values, rtol=0.6 * 10 ** (1 - digits), atol=1e-15)
    drawn = [artist for artist in layer_norm_panel._canvas.moving if isinstance(artist, PathPatch)]
    tops = [bars.get_path().vertices[1::5, 1] for bars in drawn]  # five corners a bar, the second at its top
    assert [len(heights) for heights in tops] == [count] * 3
    np.testing.assert_allclose(tops[0] * layer_norm_panel.values["scale"], x)
    np.testing.assert_allclose(tops[1], want[1])
    np.testing.assert_allclose(tops[2], want[4], atol=1e-12)
    low, high = layer_norm_panel.controls["x1"].min, layer_norm_panel.controls["x1"].max
    assert all(low <= height <= high for height in tops[0])


@settings(max_examples=25)
@given(value=FINITE, count=st.integers(1, 4), beta=st.integers(-20, 20).map(lambda n: n / 10))
def test_a_constant_vector_gives_beta_exactly(layer_norm_panel, value, count, beta):
    betas = {f"beta{i}": beta for i in range(1, 5)}
    shown = lists(layer_norm_panel.set(x=", ".join([repr(value)] * count), eps=1e-12, **betas))
    assert shown[1] == [0] * count and shown[4] == [beta] * count


@pytest.mark.parametrize(
    ("preset", "eps", "words"),
    [
        (0, 1e-5, "Normalised [−1.34, −0.447, 0.447, 1.34], standard deviation 1 − 4e−6."),
        (1, 1e-5, "Normalised [0.392, −1.37, 0.98]"),
        (2, 1e-5, "Normalised [0.852, −1.4, 0.551]"),
        (3, 1e-5, "Normalised [0.0105, −0.0841, 0.0736], standard deviation 0.0648."),
        (3, 1e-12, "Normalised [0.162, −1.3, 1.14]"),
        (4, 1e-5, "With γ = [2, 1, 0.5], β = [1, 0, −1]: y = [−1.45, 0, −0.388]."),
        (5, 1e-12, "σ²/(σ² + ε) = 0. Normalised [0, 0, 0, 0], standard deviation 0."),
        (6, 1e-5, "Normalised [−1, 1]"),
        (0, 3.75, "Normalised [−0.671, −0.224, 0.224, 0.671], standard deviation 0.5."),
        (7, 1, "Normalised [−1.34, −0.447, 0.447, 1.34]"),
    ],
)
def test_the_examples_of_the_chapter(layer_norm_panel, preset, eps, words):
    readout = layer_norm_panel.set(preset=list(PRESETS)[preset], eps=eps)
    assert words in readout
    assert layer_norm_panel.values["preset"] == list(PRESETS)[preset]


def test_text_sliders_scale_and_preset_follow_each_other(layer_norm_panel):
    panel = layer_norm_panel
    panel.set(x="100, -50, 80", gamma2=2)
    assert panel.values["preset"] is None
    assert (panel.values["scale"], panel.values["x1"], panel.values["x2"], panel.values["x3"]) == (100, 1, -0.5, 0.8)
    assert [panel.controls[name].layout.display for name in ("x3", "x4", "gamma4", "beta4")] == [None] + ["none"] * 3
    panel.controls["scale"].value = 0.01
    assert panel.values["x"] == "0.01, -0.005, 0.008"
    panel.controls["x2"].value = 3.0
    assert panel.values["x"] == "0.01, 0.03, 0.008"
    panel.set(x4=-1)  # a fourth feature
    assert panel.values["x"] == "0.01, 0.03, 0.008, -0.01" and panel.controls["x4"].layout.display is None
    panel.set(preset=next(iter(PRESETS)))
    assert panel.values["x"] == "1, 2, 3, 4" and panel.values["gamma2"] == 1
    panel.controls["x"].value = "1, 2"
    panel.controls["x"].value = "1, 2, many"
    assert "1 to 4 numbers, such as 1, 2, 3, 4, wanted, got 'many'. Still shown: x = [1, 2]" in panel.readout
    panel.controls["x1"].value = -1
    assert panel.values["x"] == "-1, 2" and panel.readout.startswith("x = [−1, 2]")


@pytest.mark.parametrize("norm", NORMS)
def test_the_axis_panels_arithmetic_is_the_norms_own(norm):
    panel = panels.axis_panel()
    for t, d in np.ndindex(TOKENS, FEATURES):
        readout = panel.set(norm=norm, b=d % 2, t=t, d=d)
        terms = re.search(r"y = \((.*) − (\d.*|\(−.*\))\)/√\((.*) \+ 1e−5\) = (\S*),", readout).groups()
        x, mean, spread, y = (number(term.strip("()")) for term in terms)
        # Rounded to two decimals, the mean and the variance give y to about as many.
        slack = 0.006 / math.sqrt(spread) * (1 + abs(y)) + 0.006
        assert (x - mean) / math.sqrt(spread + 1e-5) == pytest.approx(y, abs=slack)
        assert "−0.00" not in readout and "-" not in readout


@pytest.mark.parametrize(
    ("norm", "extent"),
    [
        ("layer", "4 of 24 outputs: b = 1, t = 0, all d."),
        ("rms", "4 of 24 outputs: b = 1, t = 0, all d."),
        ("batch", "6 of 24 outputs: all b, all t, d = 3."),
        ("batch, eval", "1 of 24 outputs: b = 1, t = 0, d = 3."),
        ("instance", "3 of 24 outputs: b = 1, all t, d = 3."),
        ("group", "6 of 24 outputs: b = 1, all t, d = 2/3."),
        ("group of a token", "2 of 24 outputs: b = 1, t = 0, d = 2/3."),
        ("layer of a sequence", "12 of 24 outputs: b = 1, all t, all d."),
    ],
)
def test_the_axis_panel_lights_what_shares_a_statistic(norm, extent):
    panel = panels.axis_panel()
    assert f"poking x[1, 0, 3] moves {extent}" in panel.set(norm=norm, b=1, t=0, d=3)
    lit = sum(bool(box.get_hatch()) for box in panel._canvas.moving[:24])
    assert lit == int(extent.split()[0])


def test_the_axis_panels_norms_are_torchs_modules():
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    modules = {
        "layer": torch.nn.LayerNorm(4),
        "rms": torch.nn.RMSNorm(4, eps=1e-5),
        "layer of a sequence": torch.nn.LayerNorm((3, 4)),
    }
    over_channels = {
        "batch": torch.nn.BatchNorm1d(4),
        "batch, eval": torch.nn.BatchNorm1d(4).eval(),
        "instance": torch.nn.InstanceNorm1d(4),
        "group": torch.nn.GroupNorm(2, 4),
    }
    want = {name: module.double()(x) for name, module in modules.items()}
    want |= {name: module.double()(x.mT).mT for name, module in over_channels.items()}
    want["group of a token"] = torch.nn.GroupNorm(2, 4).double()(x.reshape(6, 4)).reshape(2, 3, 4)
    assert set(want) == set(NORMS)
    for name, y in want.items():
        torch.testing.assert_close(NORMS[name][1](x), y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("B", [2, 3, 16, 128])
def test_the_batch_noise_panel_is_batch_norm_over_each_draw(B):
    panel = panels.batch_noise_panel(seed=4)
    readout = panel.set(B=B, value=0.5)
    mates = torch.randn(128, 100, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    token = torch.tensor([0.5, -0.5, 0.25, -1.0], dtype=torch.float64)
    batches = [torch.cat([token[None], mates[1:B, draw]]) for draw in range(100)]
    want = torch.stack([F.batch_norm(batch, None, None, training=True)[0, 0] for batch in batches])
    torch.testing.assert_close(torch.as_tensor(panel._canvas.moving[1].get_ydata()), want, rtol=1e-9, atol=1e-12)
    low, high = re.search(r"anything from (\S*) to (\S*),", readout).groups()
    assert [number(low), number(high)] == pytest.approx([want.min().item(), want.max().item()], abs=0.0051)
    assert f"layer norm gives {F.layer_norm(token, (4,))[0]:.2f}, the same bits each time." in readout


def test_the_batch_noise_panel_at_one_and_in_evaluation_mode():
    panel = panels.batch_noise_panel()
    assert 'refuses: "Expected more than 1 value per channel when training"' in panel.set(B=1)
    assert len(panel._canvas.moving[1].get_ydata()) == 0
    for B in (1, 7):
        assert "give 1.00, the same each time" in panel.set(B=B, mode="eval")
    deviations = [float(re.search(r"batch mean (\S*)", panel.set(B=4**k))[1]) for k in range(4)]
    np.testing.assert_allclose(deviations, 0.5 ** np.arange(4), rtol=0.12)


@pytest.mark.parametrize("what", ["token", "padding"])
@pytest.mark.parametrize("j", [1, 3, 5])
def test_the_leak_panel_lights_what_should_not_move(what, j):
    panel = panels.leak_panel()
    readout = panel.set(what=what, j=j, a=1.5)
    moved = re.findall(r"(exactly 0|\d\.\d\d) under", readout)
    assert float(moved[0]) > 0.02 and moved[1:3] == ["exactly 0"] * 2 and float(moved[3]) > 0.02
    hatched = [sum(bool(box.get_hatch()) for box in panel._canvas.moving[12 * k : 12 * k + 12]) for k in range(4)]
    changed = 6 - j if what == "padding" else 1
    assert hatched == [12 - changed, 0, 0, 6 - changed]
    assert "0.00 under" not in readout
    assert panel.set(a=0).count("exactly 0") == 4


def test_the_sphere_panel_ends_on_the_circle_and_the_families_meet():
    panel = panels.sphere_panel()
    assert panel.values["stage"] == 2  # what is stored shows the circle
    digits, place = r"(\d+\.\d\d)", r"(?: \(all 6 at one place\))?"
    families = rf"points {digits}{place}, among the shifted {digits}{place}\."
    pattern = rf"plane: {digits}\. Lengths {digits} to {digits} .* {families}"

    def told(**values):
        return [float(value) for value in re.search(pattern, panel.set(**values)).groups()]

    off, _low, _high, scaled, shifted = told(stage=0)
    assert off > 1 and scaled > 1 and shifted > 1
    off, low, high, scaled, shifted = told(stage=1)
    assert off == 0 == shifted and scaled > 1 and high - low > 1
    assert told(stage=2) == [0, 1.73, 1.73, 0, 0]
    off, low, high, scaled, shifted = told(norm="rms")
    assert (low, high, scaled) == (1.73, 1.73, 0) and off > 1 and shifted > 1
    off, low, high, scaled, shifted = told(norm="layer", eps=1.0)
    assert off == 0 and high < 1.73 and low < 0.5 and scaled > 0.5
    for values, piles in (({"stage": 0}, 0), ({"stage": 1}, 1), ({"stage": 2, "eps": 1e-5}, 2)):
        assert panel.set(**values).count("(all 6 at one place)") == piles
        words = [artist.get_text() for artist in panel._canvas.moving if hasattr(artist, "get_text")]
        assert words.count("6 in one") == piles
    before = panel._canvas.moving[1].get_xydata()
    panel.set(turn=90)
    assert not np.allclose(before, panel._canvas.moving[1].get_xydata())


@pytest.mark.parametrize("B", [2, 3, 5, 32, 128])
@pytest.mark.parametrize("value", [0, 1, 2])
def test_every_output_of_the_batch_noise_panel_is_inside_the_picture(B, value):
    panel = panels.batch_noise_panel()
    panel.set(B=B, value=value)
    low, high = panel._canvas.moving[1].axes.get_ylim()
    for line in panel._canvas.moving[1:3]:
        assert low < min(line.get_ydata()) and max(line.get_ydata()) < high
