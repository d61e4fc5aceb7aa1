"""A short token that is typed, dragged or chosen, with γ and β: controls that follow each other."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from addnorm_lib.course.panels.panel import Typed, choice, slider
from addnorm_lib.messages import N_, _

MAX_FEATURES = 4
LARGEST = 5e8
PRESETS: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {  # x, γ, β
    N_("1, 2, 3, 4"): ("1, 2, 3, 4", (), ()),
    N_("a usual token: 0.2, -0.1, 0.3"): ("0.2, -0.1, 0.3", (), ()),
    N_("large: 100, -50, 80"): ("100, -50, 80", (), ()),
    N_("tiny: 1e-4, -2e-4, 3e-4"): ("1e-4, -2e-4, 3e-4", (), ()),
    N_("γ and β at work: -1, 0, 1"): ("-1, 0, 1", (2, 1, 0.5), (1, 0, -1)),
    N_("constant: 0.7, 0.7, 0.7, 0.7"): ("0.7, 0.7, 0.7, 0.7", (), ()),
    N_("two numbers only: 3, 7"): ("3, 7", (), ()),
    N_("huge: 1e8, 2e8, 3e8, 4e8"): ("1e8, 2e8, 3e8, 4e8", (), ()),
    N_("one outlier: 1, 2, 3, 100"): ("1, 2, 3, 100", (), ()),
}


def parse_numbers(text: str) -> tuple[float, ...]:
    """Return the one to four numbers in a text such as "1, 2, 3, 4" or "[.2 −.1 .3]".

    Raises ValueError for other counts, for what is no number, and for numbers of more than 5e8 in size.
    """
    wanted = _("1 to {count} numbers, such as 1, 2, 3, 4, wanted").format(count=MAX_FEATURES)
    numbers = []
    for word in text.replace("−", "-").strip("[]() ").replace(",", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            raise ValueError(_("{wanted}, got {got!r}").format(wanted=wanted, got=word)) from None
        if not abs(numbers[-1]) <= LARGEST:
            raise ValueError(_("numbers from -5e8 to 5e8 wanted, got {got}").format(got=word))
    if not 1 <= len(numbers) <= MAX_FEATURES:
        raise ValueError(_("{wanted}, got {got}").format(wanted=wanted, got=len(numbers)))
    return tuple(numbers)


def numbered(letter: str) -> list[str]:
    """Return the names of the sliders for x, gamma or beta: x1, x2, …"""
    return [f"{letter}{i}" for i in range(1, MAX_FEATURES + 1)]


def _as_sliders(x: Sequence[float]) -> dict[str, float]:
    """Return the sliders' values for x: a power of ten, and shapes of at most 5 that it multiplies."""
    largest = max(abs(value) for value in x)
    power = min(8, max(-8, math.ceil(math.log10(largest / 5)))) if largest else 0
    scale = 10.0**power
    shapes = [value / scale for value in x] + [0.0] * (MAX_FEATURES - len(x))
    return {"scale": scale, **dict(zip(numbered("x"), shapes, strict=True))}


def _from_text(values: dict[str, Any]) -> dict[str, Any]:
    return {**_as_sliders(values["x"]), "preset": None}


def _from_sliders(values: dict[str, Any], at_least: int = 1) -> dict[str, Any]:
    features = max(at_least, len(values["x"]))
    x = [values[name] * values["scale"] for name in numbered("x")[:features]]
    return {"x": ", ".join(f"{value + 0.0:.6g}" for value in x), "preset": None}


def _from_preset(values: dict[str, Any]) -> dict[str, Any]:
    text, weight, bias = PRESETS[values["preset"]]
    gammas = [*weight, *[1.0] * (MAX_FEATURES - len(weight))]
    betas = [*bias, *[0.0] * (MAX_FEATURES - len(bias))]
    return {
        "x": text,
        **_as_sliders(parse_numbers(text)),
        **dict(zip(numbered("gamma"), gammas, strict=True)),
        **dict(zip(numbered("beta"), betas, strict=True)),
    }


def _own(values: dict[str, Any]) -> dict[str, Any]:
    return {"preset": None}


def vector_controls() -> dict[str, widgets.ValueWidget]:
    """Return a menu of examples, the line for x, its scale, and a slider for each feature of x, γ and β."""
    first = next(iter(PRESETS))
    text = PRESETS[first][0]
    start = _as_sliders(parse_numbers(text))
    return {
        "preset": choice(_("example"), [(_(name), name) for name in PRESETS], first, menu=True),
        "x": Typed(_("x, typed"), text, parse_numbers),
        "scale": slider(_("scale of x"), start["scale"], -8, 8, log=True),
        **{name: slider(f"x{'₁₂₃₄'[i]}", start[name], -5, 5, 0.1) for i, name in enumerate(numbered("x"))},
        **{name: slider(f"γ{'₁₂₃₄'[i]}", 1, -2, 2, 0.1) for i, name in enumerate(numbered("gamma"))},
        **{name: slider(f"β{'₁₂₃₄'[i]}", 0, -2, 2, 0.1) for i, name in enumerate(numbered("beta"))},
    }


def vector_links() -> dict[str, Callable[[dict[str, Any]], Mapping[str, Any]]]:
    """Return what follows when one of `vector_controls` moves: the `links` of a `Panel`."""
    return {
        "preset": _from_preset,
        "x": _from_text,
        "scale": _from_sliders,
        **{name: functools.partial(_from_sliders, at_least=i + 1) for i, name in enumerate(numbered("x"))},
        **dict.fromkeys([*numbered("gamma"), *numbered("beta")], _own),
    }
