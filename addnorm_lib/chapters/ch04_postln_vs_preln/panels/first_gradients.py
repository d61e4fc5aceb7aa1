"""Where the norm stands: the first step's gradients, and the stream's variance."""

import math

import numpy as np

from addnorm_lib.chapters.ch04_postln_vs_preln.figures import STYLES
from addnorm_lib.chapters.ch04_postln_vs_preln.measures.signals import MAX_DEPTH, initial_gains, signals
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.parts import (
    fit,
    freeze_layout,
    heading,
    name_of,
    number,
    placements,
)
from addnorm_lib.course.figures.numbers import fixed
from addnorm_lib.course.figures.style import GREY, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.layers import NORMS, PLACEMENTS, deepnorm
from addnorm_lib.messages import _


@house_style
def placement_panel() -> Panel:
    """Return a panel: the gradient of every layer's W₂ and the stream's variance at initialisation, for one token.

    Grey: plain Post-LN, and Pre-LN with its final norm, of the same depth (layer norm, α = 1, Xavier).
    """
    figure, (gradients, variances) = new_figure(8.6, 3.4, columns=2)
    for ax in (gradients, variances):
        ax.set_yscale("log")
        ax.set_xlim(-0.5, MAX_DEPTH + 5)  # room for the names
    gradients.set_xlabel(_("layer l (the loss sits above layer L)"))
    gradients.set_ylabel(_(r"gradient norm of layer l's $W_2$"))
    variances.set_xlabel(_("after layer l (0: the embedding)"))
    variances.set_ylabel(_("variance of the stream"))
    lines = [ax.plot([], [], **STYLES["post"])[0] for ax in (gradients, variances)]
    titles = [heading(ax) for ax in (gradients, variances)]
    classic = {}
    for name in ("post", "pre"):
        for ax in (gradients, variances):
            (line,) = ax.plot([], [], color=GREY, linewidth=1.2, linestyle=STYLES[name]["linestyle"])
            upper = (name == "post") == (ax is gradients)
            text = ax.text(0, 0, name_of(name), color=GREY, fontsize=9, va="bottom" if upper else "top")
            classic[name, ax] = line, text
    canvas = LiveCanvas(figure, [*(a for pair in classic.values() for a in pair), *lines, *titles])
    freeze_layout(figure)
    norms = {name: _(kind.title) for name, kind in NORMS.items()}
    inits = {"xavier": "Xavier", "deepnorm": _("DeepNorm's β"), "gpt2": _("1/√(2L)")}

    def update(placement: str, norm: str, final_norm: bool, alpha: float, init: str, depth: int) -> str:
        alpha = round(alpha, 2)
        here = signals(
            placement, depth, norm=norm, final_norm=final_norm, alpha=alpha, gains=initial_gains(init, depth)
        )
        l = np.arange(depth + 1)
        for line, x, y in zip(lines, (l[1:], l), (here.second_weight, here.variance), strict=True):
            line.set_data(x, y)
            line.set(**STYLES[placement])
        seen = {gradients: [here.second_weight], variances: [here.variance]}
        for name in ("post", "pre"):
            usual = signals(name, depth, final_norm=name == "pre")
            for ax, x, y in ((gradients, l[1:], usual.second_weight), (variances, l, usual.variance)):
                line, text = classic[name, ax]
                line.set_data(x, y)
                text.set_position((depth + 1, y[-1]))
                seen[ax].append(y)
        fit(gradients, canvas, 0.1, 30.0, np.concatenate(seen[gradients]))
        fit(variances, canvas, 0.3, 300.0, np.concatenate(seen[variances]))
        for (_name, ax), (_line, text) in classic.items():
            text.set_visible(ax.get_ylim()[1] < 1e8)  # else the two names stand on each other
        trend = np.log(here.second_weight)
        if placement != "post" and alpha > 1:  # the stream grows by this factor at every sum
            law = _("a factor of {factor:.2f} from layer to layer").format(
                factor=math.exp(np.polyfit(l[1:], trend, 1)[0])
            )
        else:
            law = _("about as l^{power}").format(power=fixed(np.polyfit(np.log(l[1:]), trend, 1)[0], 1))
        last = _("with a final norm") if final_norm else _("no final norm")
        setting = f"{name_of(placement)}, {norms[norm]}, {last}, {inits[init]}"
        titles[0].set_text(f"{name_of(placement)}, {norms[norm]}, {last}")
        deep = deepnorm(depth).alpha
        titles[1].set_text(
            _("{init}, α = {alpha:.2f} (DeepNorm {deep:.2f})").format(init=inits[init], alpha=alpha, deep=deep)
        )
        return _(
            "{setting}, α = {alpha:.2f}, L = {depth}: the gradient of W₂ is {first} in layer 1 and {end} in layer L, "
            "{law}. The stream's variance after the last layer: {variance}. (DeepNorm for this L: α = {deep:.2f}.)"
        ).format(
            setting=setting,
            alpha=alpha,
            depth=depth,
            first=number(here.second_weight[0]),
            end=number(here.second_weight[-1]),
            law=law,
            variance=number(here.variance[-1]),
            deep=deep,
        )

    return Panel(
        title=_("Where the norm stands: the first step's gradients"),
        try_this=_(
            "Choose pre, then take its final norm away. Which placements keep the stream's variance at 1, and which "
            "keep it small? Set DeepNorm's β, and its α for this depth."
        ),
        controls={
            "placement": placements(*PLACEMENTS, value="post"),
            "norm": choice(_("norm"), [(text, name) for name, text in norms.items()], "layer"),
            "final_norm": choice(_("final norm"), [(_("off"), False), (_("on"), True)], False),
            "init": choice(_("initialisation"), [(text, name) for name, text in inits.items()], "xavier"),
            "alpha": slider(_("shortcut's factor α"), 1, 1, 4, 0.05),
            "depth": slider(_("depth L"), 12, 2, MAX_DEPTH, whole=True),
        },
        canvas=canvas,
        update=update,
    )
