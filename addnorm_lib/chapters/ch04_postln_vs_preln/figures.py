"""Figures of chapter 4: what the place of the norm does to gradients, hidden states and training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from addnorm_lib.chapters.ch04_postln_vs_preln.measures import Gradients, StreamStatistics
from addnorm_lib.course.figures.numbers import between
from addnorm_lib.course.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PREDICTION,
    PURPLE,
    SERIES,
    VERMILION,
    Picture,
    house_style,
    label,
    new_figure,
)
from addnorm_lib.course.figures.sweeps import doubling_axis, spread
from addnorm_lib.experiments.results import Record, Results
from addnorm_lib.experiments.statistics import slope
from addnorm_lib.messages import _

Array = NDArray[np.float64]

STYLES: dict[str, dict[str, Any]] = {
    "post": {"color": VERMILION, "marker": "s", "linestyle": "--"},
    "pre": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "deepnorm": {"color": ORANGE, "marker": "v", "linestyle": (0, (3, 1))},
    "sandwich": {"color": GREEN, "marker": "^", "linestyle": "-."},
    "branch": {"color": PURPLE, "marker": "D", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    "scaled": {"color": GREY, "marker": "P", "linestyle": (0, (1, 1))},
}
"""Colour, marker and line of every placement, the same in all figures and panels of the chapter."""

GUESS = float(np.log(8))
"""The loss of a net that only guesses, on the training task with its eight kinds of token."""


def placement_name(placement: str) -> str:
    """Return the reader's name of a placement."""
    return {
        "post": _("Post-LN"),
        "pre": _("Pre-LN"),
        "deepnorm": _("DeepNorm"),
        "sandwich": _("sandwich"),
        "branch": _("branch norm"),
        "scaled": _("LN scaling"),
    }[placement]


def _plain_numbers(ax: Any, digits: Sequence[int] = (1,)) -> None:
    """Write the ticks of a logarithmic axis as 0.01, 1, 20, at these leading digits."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=digits, numticks=20))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())


@house_style
def gradient_against_depth(gradients: Gradients) -> Picture:
    """Draw the last layer's gradient at initialisation against the depth, with a constant and 1/√L as guides."""
    figure, ax = new_figure(8, 3.3)
    depths = np.array(gradients.x)
    words = []
    for placement, values in gradients.norm.items():
        style = STYLES[placement]
        middle = spread(ax, depths, values.T, **style)
        label(ax, depths[-1], middle[-1], placement_name(placement), style["color"])
        fitted = gradients.slope(placement).value
        words.append(
            _("{name}: slope {slope}").format(
                name=placement_name(placement), slope=between(fitted, -0.65, -0.3, -0.2, 0.2)
            )
        )
    start = np.median(next(iter(gradients.norm.values())), axis=0)[0]
    ax.plot(depths, np.full(len(depths), start), **PREDICTION)
    ax.plot(depths, start * (depths / depths[0]) ** -0.5, **PREDICTION)
    ax.annotate(r"∝ $1/\sqrt{L}$", (depths[-2], start * (depths[-2] / depths[0]) ** -0.5), xytext=(0, 8),
                textcoords="offset points")  # fmt: skip
    doubling_axis(ax, gradients.x, _("depth L (layers)"))
    _plain_numbers(ax, (1, 2, 5))
    ax.set_xlim(right=2.1 * depths[-1])
    ax.set_ylabel(_("gradient norm of the\nlast layer's W₂"))
    text = _("Gradient of the last layer against depth at initialisation, log–log. {words}. Dotted: slopes 0 and −½.")
    return Picture(figure, text.format(words="; ".join(words)))


@house_style
def gradient_by_layer(gradients: Gradients) -> Picture:
    """Draw the gradient of every layer of one depth at initialisation."""
    figure, ax = new_figure(8, 3.1)
    layers = np.array(gradients.x)
    words = []
    for placement, values in gradients.norm.items():
        style = STYLES[placement]
        middle = np.median(values, axis=0)
        ax.fill_between(layers, *np.quantile(values, (0.25, 0.75), axis=0), color=style["color"], alpha=0.15, lw=0)
        ax.plot(layers, middle, markevery=max(1, len(layers) // 10), **style)
        label(ax, layers[-1], middle[-1], placement_name(placement), style["color"])
        third = max(1, len(layers) // 3)
        ratio = np.median(values[:, :third]) / np.median(values[:, -third:])
        words.append(_("{name} {ratio}").format(name=placement_name(placement), ratio=between(ratio, 0.5, 1.5)))
    ax.set_ylim(bottom=0)
    ax.set_xlim(right=1.2 * layers[-1])
    ax.set_xticks([1, *range(max(1, len(layers) // 8), len(layers) + 1, max(1, len(layers) // 8))])
    ax.set_xlabel(_("layer l"))
    ax.set_ylabel(_("gradient norm of W₂"))
    text = _(
        "Gradient of each layer of {depth}-layer stacks at initialisation (band: middle half of the nets). The first "
        "third of the layers against the last third: {words}."
    )
    return Picture(figure, text.format(depth=len(layers), words="; ".join(words)))


@house_style
def lemma_bounds(post: StreamStatistics, pre: StreamStatistics) -> Picture:
    """Draw lemma 2 of Xiong et al. 2020 beside the measurement: Post-LN's sum before its norm, and Pre-LN's stream."""
    figure, (left, right) = new_figure(8.6, 3.1, columns=2)
    layers = pre.layers[1:]
    spread(left, layers, post.before_norm.T, markevery=4, errorevery=4, **STYLES["post"])
    left.axhline(1.5, **PREDICTION)
    left.annotate("3/2", (layers[-1], 1.5), xytext=(-4, 8), textcoords="offset points", ha="right")
    left.set_ylim(0, 2.4)
    left.set_title(_("Post-LN: the sum before its norm"))
    left.set_ylabel(_("mean square per feature"))
    middle = spread(right, layers, pre.square_norm[:, 1:].T, markevery=4, errorevery=4, **STYLES["pre"])
    low, high = 1 + layers / 2, 1 + 3 * layers / 2
    for bound, words in ((low, "1 + l/2"), (high, "1 + 3l/2")):
        right.plot(layers, bound, **PREDICTION)
        label(right, layers[-1], bound[-1], words, BLACK)
    right.set_xlim(right=1.3 * layers[-1])
    right.set_title(_("Pre-LN: the stream"))
    for ax in (left, right):
        ax.set_xlabel(_("layers passed l"))
        ax.set_xticks(range(0, layers[-1] + 1, 4))
    inside = ((middle > 0.9 * low) & (middle < 1.1 * high)).all()
    text = _("Post-LN's sum has a mean square {post}; Pre-LN's stream after {depth} layers is {inside} the bounds.")
    return Picture(
        figure,
        text.format(
            post=between(np.median(post.before_norm), 1.3, 1.7),
            depth=layers[-1],
            inside=_("between") if inside else _("outside"),
        ),
    )


@house_style
def streams(statistics: Mapping[str, StreamStatistics]) -> Picture:
    """Draw the stream's variance and the cosine between neighbouring layers' states, one curve a name.

    A name is a placement, or a placement and more words: "pre, trained".
    """
    figure, (left, right) = new_figure(8.6, 3.3, columns=2)
    words = []
    for i, (name, stream) in enumerate(statistics.items()):
        placement, *more = name.split(", ")
        style = {**STYLES[placement], **({"linewidth": 1, "markerfacecolor": "white"} if more else {})}
        shown = ", ".join([placement_name(placement), *more])
        step = max(1, len(stream.layers) // 8)
        every = (2 * i % step, step)  # in turn, so that the marks show two curves where they coincide
        middle = spread(left, stream.layers, stream.variance.T, markevery=every, errorevery=every, label=shown, **style)
        cosines = spread(right, stream.layers[1:], stream.cosine.T, markevery=every, errorevery=every, **style)
        words.append(
            _("{name}: variance {variance}, last cosine {cosine}").format(
                name=shown,
                variance=between(middle[-1], 0.9, 1.1, 3, 7, 45),
                cosine=between(cosines[-1], 0.5, 0.9),
            )
        )
    _plain_numbers(left, (1, 2, 5))
    left.set_ylabel(_("variance of the stream"))
    right.set_ylabel(_("cosine of $x_{l-1}$ and $x_l$"))
    for ax in (left, right):
        ax.set_xlabel(_("layers passed l"))
    bars, names = left.get_legend_handles_labels()
    lines = [bar.lines[0] for bar in bars]
    figure.legend(lines, names, loc="outside upper center", ncols=6, fontsize=9.5, handlelength=2.8, columnspacing=1.3)
    text = _("The stream along {depth} layers. At the end: {words}.")
    return Picture(figure, text.format(depth=stream.layers[-1], words="; ".join(words)))


def _smooth(loss: Array, window: int = 10) -> Array:
    return np.stack([np.convolve(row, np.ones(window) / window, "valid") for row in loss])


def arm_name(record: Record) -> str:
    """Return the reader's name of a training: its placement, and its warm-up if it has one."""
    name = placement_name(record.run.value("placement"))
    return _("{name}, warm-up {steps}").format(name=name, steps=record.run.warmup) if record.run.warmup else name


def _arm_style(record: Record) -> dict[str, Any]:
    style = STYLES[record.run.value("placement")]
    return {**style, "markerfacecolor": "white", "linestyle": ":"} if record.run.warmup else style


@house_style
def training_curves(results: Results) -> Picture:
    """Draw the training loss against the step, one curve a record: the median over the seeds, and all seeds thinly."""
    figure, ax = new_figure(8.6, 3.4)
    words = []
    for record in results:
        style, curves = _arm_style(record), _smooth(record.loss)
        steps = np.arange(curves.shape[1]) + 5
        for curve in curves:
            ax.plot(steps, curve, color=style["color"], linewidth=0.5, alpha=0.35)
        ax.plot(steps, np.median(curves, axis=0), label=arm_name(record), markevery=20, **style)
        words.append(f"{arm_name(record)}: {_verdict(np.median(record.train_loss))}")
    _mark_guessing(ax, steps[-1], "right")
    _plain_numbers(ax)
    ax.set_ylim(2e-3, 4)
    ax.set_xlim(0, steps[-1] + 5)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=3.2)
    ax.set_xlabel(_("step"))
    ax.set_ylabel(_("training loss (nats)"))
    depth = results[0].run.value("depth")
    text = _("Training loss of {depth}-layer stacks; thin lines are single seeds. Final medians: {words}.")
    return Picture(figure, text.format(depth=depth, words="; ".join(words)))


def _mark_guessing(ax: Any, x: float, side: str) -> None:
    ax.axhline(GUESS, color=GREY, linewidth=0.8)
    shown = {"xytext": (0, 4), "textcoords": "offset points", "color": GREY, "fontsize": 9, "ha": side}
    ax.annotate(_("guessing, ln 8"), (x, GUESS), **shown)


def _verdict(loss: float) -> str:
    """Say coarsely how low a loss is, so that the words are the same on every machine."""
    bound = next((bound for bound in (0.1, 1) if loss < bound), None)
    return _("below {bound:g}").format(bound=bound) if bound else _("above 1")


@house_style
def losses_by_depth(results: Results) -> Picture:
    """Draw the final training loss against depth, one curve an arm (placement and warm-up), every seed a dot."""
    figure, ax = new_figure(8.6, 3.4)
    words = []
    arms = list(dict.fromkeys((r.run.value("placement"), r.run.warmup) for r in results))
    depths = sorted(set(results.values("depth")))
    for i, (placement, warmup) in enumerate(arms):
        some = sorted(results.where(placement=placement, warmup=warmup), key=lambda r: r.run.value("depth"))
        style = _arm_style(some[0])
        losses = np.stack([record.train_loss for record in some])  # (depths, seeds)
        x = np.array([record.run.value("depth") for record in some]) * 1.03 ** (i - len(arms) / 2)
        dots = {"color": style["color"], "marker": style["marker"], "linestyle": "", "markersize": 3, "alpha": 0.5}
        ax.plot(np.repeat(x, losses.shape[1]), losses.ravel(), **dots)
        ax.plot(x, np.median(losses, axis=1), label=arm_name(some[0]), **style)
        deepest = some[-1].run.value("depth")
        words.append(f"{arm_name(some[0])} ({deepest}): {_verdict(np.median(losses[-1]))}")
    _mark_guessing(ax, depths[0], "left")
    _plain_numbers(ax)
    ax.set_ylim(top=6)
    doubling_axis(ax, depths, _("depth L (layers)"))
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=3.2)
    ax.set_ylabel(_("final training loss (nats)"))
    text = _("Final training loss against depth; small marks are single seeds. Medians at the largest depth: {words}.")
    return Picture(figure, text.format(words="; ".join(words)))


@house_style
def noise_amplification(changes: Mapping[str, Array], depths: Sequence[int]) -> Picture:
    """Draw how far noise in the weights moves the output, (S, N) for each placement, against the depth."""
    figure, ax = new_figure(8, 3.1)
    words = []
    for placement, values in changes.items():
        style = STYLES[placement]
        middle = spread(ax, depths, values.T, **style)
        label(ax, depths[-1], middle[-1], placement_name(placement), style["color"])
        power = slope(np.log(depths), np.log(values)).value
        words.append(
            _("{name}: slope {slope}").format(
                name=placement_name(placement), slope=between(power, -0.2, 0.2, 0.75, 1.4)
            )
        )
    doubling_axis(ax, depths, _("depth L (layers)"))
    _plain_numbers(ax)
    ax.set_xlim(right=2.2 * depths[-1])
    ax.set_ylabel(_("mean square change\nof the output"))
    text = _("How far small noise in all weights moves the output, against depth, log–log. {words}.")
    return Picture(figure, text.format(words="; ".join(words)))


@house_style
def rank_collapse(residuals: Mapping[str, Array]) -> Picture:
    """Draw how different the tokens still are after 0…L attentions, (S, L+1) for each name."""
    figure, ax = new_figure(8, 3.1)
    words = []
    for (name, values), style in zip(residuals.items(), SERIES, strict=False):
        layers = np.arange(values.shape[1])
        visible = np.maximum(values, 1e-16)
        middle = spread(ax, layers, visible.T, label=name, **style)
        left = _("nothing") if middle[-1] < 1e-6 else _("a share {share}").format(share=between(middle[-1], 0.3, 0.8))
        words.append(f"{name}: {left}")
    ax.set_yscale("log")
    ax.set_ylim(1e-14, 10)
    ax.legend(loc="center right")
    ax.set_xlabel(_("attentions passed"))
    ax.set_ylabel(_("difference between tokens\n(share of the whole)"))
    text = _("What is left of the tokens' differences after {depth} attentions. {words}.")
    return Picture(figure, text.format(depth=layers[-1], words="; ".join(words)))


@house_style
def ablation(results: Results) -> Picture:
    """Draw the final training loss with and without residual × with and without LN, as a table of four fields."""
    figure, ax = new_figure(6.4, 2.6)
    grid = np.zeros((2, 2))
    for row, residual in enumerate((False, True)):
        for column, norm in enumerate((None, "layer")):
            record = results.one(residual=residual, norm=norm)
            loss = (
                np.nanmedian(np.where(record.diverged, np.nan, record.train_loss))
                if not record.diverged.all()
                else np.nan
            )
            grid[row, column] = loss
            shown = _("diverged") if np.isnan(loss) else f"{loss:.2f}" if loss < 10 else f"{loss:.0f}"
            ink = BLACK if np.isnan(loss) or loss < 0.5 else "white"
            ax.text(column, row, shown, ha="center", va="center", fontsize=14, color=ink)
    ax.imshow(grid, cmap="cividis_r", vmin=0, vmax=GUESS, aspect="auto")
    ax.set_xticks([0, 1], [_("no norm"), _("LN")])
    ax.set_yticks([0, 1], [_("no residual"), _("residual")])
    ax.grid(False)
    ax.set_title(_("median training loss (guessing: {guess:.2f})").format(guess=GUESS))
    words = "; ".join(
        f"{row}, {column}: {_verdict(grid[i, j])}"
        for i, row in enumerate((_("no residual"), _("residual")))
        for j, column in enumerate((_("no norm"), _("LN")))
    )
    text = _("Median final loss of {depth}-layer stacks. {words}.")
    return Picture(figure, text.format(depth=results[0].run.value("depth"), words=words))
