"""Every live panel: it moves, it says what it shows, it can be shown without a kernel, and its speed is printed."""

import base64
import html
import importlib
import io
import math
import pkgutil
import re
import time

import ipywidgets as widgets
import numpy as np
import pytest
import torch
from PIL import Image

from addnorm_lib import chapters, probes
from addnorm_lib.chapters.ch01_residual import panels as residual
from addnorm_lib.chapters.ch02_degradation import panels as degradation
from addnorm_lib.chapters.ch06_fused_add_norm import panels as fused
from addnorm_lib.course.figures.style import new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, Typed, choice, slider
from addnorm_lib.experiments.depth import Lesion
from addnorm_lib.microscope.traffic import add_norm_traffic, moved

FACTORIES = {
    f"{chapter.name}.{name}": make
    for chapter in pkgutil.iter_modules(chapters.__path__)
    for name, make in vars(importlib.import_module(f"{chapters.__name__}.{chapter.name}.panels")).items()
    if name.endswith("_panel")
}

# What a panel shows where it does not compute it itself.
ARGUMENTS = {
    "ch02_degradation.lesion_panel": (
        {
            "plain": Lesion(np.array([0.98, 0.99]), np.linspace(0.1, 0.3, 8).reshape(2, 4)),
            "residual": Lesion(np.array([0.97, 0.99]), np.linspace(0.8, 0.98, 8).reshape(2, 4)),
        },
    )
}

# Two texts that a typed line takes, and one that it does not, by the line's label.
TYPED = {"x, typed": ("4, -2, 0.5, 1", "1e-3, 2e-3, 0, 5e-3", "1, a")}


@pytest.fixture(params=FACTORIES)
def panel(request):
    return FACTORIES[request.param](*ARGUMENTS.get(request.param, ()))


def ends(control):
    """Return two values that a control can take, the second other than the first."""
    if isinstance(control, Typed):
        return TYPED[control.description][:2]
    if isinstance(control, widgets.FloatLogSlider):
        return control.base**control.min, control.base**control.max
    if hasattr(control, "min"):
        return control.min, control.max
    options = [option[1] if isinstance(option, tuple) else option for option in getattr(control, "options", ())]
    return (options[0], options[-1]) if options else (False, True)


def other_value(control):
    low, high = ends(control)
    return low if control.value == high else high


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_every_chapter_with_panels_is_found():
    assert {chapter.split(".")[0] for chapter in FACTORIES} == {m.name for m in pkgutil.iter_modules(chapters.__path__)}


def test_a_panel_begins_with_a_picture_a_readout_and_instructions(panel):
    assert isinstance(panel, Panel)
    assert panel.readout and panel.title and panel.try_this
    assert repr(panel) == f"{panel.title}: {panel.readout}"
    image = next(child for child in panel.box.children if isinstance(child, widgets.Image))
    picture = pixels(image.value)
    assert picture.std() > 1
    assert picture.shape[1] == 2 * int(image.width)  # two pixels a CSS pixel


def test_every_control_moves_the_readout_and_the_picture(panel):
    image = next(child for child in panel.box.children if isinstance(child, widgets.Image))
    for name, control in panel.controls.items():
        readout, picture = panel.readout, image.value
        value = other_value(control)
        assert panel.set(**{name: value}) == panel.readout != readout
        assert panel.values[name] == pytest.approx(value)
        assert image.value != picture
        readout, picture = panel.readout, image.value
        control.value = other_value(control)  # as a drag does
        assert panel.readout != readout
        assert image.value != picture
        assert html.escape(panel.readout) in panel.box.children[-1].value


def test_several_controls_move_with_a_single_redraw(panel):
    class Counted:
        times = 0

    redraw = panel._update

    def counting(**values):
        Counted.times += 1
        return redraw(**values)

    panel._update = counting
    panel.set(**{name: other_value(control) for name, control in panel.controls.items()})
    assert Counted.times == 1


def test_what_a_panel_cannot_do_is_named_and_changes_nothing(panel):
    before = panel.values, panel.readout
    with pytest.raises(ValueError, match=f"no_such: one of {', '.join(panel.controls)} wanted"):
        panel.set(no_such=1)
    for name, control in panel.controls.items():
        if isinstance(control, Typed):
            for wrong in (TYPED[control.description][2], 3, None):
                with pytest.raises(ValueError, match=f"{name}: .* wanted, got"):
                    panel.set(**{name: wrong})
        if hasattr(control, "options"):
            with pytest.raises(ValueError, match=f"{name}: one of .* wanted, got 'no such'"):
                panel.set(**{name: "no such"})
        if not hasattr(control, "min"):
            continue
        low, high = ends(control)
        for wrong in (low - 1 if low <= 0 else -1, high * 2 + 1, math.nan, math.inf, "much", None, True):
            with pytest.raises(ValueError, match=rf"{name}: a number from .* wanted, got"):
                panel.set(**{name: wrong})
    first = next(iter(panel.controls))
    with pytest.raises(ValueError, match="no_such"):
        panel.set(**{first: other_value(panel.controls[first]), "no_such": 1})
    assert (panel.values, panel.readout) == before


def test_what_is_typed_wrongly_is_told_and_the_picture_stays(panel):
    for control in panel.controls.values():
        if not isinstance(control, Typed):
            continue
        good, readout, picture = control.value, panel.readout, panel._png
        bad = TYPED[control.description][2]
        control.value = bad
        assert panel.readout.startswith(f"{control.description}: ") and repr(bad.split()[-1]) in panel.readout
        assert panel.readout.endswith(f". Still shown: {readout}")
        assert panel._png == picture
        control.value = good
        assert panel.readout == readout


def small_panel(**extra):
    figure, ax = new_figure(2, 1)
    (line,) = ax.plot([], [])
    controls = {
        "preset": choice("preset", [("one", 1), ("two", 2)], 1, menu=True),
        "a": slider("a", 1, 0, 9),
        "b": slider("b", 1, 0, 9, whole=True),
        "words": Typed("words", "3 4", lambda text: [float(word) for word in text.split()]),
    }
    calls = []

    def update(**values):
        calls.append(values)
        return str(values)

    return Panel("t", "try", controls, LiveCanvas(figure, [line]), update, **extra), calls


def test_a_link_moves_others_with_one_redraw_and_sets_off_no_further_link():
    links = {
        "preset": lambda values: {"a": 2.0 * values["preset"], "words": "7"},
        "a": lambda values: {"b": 9},
        "words": lambda values: {"b": int(values["words"][0])},
    }
    panel, calls = small_panel(links=links)
    panel.controls["preset"].value = 2
    assert calls[1:] == [{"preset": 2, "a": 4.0, "b": 1, "words": [7.0]}]
    panel.set(preset=1, a=3.5)  # as if moved in this order
    assert calls[2:] == [{"preset": 1, "a": 3.5, "b": 9, "words": [7.0]}]
    panel.controls["words"].value = "nonsense"
    assert calls[3:] == [{"preset": 1, "a": 3.5, "b": 9, "words": [7.0]}]
    panel.controls["words"].value = "5 1"
    assert calls[4:] == [{"preset": 1, "a": 3.5, "b": 5, "words": [5.0, 1.0]}]
    assert panel.values["words"] == "5 1"


def test_controls_of_a_row_stand_side_by_side_and_the_others_below_each_other():
    panel, _calls = small_panel(rows=[("a", "b")])
    _heading, preset, row, words, *_rest = panel.box.children
    assert (preset, words) == (panel.controls["preset"], panel.controls["words"])
    assert isinstance(row, widgets.HBox) and row.children == (panel.controls["a"], panel.controls["b"])


def test_the_saved_background_gives_the_picture_of_a_full_redraw(panel):
    for pick in (0, 1):
        panel.set(**{name: ends(control)[pick] for name, control in panel.controls.items()})
        quick = pixels(panel._png)
        panel._canvas.forget_background()
        panel.redraw()
        assert np.array_equal(quick, pixels(panel._png))


def test_the_stored_output_has_a_widget_a_picture_and_words(panel, shown):
    ((data, metadata),) = shown(panel)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.box.model_id
    assert data["text/plain"] == repr(panel)
    picture = pixels(base64.b64decode(data["image/png"]))
    assert picture.shape == pixels(panel._png).shape
    # A palette of 256 colours: the stored picture is the live one, but for a few shades.
    assert np.abs(picture.astype(float) - pixels(panel._png)).mean() < 2
    assert metadata["image/png"]["alt"] == repr(panel)
    assert metadata["image/png"]["width"] * 2 == picture.shape[1]


def test_how_long_a_redraw_takes_is_printed(panel):
    times = []
    for step in range(40):
        values = {}
        for name, control in panel.controls.items():
            low, high = ends(control)
            fraction = (step % 20) / 19
            values[name] = type(control.value)(low + fraction * (high - low)) if hasattr(control, "min") else low
        started = time.perf_counter()
        panel.set(**values)
        times.append(1e3 * (time.perf_counter() - started))
    assert len(times) == 40
    print(f"{panel.title}: redraw median {np.median(times):.1f} ms, slowest {max(times):.1f} ms")


@pytest.mark.parametrize(("L", "s"), [(1, 0.5), (32, 0.5), (48, 0.1), (48, 1.0), (7, 1.5)])
def test_the_gradient_panels_readout_is_the_probes(L, s):
    generator = torch.Generator().manual_seed(3)
    d = residual.WIDTH
    jacobians = torch.randn(residual.MAX_DEPTH, d, d, generator=generator, dtype=torch.float64)[:L] * s / math.sqrt(d)
    arriving = torch.randn(residual.PROBES, d, generator=generator, dtype=torch.float64)
    arriving /= arriving.norm(dim=1, keepdim=True)
    wanted = []
    for is_residual, factor in ((False, s), (True, math.sqrt(1 + s * s))):
        at_zero = arriving @ probes.jacobian_product(jacobians, residual=is_residual)
        wanted += [at_zero.square().sum(dim=1).mean().sqrt().item(), factor**L]
    readout = residual.gradient_panel(seed=3).set(L=L, s=s)
    plain, plain_law, res, res_law = (residual._power(value) for value in wanted)
    assert readout == (
        f"L = {L}, s = {s:.2f}. Gradient at layer 0: plain {plain} (predicted {plain_law}), "
        f"residual {res} (predicted {res_law})."
    )


@pytest.mark.parametrize("k", range(8))
def test_the_tape_panel_erases_at_one_and_only_there(k):
    x = np.array(residual.TAPE)
    unit = np.cos(np.pi * (np.arange(8) + 0.5) * k / 8)
    unit /= np.linalg.norm(unit)
    panel = residual.tape_panel()
    for a in (0.0, 0.5, 1.0, 2.0):
        y = x - a * (x @ unit) * unit
        assert panel.set(a=a, k=k) == (
            f"a = {a:.2f}, pattern {k}. Along u: {x @ unit:.2f} before, {(1 - a) * (x @ unit) + 0.0:.2f} after; "
            f"length of the vector: {np.linalg.norm(x):.2f} before, {np.linalg.norm(y):.2f} after."
        )
    assert " 0.00 after; length" in panel.set(a=1, k=k)
    np.testing.assert_allclose([bar.get_height() for bar in panel._canvas.moving[:8]], x)
    after = [bar.get_height() for bar in panel._canvas.moving[16:24]]
    assert np.dot(after, unit) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("control", "kind", "good", "bad"),
    [
        (slider("n", 3, 1, 9, whole=True), widgets.IntSlider, 9, 10),
        (slider("s", 0.5, 0, 1), widgets.FloatSlider, 1.0, 1.1),
        (slider("eps", 1e-5, -8, -1, log=True), widgets.FloatLogSlider, 1e-8, 1e-9),
    ],
)
def test_a_slider_is_of_its_kind_and_keeps_its_bounds(control, kind, good, bad):
    assert type(control) is kind
    panel = residual.tape_panel()
    panel.controls["a"] = control
    panel._check("a", good)
    with pytest.raises(ValueError, match="a: a number from"):
        panel._check("a", bad)


def test_the_training_bench_trains_when_asked_and_keeps_earlier_curves():
    bench = degradation.training_bench()
    bench.set(depth=2, kind="residual")
    before = bench.readout
    first = bench.set(train=True)
    assert first != before and "residual, L = 2" in first and "final loss" in first
    assert bench.values["train"] is False
    assert "plain, L = 3" in bench.set(depth=3, kind="plain", train=True)
    drawn = [artist for artist in bench._canvas.moving if hasattr(artist, "get_xdata") and len(artist.get_xdata())]
    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("way", "direction", "dtype", "size"),
    [("fused", "forward", "bfloat16", 2), ("eager", "forward", "float32", 4), ("fused", "backward", "float32", 4)],
)
def test_the_byte_panels_readout_is_the_count(way, direction, dtype, size):
    panel = fused.byte_panel()
    readout = panel.set(features=512, rows=1000, way=way, direction=direction, dtype=dtype, bandwidth=100)
    backward = direction == "backward"
    tensors = {"eager": (5, 6), "fused": (4, 4)}[way][backward]
    assert readout.startswith(f"1000 × 512 {dtype}, {direction}, ") and f", {tensors} tensors; at 100 GB/s" in readout
    seconds = moved(add_norm_traffic(1000, 512, getattr(torch, dtype), way, backward=backward)) / 1e11
    assert f"at least {fused._measured(seconds, fused.SECONDS)}." in readout
    assert seconds == pytest.approx(tensors * 1000 * 512 * size / 1e11, rel=0.01)


@pytest.mark.parametrize(("rows", "features", "block"), [(7, 20, 2), (1, 1, 4), (8, 32, 1), (8, 31, 4), (5, 17, 4)])
def test_the_tile_panel_counts_every_element_once(rows, features, block):
    panel, data, program = fused.tile_panel(), 0, 0
    while "not launched" not in (said := panel.set(rows=rows, features=features, block=block, program=program)):
        words = re.search(r"a tile of (\d+) × (\d+); (\d+) of (\d+) lanes hold data, (\d+) are masked", said)
        height, width, real, lanes, masked = map(int, words.groups())
        assert height * width == lanes == real + masked
        data, program = data + real, program + 1
        if program == fused.ROWS:
            break
    assert data == rows * features
