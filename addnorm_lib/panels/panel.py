"""What every live panel is: controls, one picture, a readout in words.

Live where there is a kernel; where there is none (a notebook opened on a hosting site, exported, or not yet run) the
stored output shows the same picture and text. The picture is one PNG in an Image widget, replaced when a control moves.
"""

import base64
import html
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from addnorm_lib.figures.style import DPI, shrink
from addnorm_lib.messages import _
from addnorm_lib.panels.canvas import LiveCanvas


class Panel:
    """A live panel.

    `controls` maps a name to a widget with a `value`; `update(**values)` moves the artists of `canvas` and returns the
    readout. `panel.set(name=value, …)` does what dragging does, from code, and returns the readout: the cell after a
    panel uses it to prove that the panel works.
    """

    def __init__(
        self,
        title: str,
        try_this: str,
        controls: Mapping[str, widgets.ValueWidget],
        canvas: LiveCanvas,
        update: Callable[..., str],
    ) -> None:
        self.title, self.try_this, self.controls = title, try_this, dict(controls)
        self._canvas, self._update, self._paused = canvas, update, False
        inches = canvas.figure.get_size_inches()
        self._size = int(inches[0] * DPI), int(inches[1] * DPI)
        self.readout = ""
        self._picture = widgets.Image(format="png", width=self._size[0], height=self._size[1])
        self._picture.layout.max_width = "100%"
        self._picture.layout.height = "auto"
        self._readout = widgets.HTML()
        heading = widgets.HTML(f"<b>{html.escape(title)}</b><br>{html.escape(try_this)}")
        for widget, css in ((self._picture, "addnorm-picture"), (self._readout, "addnorm-readout")):
            widget.add_class(css)
        self.box = widgets.VBox([heading, *self.controls.values(), self._picture, self._readout])
        self.box.add_class("addnorm-panel")
        for control in self.controls.values():
            control.observe(self._moved, names="value")
        self.redraw()

    @property
    def values(self) -> dict[str, Any]:
        """The controls' current values."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values: Any) -> str:
        """Move controls to `values`, redraw once, and return the readout.

        Raises ValueError for a control that the panel does not have, or a value that it cannot take.
        """
        for name, value in values.items():
            if name not in self.controls:
                known = ", ".join(self.controls)
                raise ValueError(_("{name}: one of {known} wanted").format(name=name, known=known))
            self._check(name, value)
        self._paused = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._paused = False
        self.redraw()
        return self.readout

    def _check(self, name: str, value: Any) -> None:
        control = self.controls[name]
        if hasattr(control, "options"):
            choices = [option[1] if isinstance(option, tuple) else option for option in control.options]
            if value not in choices:
                message = _("{name}: one of {known} wanted, got {value!r}")
                raise ValueError(message.format(name=name, known=", ".join(map(repr, choices)), value=value))
            return
        if isinstance(control, widgets.FloatLogSlider):
            low, high = control.base**control.min, control.base**control.max
        else:
            low, high = getattr(control, "min", None), getattr(control, "max", None)
        if low is None or high is None:
            return
        slack = 1e-9 * abs(high)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low - slack <= value <= high + slack:
            raise ValueError(
                _("{name}: a number from {low:g} to {high:g} wanted, got {value!r}").format(
                    name=name, low=low, high=high, value=value
                )
            )

    def _moved(self, change: Mapping[str, Any]) -> None:
        if not self._paused:
            self.redraw()

    def redraw(self) -> None:
        """Compute, draw, and show: what happens whenever a control moves."""
        self.readout = self._update(**self.values)
        self._png = self._canvas.png()
        self._picture.value = self._png
        self._readout.value = f'<div role="status">{html.escape(self.readout)}</div>'

    def __repr__(self) -> str:
        return f"{self.title}: {self.readout}"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(
            {
                "application/vnd.jupyter.widget-view+json": {
                    "version_major": 2,
                    "version_minor": 0,
                    "model_id": self.box.model_id,
                },
                "image/png": base64.b64encode(shrink(self._png)).decode(),
                "text/plain": repr(self),
            },
            metadata={"image/png": {"width": self._size[0], "height": self._size[1], "alt": repr(self)}},
            raw=True,
        )


def slider(
    description: str,
    value: float,
    low: float,
    high: float,
    step: float | None = None,
    *,
    whole: bool = False,
    log: bool = False,
) -> widgets.ValueWidget:
    """Return a slider in the house layout: whole numbers, real numbers, or (log) powers of ten between low and high."""
    common: dict[str, Any] = {
        "description": description,
        "continuous_update": True,
        "layout": widgets.Layout(width="min(560px, 98%)"),
        "style": {"description_width": "190px"},
    }
    if whole:
        return widgets.IntSlider(value=int(value), min=int(low), max=int(high), step=int(step or 1), **common)
    if log:
        return widgets.FloatLogSlider(value=value, base=10, min=low, max=high, step=step or 0.1, **common)
    return widgets.FloatSlider(value=value, min=low, max=high, step=step or 0.05, readout_format=".2f", **common)
