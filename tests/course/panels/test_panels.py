"""Every live panel: it moves, it says what it shows, it can be shown without a kernel, and its speed is printed."""

import base64
import html
import importlib.util
import io
import math
import pkgutil
import time

import ipywidgets as widgets
import numpy as np
import pytest
from PIL import Image

from addnorm_lib import chapters
from addnorm_lib.chapters.ch01_residual import panels as residual
from addnorm_lib.chapters.ch02_degradation.measures import Lesion
from addnorm_lib.course.figures.style import new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, Typed, choice, slider

CHAPTERS = [f"{chapters.__name__}.{chapter.name}" for chapter in pkgutil.iter_modules(chapters.__path__)]
FACTORIES = {
    f"{chapter.rpartition('.')[2]}.{name}": make
    for chapter in CHAPTERS
    if importlib.util.find_spec(f"{chapter}.panels")
    for name, make in vars(importlib.import_module(f"{chapter}.panels")).items()
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
    assert {
        "ch01_residual.gradient_panel",
        "ch02_degradation.lesion_panel",
        "ch04_postln_vs_preln.placement_panel",
    } <= set(FACTORIES)


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
    for step in range(10):
        values = {}
        for name, control in panel.controls.items():
            low, high = ends(control)
            fraction = step / 9
            values[name] = type(control.value)(low + fraction * (high - low)) if hasattr(control, "min") else low
        started = time.perf_counter()
        panel.set(**values)
        times.append(1e3 * (time.perf_counter() - started))
    assert len(times) == 10
    print(f"{panel.title}: redraw median {np.median(times):.1f} ms, slowest {max(times):.1f} ms")


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
