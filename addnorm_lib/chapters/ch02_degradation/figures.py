"""Figures of chapter 2: training error against depth, and what does and does not explain it."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from addnorm_lib.chapters.ch02_degradation.measures import PathGradients
from addnorm_lib.course.figures.numbers import between
from addnorm_lib.course.figures.style import (
    BLACK,
    GREY,
    PLAIN,
    PREDICTION,
    RESIDUAL,
    SERIES,
    Picture,
    house_style,
    label,
    new_figure,
)
from addnorm_lib.course.figures.sweeps import doubling_axis, spread
from addnorm_lib.experiments.results import Record, Results
from addnorm_lib.experiments.statistics import Slope
from addnorm_lib.messages import _

KINDS = {"plain": PLAIN, "residual": RESIDUAL}

CURVES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "A": ((0.080, 0.040, 0.015, 0.004, 0.000), (0.110, 0.105, 0.125, 0.165, 0.210)),
    "B": ((0.020, 0.025, 0.060, 0.140, 0.230), (0.050, 0.055, 0.090, 0.165, 0.255)),
    "C": ((0.080, 0.050, 0.030, 0.020, 0.012), (0.110, 0.080, 0.062, 0.052, 0.046)),
    "D": ((0.050, 0.030, 0.020, 0.900, 0.900), (0.080, 0.060, 0.050, 0.900, 0.900)),
}
"""Training and test error of four invented families of networks at depths 2, 4, 8, 16, 32 (exercise 2.3)."""


def kind_name(kind: str) -> str:
    """Return the reader's word for a kind of network."""
    return {"plain": _("plain"), "residual": _("residual")}[kind]


@house_style
def depth_sweep(results: Results) -> Picture:
    """Draw the final training loss, and training and test error, against depth, plain and residual."""
    figure, (left, right) = new_figure(8.6, 3.4, columns=2)
    loss = {}
    for kind, style in KINDS.items():
        some = results.where(kind=kind)
        depths = some.values("depth")
        loss[kind] = spread(left, depths, some.column("train_loss"), **style)
        label(left, depths[-1], loss[kind][-1], kind_name(kind), style["color"])
        spread(right, depths, 100 * some.column("train_error"), label=f"{kind_name(kind)}, " + _("train"), **style)
        test = {**style, "markerfacecolor": "white", "linewidth": 1}
        spread(right, depths, 100 * some.column("test_error"), label=f"{kind_name(kind)}, " + _("test"), **test)
    for ax in (left, right):
        doubling_axis(ax, depths, _("depth L (blocks)"))
    left.set_xlim(right=4 * depths[-1])
    left.set_yscale("log")
    left.set_ylabel(_("training loss (nats)"))
    right.set_ylabel(_("error (%)"))
    right.legend(fontsize=9)
    text = _(
        "Final training loss, and training and test error, against depth. At depth {deepest} the plain nets' loss is "
        "{rise} times their own lowest, and {factor} times the residual nets'. Bars: lowest and highest of {seeds} "
        "seeds."
    ).format(
        deepest=depths[-1],
        rise=between(loss["plain"][-1] / loss["plain"].min(), 1, 100),
        factor=between(loss["plain"][-1] / loss["residual"][-1], 1, 100),
        seeds=results.column("train_loss").shape[1],
    )
    return Picture(figure, text)


@house_style
def four_curves() -> Picture:
    """Draw the training and test errors of exercise 2.3's four invented families of networks."""
    figure, axes = new_figure(8.6, 2.5, columns=4, sharey=True)
    depths = (2, 4, 8, 16, 32)
    for ax, (name, (train, test)) in zip(axes, CURVES.items(), strict=True):
        ax.plot(depths, 100 * np.array(train), label=_("train"), **SERIES[0])
        ax.plot(depths, 100 * np.array(test), label=_("test"), **SERIES[1])
        ax.set_title(name)
        doubling_axis(ax, depths, _("depth L (blocks)"))
    axes[0].set_ylabel(_("error (%)"))
    axes[0].set_ylim(-2, 40)
    axes[0].legend(fontsize=9)
    axes[3].annotate(_("90 % at\n16 and 32"), (7, 36), fontsize=9, ha="right", va="top")
    lines = "; ".join(
        _("{name} train {train} test {test}").format(name=name, train=_percent(train), test=_percent(test))
        for name, (train, test) in CURVES.items()
    )
    return Picture(figure, _("Errors in percent at depths 2, 4, 8, 16, 32: {lines}.").format(lines=lines))


def _percent(errors: Sequence[float]) -> str:
    return "/".join(f"{100 * e:.3g}" for e in errors)


@house_style
def block_gradients(plain: Record, residual: Record) -> Picture:
    """Draw the gradient norm of each block's weight, at the first step and as the median over the training."""
    figure, axes = new_figure(8.6, 3.2, columns=2, sharey=True)
    smallest = {}
    for kind, record in (("plain", plain), ("residual", residual)):
        norms = record.gradient_norm[:, :, 1:-1]  # without stem and readout: (S, R, L)
        blocks = np.arange(1, norms.shape[2] + 1)
        for ax, values in zip(axes, (norms[:, 0], np.median(norms[:, 5:], axis=1)), strict=True):
            spread(ax, blocks, values.T, label=kind_name(kind), **KINDS[kind])
        smallest[kind] = np.median(np.median(norms[:, 5:], axis=1).min(axis=1))
    for ax, title in zip(axes, (_("at the first step"), _("in training (median over steps)")), strict=True):
        ax.set_yscale("log")
        ax.set_title(title)
        ax.set_xlabel(_("block l"))
    axes[0].set_ylabel(_("gradient norm of W"))
    axes[0].legend()
    text = _(
        "Gradient norm of every block's weight in {depth}-block nets. In training the smallest one is {comparison} in "
        "the plain nets than in the residual ones."
    ).format(depth=len(blocks), comparison=_("larger") if smallest["plain"] > smallest["residual"] else _("smaller"))
    return Picture(figure, text)


@house_style
def learning_rates(results: Results) -> Picture:
    """Draw the final training loss against the learning rate, plain and residual."""
    figure, ax = new_figure(8, 3.2)
    best = {}
    for kind, style in KINDS.items():
        some = sorted(results.where(kind=kind), key=lambda record: record.run.lr)
        rates = [record.run.lr for record in some]
        middle = spread(ax, rates, np.stack([record.train_loss for record in some]), **style)
        label(ax, rates[-1], middle[-1], kind_name(kind), style["color"])
        best[kind] = middle.min()
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.set_xlim(right=1.6 * rates[-1])
    ax.set_xlabel(_("learning rate"))
    ax.set_ylabel(_("training loss (nats)"))
    text = _(
        "Training loss of {depth}-block nets at {count} learning rates: with each kind at its own best rate, the "
        "residual nets' loss is lower by a factor {factor}."
    ).format(
        depth=results[0].run.value("depth"),
        count=len(rates),
        factor=between(best["plain"] / best["residual"], 1, 50),
    )
    return Picture(figure, text)


@house_style
def variance_growth(variances: Mapping[str, NDArray[np.float64]]) -> Picture:
    """Draw the variance after 0…L blocks (S, L+1) at initialisation, one curve for each name, with 2^l and l+1."""
    figure, ax = new_figure(8, 3.4)
    for (name, values), style in zip(variances.items(), SERIES, strict=False):
        blocks = np.arange(values.shape[1])
        middle = spread(ax, blocks, values.T, markevery=4, errorevery=4, **style)
        label(ax, blocks[-1], middle[-1], name, style["color"])
    ax.plot(blocks, 2.0**blocks, **PREDICTION)
    ax.plot(blocks, blocks + 1.0, **PREDICTION)
    ax.set_yscale("log")
    ax.set_xlim(-0.5, 1.3 * blocks[-1])
    ax.set_xticks(range(0, blocks[-1] + 1, 4))
    middle = blocks[-1] // 2
    ax.annotate("$2^l$", (middle, 2.0**middle), xytext=(-20, 4), textcoords="offset points")
    ax.annotate("$l+1$", (middle, middle + 1.0), xytext=(-6, 8), textcoords="offset points")
    ax.set_xlabel(_("blocks passed l"))
    ax.set_ylabel(_("variance of the stream"))
    ends = "; ".join(
        _("{name} {value}").format(name=name, value=between(np.median(values[:, -1]), 1.5, 5, 15, 50, 1e6))
        for name, values in variances.items()
    )
    text = _("Variance after {depth} residual blocks at initialisation: {ends}. Dotted: 2^l and l + 1.")
    return Picture(figure, text.format(depth=blocks[-1], ends=ends))


@house_style
def depth_rate_grid(results: Results) -> Picture:
    """Draw the median training loss over depth × learning rate, one grid a branch factor; NaN where it diverged."""
    factors = list(dict.fromkeys(results.values("branch")))
    depths, rates = sorted(set(results.values("depth"))), sorted(set(results.values("lr")))
    figure, axes = new_figure(8, 2.7, columns=len(factors), sharey=True)
    survivors = []
    for ax, factor in zip(axes, factors, strict=True):
        grid = np.full((len(depths), len(rates)), np.nan)
        for record in results.where(branch=factor):
            cell = depths.index(record.run.value("depth")), rates.index(record.run.lr)
            grid[cell] = np.nan if np.median(record.diverged) else np.median(record.train_loss[~record.diverged])
        ax.imshow(np.log10(grid), cmap="viridis_r", vmin=-4, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(grid):
            ink = "white" if value > 0.02 else BLACK
            shown = "NaN" if np.isnan(value) else f"{value:.1g}"
            ax.text(column, row, shown, ha="center", va="center", color=ink)
        ax.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        ax.set_yticks(range(len(depths)), [str(depth) for depth in depths])
        ax.grid(False)
        ax.set_xlabel(_("learning rate"))
        name = _("x + F(x)") if factor == 1 else _("x + F(x)/√L")
        ax.set_title(name)
        survivors.append(
            _("{name} {some} of {all}").format(name=name, some=np.isfinite(grid[-1]).sum(), all=len(rates))
        )
    axes[0].set_ylabel(_("depth L (blocks)"))
    text = _(
        "Median training loss without a norm over depth and learning rate; NaN where most seeds diverged. Rates that "
        "train at depth {depth}: {survivors}."
    ).format(depth=depths[-1], survivors="; ".join(survivors))
    return Picture(figure, text)


@house_style
def shortcut_factors(results: Results) -> Picture:
    """Draw the final mini-batch loss against the factor on the shortcut."""
    figure, ax = new_figure(8, 2.8)
    factors = results.values("shortcut")
    values = results.column("loss")[:, :, -20:].mean(axis=2)
    order = np.argsort(factors)
    middle = spread(ax, np.array(factors)[order], values[order], **RESIDUAL)
    ax.set_yscale("log")
    ax.set_xticks(sorted(factors))
    ax.set_xlabel(_("factor on the shortcut"))
    ax.set_ylabel(_("mini-batch loss,\nlast 20 steps (nats)"))
    text = _("Training loss against the shortcut's factor: {trend} as the factor falls from 1 to {least:g}.").format(
        trend=_("it rises at every step") if (np.diff(middle) < 0).all() else _("it does not rise steadily"),
        least=min(factors),
    )
    return Picture(figure, text)


@house_style
def shattering(
    plain: NDArray[np.float64], residual: NDArray[np.float64], plain_slope: Slope, residual_slope: Slope
) -> Picture:
    """Draw the mean cosine between different inputs' gradients (S, L) against depth, with the fitted slopes."""
    figure, (left, right) = new_figure(8.6, 3.2, columns=2)
    for ax, values, style in ((left, np.abs(plain), PLAIN), (right, residual, RESIDUAL)):
        spread(ax, np.arange(1, values.shape[1] + 1), values.T, **style)
        ax.set_yscale("log")
        ax.set_xlabel(_("blocks passed l"))
    l = np.arange(1, plain.shape[1] + 1)
    left.plot(l, np.abs(plain).mean() / (2.0**-l).mean() * 2.0**-l, label="∝ $2^{-l}$", **PREDICTION)
    left.set_title(_("plain, batch norm"))
    left.set_ylabel(_("gradient correlation"))
    l = np.arange(1, residual.shape[1] + 1)
    right.plot(l, np.median(residual[:, -1]) * np.sqrt(l[-1] / l), label=r"∝ $1/\sqrt{l}$", **PREDICTION)
    right.set_xscale("log", base=2)
    right.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    right.minorticks_off()
    right.set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
    right.set_title(_("residual, batch norm"))
    for ax in (left, right):
        ax.legend()
    text = _(
        "Correlation of different inputs' gradients against depth. Plain: log₂ slope {plain} a block. Residual: "
        "log–log slope {residual}."
    ).format(plain=between(plain_slope.value, -1.2, -0.8), residual=between(residual_slope.value, -0.8, -0.4))
    return Picture(figure, text)


@house_style
def trained_paths(paths: PathGradients) -> Picture:
    """Draw the gradient along one path of k branches, and the share of the gradient that each path length carries."""
    figure, (left, right) = new_figure(8.6, 3.2, columns=2)
    lengths = np.arange(len(paths.paths))
    spread(left, lengths, paths.per_path.T, **RESIDUAL)
    left.set_yscale("log")
    left.set_ylabel(_("gradient along one path"))
    right.bar(lengths, paths.paths, color="#DDDDDD", edgecolor=GREY, label=_("paths, counted"))
    spread(right, lengths, paths.share.T, label=_("gradient"), **RESIDUAL)
    right.set_ylabel(_("share"))
    right.legend()
    for ax in (left, right):
        ax.set_xlabel(_("path length k (branches taken)"))
    text = _(
        "In trained {depth}-block nets the average path takes {half:g} branches; weighted by gradient it takes {mean}."
    ).format(depth=lengths[-1], half=lengths[-1] / 2, mean=between(paths.mean_length().mean(), 4.5, 8))
    return Picture(figure, text)
