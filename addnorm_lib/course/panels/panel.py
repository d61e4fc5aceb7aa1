"""What every live panel is: controls, one picture, a readout in words.

Live where there is a kernel; where there is none (a notebook opened on a hosting site, exported, or not yet run) the
stored output shows the same picture and text. The picture is one PNG in an Image widget, replaced when a control moves.
"""

import base64
import functools
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from addnorm_lib.course.figures.style import DPI, shrink
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.messages import _


class Typed(widgets.Text):
    """A line of text that `parse` makes a value of, when Enter is pressed or the line is left.

    `parse(text)` raises ValueError with what was wanted; `mistake` is then its message, and `parsed` stays as it was.
    """

    def __init__(self, description: str, value: str, parse: Callable[[str], Any]) -> None:
        super().__init__(description=description, value=value, continuous_update=False)
        self.layout.width, self.style.description_width = "min(560px, 98%)", "190px"
        self.parse, self.parsed, self.mistake = parse, parse(value), ""
        self.observe(self._read, names="value")

    def _read(self, change: Mapping[str, Any]) -> None:
        try:
            self.parsed, self.mistake = self.parse(change["new"]), ""
        except ValueError as error:
            self.mistake = str(error)


class Panel:
    """A live panel.

    `controls` maps a name to a widget with a `value`; `update(**values)` moves the artists of `canvas` and returns the
    readout; of a `Typed` line it gets what was parsed. `panel.set(name=value, …)` does what dragging does, from code,
    and returns the readout: the cell after a panel uses it to prove that the panel works.

    `rows` names the controls that stand side by side. `links[name](values)` returns the values of the other controls
    that follow when `name` moves (a preset sets several): all move with one redraw. A link does not set off others.
    """

    def __init__(
        self,
        title: str,
        try_this: str,
        controls: Mapping[str, widgets.ValueWidget],
        canvas: LiveCanvas,
        update: Callable[..., str],
        *,
        rows: Sequence[Sequence[str]] = (),
        links: Mapping[str, Callable[[dict[str, Any]], Mapping[str, Any]]] | None = None,
    ) -> None:
        self.title, self.try_this, self.controls = title, try_this, dict(controls)
        self._canvas, self._update, self._links, self._paused = canvas, update, dict(links or {}), False
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
        self.box = widgets.VBox([heading, *self._laid_out(rows), self._picture, self._readout])
        self.box.add_class("addnorm-panel")
        for name, control in self.controls.items():
            control.observe(functools.partial(self._moved, name), names="value")
        self.redraw()

    def _laid_out(self, rows: Sequence[Sequence[str]]) -> list[widgets.Widget]:
        row_of = {name: row for row in rows for name in row}
        children = []
        for name, control in self.controls.items():
            row = row_of.get(name)
            if row is None:
                children.append(control)
            elif name == row[0]:
                side_by_side = [self.controls[member] for member in row]
                for member in side_by_side:
                    member.layout.width, member.layout.min_width = f"calc({100 / len(row):.2f}% - 5px)", "150px"
                    member.style.description_width = "initial"
                wrapped = widgets.Layout(flex_flow="row wrap", width=f"min({self._size[0]}px, 100%)")
                children.append(widgets.HBox(side_by_side, layout=wrapped))
        return children

    @property
    def values(self) -> dict[str, Any]:
        """The controls' current values (of a `Typed` line: its text)."""
        return {name: control.value for name, control in self.controls.items()}

    def _understood(self) -> dict[str, Any]:
        return {
            name: control.parsed if isinstance(control, Typed) else control.value
            for name, control in self.controls.items()
        }

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
                self._follow(name)
        finally:
            self._paused = False
        self.redraw()
        return self.readout

    def _follow(self, name: str) -> None:
        if name in self._links and not getattr(self.controls[name], "mistake", ""):
            for other, value in self._links[name](self._understood()).items():
                self.controls[other].value = value

    def _check(self, name: str, value: Any) -> None:
        control = self.controls[name]
        if isinstance(control, Typed):
            if not isinstance(value, str):
                raise ValueError(_("{name}: a text wanted, got {value!r}").format(name=name, value=value))
            try:
                control.parse(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            return
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

    def _moved(self, name: str, change: Mapping[str, Any]) -> None:
        if self._paused:
            return
        self._paused = True
        try:
            self._follow(name)
        finally:
            self._paused = False
        self.redraw()

    def redraw(self) -> None:
        """Compute, draw, and show: what happens whenever a control moves."""
        self.readout = self._update(**self._understood())
        mistakes = [f"{c.description}: {c.mistake}." for c in self.controls.values() if getattr(c, "mistake", "")]
        if mistakes:
            self.readout = _("{mistakes} Still shown: {readout}").format(
                mistakes=" ".join(mistakes), readout=self.readout
            )
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
        shown = ".1e" if low < -4 else ".3g"
        return widgets.FloatLogSlider(
            value=value, base=10, min=low, max=high, step=step or 0.1, readout_format=shown, **common
        )
    return widgets.FloatSlider(value=value, min=low, max=high, step=step or 0.05, readout_format=".2f", **common)


def choice(
    description: str, options: Sequence[tuple[str, Any]], value: Any, *, menu: bool = False
) -> widgets.ValueWidget:
    """Return buttons in the house layout, one of (text, value) to be pressed, or a menu where they are many."""
    common: dict[str, Any] = {"description": description, "options": list(options), "value": value}
    if menu:
        layout = widgets.Layout(width="min(560px, 98%)")
        return widgets.Dropdown(**common, layout=layout, style={"description_width": "190px"})
    width = max(92, 9 * max(len(text) for text, _value in options))  # pixels; what is longer would be cut
    return widgets.ToggleButtons(**common, style={"description_width": "190px", "button_width": f"{width}px"})
