"""Every panel: what dragging does, what the stored output holds, and the time of a redraw (printed, not asserted)."""

import io
import statistics
import time

import numpy as np
import pytest
from PIL import Image

from addnorm_lib.panels import residual

PANELS = {
    "gradient": (residual.gradient_panel, [{"L": 1 + i, "s": 0.1 + 0.02 * i} for i in range(40)]),
    "tape": (residual.tape_panel, [{"a": 0.05 * i, "k": i % 8} for i in range(40)]),
}


@pytest.fixture(params=PANELS)
def panel_and_moves(request):
    make, moves = PANELS[request.param]
    return make(), moves


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_every_move_changes_picture_and_readout_and_its_time_is_printed(panel_and_moves, capsys):
    panel, moves = panel_and_moves
    seconds, seen = [], set()
    for move in moves:
        start = time.perf_counter()
        readout = panel.set(**move)
        seconds.append(time.perf_counter() - start)
        assert panel.values == pytest.approx(move)
        assert readout == panel.readout
        seen.add((readout, panel._picture.value))
    assert len(seen) == len(moves)
    with capsys.disabled():
        print(f"\n{panel.title}: a redraw takes {1e3 * statistics.median(seconds):.0f} ms in the kernel (median)")


def test_the_saved_background_gives_the_picture_of_a_full_redraw(panel_and_moves):
    panel, moves = panel_and_moves
    panel.set(**moves[3])
    panel.set(**moves[20])
    fast = pixels(panel._picture.value)
    panel._canvas.forget_background()
    panel.redraw()
    np.testing.assert_array_equal(fast, pixels(panel._picture.value))


def test_a_slider_moved_by_the_reader_redraws(panel_and_moves):
    panel, moves = panel_and_moves
    before = panel.readout, panel._picture.value
    name, value = next(iter(moves[7].items()))
    panel.controls[name].value = value
    assert panel.readout != before[0]
    assert panel._picture.value != before[1]
    assert panel.readout in panel._readout.value


@pytest.mark.parametrize(
    ("make", "values", "words"),
    [
        (residual.gradient_panel, {"depth": 3}, "depth: one of L, s wanted"),
        (residual.gradient_panel, {"L": 99}, "L: a number from 1 to 48 wanted, got 99"),
        (residual.gradient_panel, {"s": "wide"}, "s: a number from 0.05 to 1.5 wanted, got 'wide'"),
        (residual.tape_panel, {"k": -1}, "k: a number from 0 to 7 wanted, got -1"),
    ],
)
def test_a_value_that_a_control_cannot_take_is_named_and_nothing_moves(make, values, words):
    panel = make()
    before = panel.values
    with pytest.raises(ValueError, match=words):
        panel.set(**values)
    assert panel.values == before


def test_one_output_serves_a_kernel_a_static_page_and_a_test(panel_and_moves, monkeypatch):
    panel, _moves = panel_and_moves
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **kwargs: shown.append((data, kwargs)))
    panel._ipython_display_()
    ((data, kwargs),) = shown
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert data["text/plain"] == f"{panel.title}: {panel.readout}"
    assert kwargs["metadata"]["image/png"]["alt"] == data["text/plain"]


def test_the_gradient_panels_readout_agrees_with_its_prediction():
    panel = residual.gradient_panel()
    panel.set(L=16, s=0.3)
    plain, law = 0.3**16, (1 + 0.09) ** 8
    assert f"{plain:.1e}" in panel.readout
    assert f"{law:.2f}" in panel.readout


def test_the_tape_erases_at_one_and_only_turns_over_at_two():
    panel = residual.tape_panel()
    assert "0.00 after;" in panel.set(a=1.0, k=3)
    before, after = panel.set(a=2.0, k=3).split("Along u: ")[1].split(" after;")[0].split(" before, ")
    assert float(after) == -float(before)
