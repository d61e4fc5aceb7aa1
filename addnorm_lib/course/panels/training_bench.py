"""A bench: a panel that trains one network whenever *train* is pressed, and shows the curves of the last runs."""

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets
import numpy as np
from numpy.typing import NDArray

from addnorm_lib.course.figures.style import GREY, SERIES, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train as train_runs
from addnorm_lib.messages import _

WINDOW = 10  # steps that one point of a curve is the mean of


@house_style
def bench(
    *,
    title: str,
    try_this: str,
    controls: Mapping[str, widgets.ValueWidget],
    run: Callable[..., Run],
    describe: Callable[..., tuple[str, str]],
    steps: int,
    losses: tuple[float, float],
    bounds: tuple[float, ...],
    guessing: float | None = None,
) -> Panel:
    """Return a panel with `controls` and a button; `run(**values)` is the Run of `steps` steps that it trains.

    `describe(**values)` gives the net and how it is trained, in words. The axis goes over `losses`; the readout says
    which of the rising `bounds` the mean loss of the last 20 steps is below. `guessing` is the loss of a net that only
    guesses. A kernel interrupt stops the training and keeps the earlier curves.
    """
    figure, ax = new_figure(8.6, 3.4)
    ax.set_yscale("log")
    ax.set_xlim(0, steps)
    ax.set_ylim(*losses)
    if guessing is not None:
        ax.axhline(guessing, color=GREY, linewidth=0.8)
        above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
        ax.annotate(_("guessing"), (steps - 1, guessing), color=GREY, fontsize=9, **above)
    ax.set_xlabel(_("step"))
    ax.set_ylabel(_("training loss (mean of {window} steps)").format(window=WINDOW))
    lines = [ax.plot([], [], **style, markevery=15)[0] for style in SERIES]
    figure.get_layout_engine().set(rect=(0, 0, 0.78, 1))  # the names stand on the right, clear of all curves
    beside = {"transform": ax.transAxes, "fontsize": 9, "va": "top"}
    names = [ax.text(1.02, 0.99 - 0.135 * i, "", **beside) for i in range(len(lines))]
    following = ax.text(1.02, 0.13, "", color=GREY, **beside)
    curves: list[tuple[str, NDArray[np.float64]]] = []
    button = widgets.ToggleButton(description=_("train"), button_style="primary")
    said = [_("Nothing trained yet.")]

    def show_curves() -> None:
        shown = curves[-len(lines) :]
        for i, (line, text, glyph) in enumerate(zip(lines, names, "●■▲◆▼✚", strict=True)):
            name, curve = shown[i] if i < len(shown) else ("", np.zeros(0))
            line.set_data(np.arange(len(curve)) + WINDOW / 2, curve)
            text.set_text(f"{glyph} {name}" if name else "")
            text.set_color(line.get_color())

    def train_one(net: str, how: str, values: Mapping[str, Any]) -> str:
        name = f"{net}, {how}"
        results = train_runs(run(**values), progress=False)
        if results.interrupted:
            return _("{name}: stopped.").format(name=name)
        loss = results[0].loss[0]
        curves.append((f"{net}\n   {how}", np.convolve(loss, np.full(WINDOW, 1 / WINDOW), "valid")))
        show_curves()
        if results[0].diverged[0]:
            return _("{name}: diverged.").format(name=name)
        bound = next((b for b in bounds if loss[-20:].mean() < b), None)
        verdict = _("above {bound:g}").format(bound=bounds[-1])
        if bound is not None:
            verdict = _("below {bound:g}").format(bound=bound)
        return _("{name}: final loss {verdict}.").format(name=name, verdict=verdict)

    def update(train: bool, **values: Any) -> str:
        net, how = describe(**values)
        following.set_text(_("next: {name}").format(name=f"{net}\n   {how}"))
        if not train:
            return _("{said} Next: {name}.").format(said=said[0], name=f"{net}, {how}")
        said[0] = train_one(net, how, values)
        button.value = False
        return said[0]

    return Panel(
        title=title,
        try_this=try_this,
        controls={**controls, "train": button},
        canvas=LiveCanvas(figure, [*lines, *names, following]),
        update=update,
    )
