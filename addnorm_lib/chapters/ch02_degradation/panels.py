"""Panels of chapter 2: a training bench, gradients at initialisation, and lesions."""

import functools
import math
from collections.abc import Mapping

import ipywidgets as widgets
import numpy as np

from addnorm_lib.chapters.ch02_degradation.figures import KINDS, kind_name
from addnorm_lib.chapters.ch02_degradation.measures import Lesion, gradient_growth
from addnorm_lib.course.figures.numbers import between
from addnorm_lib.course.figures.style import BLACK, GREY, RESIDUAL, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.course.panels.training_bench import bench
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.messages import _

STEPS = 150
WIDTH = 64


def _kinds(value: str) -> widgets.ValueWidget:
    return choice(_("kind"), [(kind_name(kind), kind) for kind in KINDS], value)


def _norms(value: str | None) -> widgets.ValueWidget:
    return choice(_("norm"), [(_("batch"), "batch"), (_("layer"), "layer"), (_("none"), None)], value)


def training_bench(seed: int = 0) -> Panel:
    """Return a panel that trains one network on the digits, 150 steps, whenever *train* is pressed: see `bench`."""

    def run(depth: int, kind: str, norm: str | None, lr: float) -> Run:
        return Run(DepthNet, {"kind": kind, "depth": depth, "norm": norm}, lr=lr, steps=STEPS, seeds=[seed])

    def describe(depth: int, kind: str, norm: str | None, lr: float) -> tuple[str, str]:
        return f"{kind_name(kind)}, L = {depth}", f"{_('norm')} {norm or _('none')}, {_('rate')} {lr:.2g}"

    return bench(
        title=_("The training bench"),
        try_this=_("Press train. Then choose plain, and train again; then a depth of 4. (The stop button interrupts.)"),
        controls={
            "depth": slider(_("depth L"), 24, 1, 56, whole=True),
            "kind": _kinds("residual"),
            "norm": _norms("batch"),
            "lr": slider(_("learning rate"), 0.05, -3, 0, log=True),
        },
        run=run,
        describe=describe,
        steps=STEPS,
        losses=(2e-3, 5),
        bounds=(0.03, 0.3),
        guessing=math.log(10),
    )


@functools.lru_cache(maxsize=4096)
def _gradients(depth: int, kind: str, norm: str | None, activation: str, init: str) -> np.ndarray:
    options = {"kind": kind, "norm": norm, "activation": activation, "init": init}
    return gradient_growth(depth, width=WIDTH, batch=64, seeds=(0,), **options)[0]


@house_style
def gradient_panel() -> Panel:
    """Return a panel: the gradient at every block's input at initialisation, when one of norm 1 enters at the top."""
    deepest = 40
    figure, ax = new_figure(8.6, 3.2)
    ax.set_yscale("log")
    ax.set_xlim(-0.5, deepest + 0.5)
    ax.set_ylim(1e-8, 1e8)
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set_xlabel(_("block l (the loss sits above block L, on the right)"))
    ax.set_ylabel(_("gradient norm at the block's input"))
    (line,) = ax.plot([], [], **RESIDUAL)

    def update(depth: int, kind: str, norm: str | None, activation: str, init: str) -> str:
        norms = _gradients(depth, kind, norm, activation, init)
        line.set_data(np.arange(depth + 1), norms)
        line.set(**KINDS[kind])
        return _(
            "{kind}, {depth} blocks, norm {norm}, {activation}, {init}: "
            "the gradient changes by a factor of {factor:.1f} a block."
        ).format(
            kind=kind_name(kind),
            depth=depth,
            norm=norm or _("none"),
            activation=activation,
            init=init,
            factor=norms[0] ** (1 / depth),
        )

    return Panel(
        title=_("The gradient at initialisation"),
        try_this=_("Plain with batch norm and ReLU grows by 1.21 a block. Which settings vanish? Which stay level?"),
        controls={
            "depth": slider(_("depth L"), 24, 1, deepest, whole=True),
            "kind": _kinds("plain"),
            "norm": _norms("batch"),
            "activation": choice(_("activation"), [(name, name) for name in ("relu", "tanh", "linear")], "relu"),
            "init": choice(_("initialisation"), [(name, name) for name in ("he", "lecun", "orthogonal")], "he"),
        },
        canvas=LiveCanvas(figure, [line]),
        update=update,
    )


@house_style
def lesion_panel(lesions: Mapping[str, Lesion]) -> Panel:
    """Return a panel: the test accuracy when block k is deleted. `lesions` has one for "plain" and "residual"."""
    deepest = max(lesion.without.shape[1] for lesion in lesions.values())
    figure, ax = new_figure(8.6, 3.2)
    ax.set_xlim(-0.7, deepest + 0.7)
    ax.set_ylim(0, 105)
    ax.axhline(10, color=GREY, linewidth=0.8)
    ax.annotate(_("guessing"), (deepest + 0.6, 11), color=GREY, fontsize=9, ha="right", va="bottom")
    ax.set_xlabel(_("deleted block k (0: none)"))
    ax.set_ylabel(_("test accuracy (%)"))
    (line,) = ax.plot([], [], **RESIDUAL)
    (mark,) = ax.plot([], [], color=BLACK, marker="o", markersize=13, markerfacecolor="none", linestyle="")

    def update(kind: str, k: int) -> str:
        lesion = lesions[kind]
        accuracy = 100 * np.concatenate([[np.median(lesion.whole)], np.median(lesion.without, axis=0)])
        line.set_data(np.arange(len(accuracy)), accuracy)
        line.set(**KINDS[kind])
        k = min(k, len(accuracy) - 1)
        mark.set_data([k], [accuracy[k]])
        what = _("without block {k}").format(k=k) if k else _("whole")
        return _("{kind} net of {depth} blocks, {what}: {share} % of the test digits right.").format(
            kind=kind_name(kind), depth=len(accuracy) - 1, what=what, share=between(accuracy[k], 30, 60, 90)
        )

    return Panel(
        title=_("Delete one block"),
        try_this=_("Drag k along both nets. Which single block does the residual net miss most?"),
        controls={"kind": _kinds("residual"), "k": slider(_("deleted block k"), 0, 0, deepest, whole=True)},
        canvas=LiveCanvas(figure, [line, mark]),
        update=update,
    )
