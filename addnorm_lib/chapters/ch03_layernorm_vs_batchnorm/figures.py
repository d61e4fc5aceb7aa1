"""Figures of chapter 3: which numbers share a mean, what ε does, and what a norm takes away."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.attention_scale import AttentionScale
from addnorm_lib.course.figures.numbers import between, fixed, typeset
from addnorm_lib.course.figures.rounding import variance_errors as variance_errors  # chapter 6 draws it, too
from addnorm_lib.course.figures.style import (
    BLACK,
    GREY,
    ORANGE,
    PREDICTION,
    SERIES,
    SKY,
    Picture,
    house_style,
    label,
    new_figure,
)
from addnorm_lib.course.figures.sweeps import doubling_axis, spread
from addnorm_lib.experiments.results import Results
from addnorm_lib.messages import _

NORMS = {name: SERIES[i] for i, name in enumerate(("layer", "batch", "rms", "none", "instance", "group"))}
"""One style a norm, the same in every figure of the chapter."""

NEUTRAL = ("#C4C4C4", "#9A9A9A", GREY)
"""Colours of steps that belong to no norm."""


def norm_name(norm: str | None) -> str:
    """Return the reader's word for a norm."""
    names = {
        "layer": _("layer norm"),
        "batch": _("batch norm"),
        "rms": _("RMSNorm"),
        "none": _("no norm"),
        "instance": _("instance norm"),
        "group": _("group norm"),
    }
    return names[norm or "none"]


def _values(x: ArrayLike | Tensor) -> NDArray[np.float64]:
    return x.detach().double().numpy() if isinstance(x, Tensor) else np.asarray(x, dtype=float)


@house_style
def worked_token(token: Tensor) -> Picture:
    """Draw a token (D,) as layer norm takes it apart: itself, less its mean, and divided by its deviation."""
    x = _values(token)
    centred = x - x.mean()
    normalised = centred / x.std()
    figure, axes = new_figure(8.6, 2.5, columns=3, sharey=True)
    titles = (_("the token x"), _("less its mean: x − μ"), _("divided by σ: x̂"))
    features = np.arange(1, len(x) + 1)
    for ax, values, title, colour in zip(axes, (x, centred, normalised), titles, NEUTRAL, strict=True):
        ax.bar(features, values, color=colour, width=0.6, zorder=2)
        for feature, value in zip(features, values, strict=True):
            up = value >= 0
            offset, place = ((0, 3), "bottom") if up else ((0, -3), "top")
            ax.annotate(
                fixed(value),
                (feature, value),
                xytext=offset,
                textcoords="offset points",
                ha="center",
                va=place,
            )
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_title(title)
        ax.set_xticks(features)
        ax.set_xlabel(_("feature"))
    axes[0].set_ylabel(_("value"))
    axes[0].margins(y=0.18)
    text = _("A token of {count} features: its mean is {mean:.2f}, its deviation {std:.2f}; normalised, {values}.")
    return Picture(
        figure,
        text.format(
            count=len(x),
            mean=x.mean(),
            std=x.std(),
            values=", ".join(fixed(value) for value in normalised),
        ),
    )


def _spread_axes(moved: NDArray[np.bool_], axes: Sequence[str]) -> str:
    """Return the names of the axes along which the moved elements lie."""
    at = np.argwhere(moved)
    return ", ".join(name for i, name in enumerate(axes) if len(np.unique(at[:, i])) > 1)


def _cards(moved: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (cards, rows, columns): columns are features or channels, cards samples (one card for plain vectors)."""
    if moved.ndim == 2:
        return moved[None]
    if moved.ndim == 3:
        return moved
    samples, channels = moved.shape[:2]
    return moved.reshape(samples, channels, -1).transpose(0, 2, 1)


@house_style
def shared_statistics(maps: Mapping[str, Tensor], poked: tuple[int, ...], axes: Sequence[str]) -> Picture:
    """Draw which elements move when the element `poked` does: they share its mean or variance.

    `maps` gives a boolean tensor for each norm, of shape (B, D), (B, T, D) or (B, C, H, W), as `probes.moved_by`
    returns it; `axes` names the axes, "B", "T", "D" and so on.
    """
    shape = next(iter(maps.values())).shape
    cards, rows, columns = _cards(np.zeros(shape, dtype=bool)).shape
    gap = 0.8
    height = cards * rows + (cards - 1) * gap
    figure, panes = new_figure(8.6, 0.9 + 0.17 * max(height, 6), columns=len(maps), sharex=True, sharey=True)
    first = panes[0]
    mark = np.zeros(shape, dtype=bool)
    mark[poked] = True
    told = []
    for ax, (name, tensor) in zip(panes, maps.items(), strict=True):
        moved = np.asarray(tensor, dtype=bool)
        for (card, row, column), shares in np.ndenumerate(_cards(moved)):
            is_poked = _cards(mark)[card, row, column]
            colour = ORANGE if is_poked else SKY if shares else "white"
            y = card * (rows + gap) + row
            ax.add_patch(Rectangle((column, y), 1, 1, facecolor=colour, edgecolor=GREY, linewidth=0.7))
            if shares and not is_poked:
                ax.plot(column + 0.5, y + 0.5, marker=".", color="black", markersize=3)
            if is_poked:
                ax.plot(column + 0.5, y + 0.5, marker="x", color="black", markersize=6, markeredgewidth=1.6)
        ax.set_title(norm_name(name), fontsize=10, loc="center")
        ax.set_aspect("equal")
        ax.grid(False)
        ax.set(xlim=(-0.2, columns + 0.2), ylim=(height + 0.2, -0.2), xticks=[], yticks=[])
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        ax.set_xlabel({2: _("features D"), 3: _("features D"), 4: _("channels C")}[len(shape)], fontsize=9)
        told.append(
            _("{norm} {count} (along {axes})").format(
                norm=norm_name(name), count=int(moved.sum()), axes=_spread_axes(moved, axes) or _("none")
            )
        )
    if len(shape) == 2:
        first.set_ylabel(_("samples B"), fontsize=9)
    else:
        inner = _("tokens T") if len(shape) == 3 else _("pixels H·W")
        first.set_yticks(
            [card * (rows + gap) + rows / 2 for card in range(cards)],
            [_("sample {number}").format(number=card) for card in range(cards)],
            fontsize=9,
            rotation=90,
            va="center",
        )
        first.set_ylabel(inner, fontsize=9)
    text = _("One element (×) of ({axes}) = {shape} is changed. Outputs that move (dots and ×): {told}.")
    return Picture(figure, text.format(axes=", ".join(axes), shape=tuple(shape), told="; ".join(told)))


@house_style
def eps_curves(stds: ArrayLike, curves: Mapping[float, ArrayLike]) -> Picture:
    """Draw the output's deviation against the input's, one curve for each ε; at σ = √ε it is √½."""
    stds = _values(stds)
    figure, ax = new_figure(8, 3.3)
    halves = []
    for (eps, out), style in zip(curves.items(), SERIES, strict=False):
        ax.plot(stds, _values(out), **style, markevery=8)
        half = float(np.exp(np.interp(np.sqrt(0.5), _values(out), np.log(stds))))
        halves.append(_("ε = {eps}: {half}").format(eps=typeset(f"{eps:.0e}"), half=typeset(f"{half:.0e}")))
        power = f"ε = $10^{{{np.log10(eps):.0f}}}$"
        label(ax, half, np.sqrt(0.5), power, style["color"], bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    ax.axhline(np.sqrt(0.5), color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.annotate("√½", (stds[0], np.sqrt(0.5)), xytext=(0, 3), textcoords="offset points", color=GREY)
    ax.set_xscale("log")
    ax.set_xlabel(_("deviation of the input, σ"))
    ax.set_ylabel(_("deviation of the output"))
    ax.set_ylim(-0.03, 1.12)
    text = _("The output's deviation rises from 0 to 1 with the input's. It passes √½ where σ is near √ε: {halves}.")
    return Picture(figure, text.format(halves="; ".join(halves)))


@house_style
def spectra(singular_values: Mapping[str, Tensor]) -> Picture:
    """Draw the singular values of norms' Jacobians, times the deviation they divide by, largest first."""
    figure, ax = new_figure(8, 2.7)
    told = []
    for i, (name, values) in enumerate(singular_values.items()):
        s = _values(values)
        style = NORMS[name] | {"linestyle": "", "markersize": 7}
        ax.plot(np.arange(1, len(s) + 1) + 0.2 * i, s, **style, label=norm_name(name))
        zeros = int((s < 0.5).sum())
        told.append(
            _("{norm}: {ones} at 1, {zeros} at 0").format(norm=norm_name(name), ones=len(s) - zeros, zeros=zeros)
        )
    ax.set_xticks(range(1, len(s) + 1))
    ax.set_ylim(-0.1, 1.25)
    ax.set_xlabel(_("singular value, by size"))
    ax.set_ylabel(_("value times σ (or rms)"))
    ax.legend(loc="center left")
    text = _("Singular values of the Jacobian for {features} features, times what the norm divides by. {told}.")
    return Picture(figure, text.format(features=len(s), told="; ".join(told)))


@house_style
def fluctuations(sizes: Sequence[int], deviations: Mapping[str, ArrayLike]) -> Picture:
    """Draw how far a batch's mean strays, (seeds, sizes) for each kind of data, and the law 1/√B."""
    figure, ax = new_figure(8, 3.6)
    told, ends = [], {}
    for i, ((name, values), style) in enumerate(zip(deviations.items(), SERIES, strict=False)):
        # Each curve thinner than the one below it, which has a ring for a marker: those that coincide stay visible.
        nested = {"markersize": 11 - 2.5 * i, "linewidth": max(3.4 - i, 1)}
        if i == 0:
            nested |= {"markerfacecolor": "white", "markeredgewidth": 2}
        middle = spread(ax, sizes, _values(values).T, label=name, elinewidth=1, **style | nested)
        ends[name] = middle[-1]
        power = np.polyfit(np.log(sizes), np.log(middle), 1)[0]
        told.append(
            _("{name} as B to the power p, p {power}").format(name=name, power=between(power, -0.6, -0.45, -0.2))
        )
    ax.plot(sizes, np.asarray(sizes, dtype=float) ** -0.5, **PREDICTION | {"zorder": 5}, label="1/√B")
    for name, end in ends.items():
        together = [other for other, value in ends.items() if abs(np.log(value / end)) < 0.1]
        if together[0] == name:
            lawful = abs(np.log(end * np.sqrt(sizes[-1]))) < 0.1
            words = " =\n".join(together) + (" ≈ 1/√B" if lawful else "")
            # The lowest label hangs below its curve's end, so that it keeps clear of the next one up.
            place = {"xytext": (10, 7), "va": "top"} if lawful else {"xytext": (10, 0), "va": "center"}
            ax.annotate(words, (sizes[-1], end), textcoords="offset points", **place)
    ax.set_yscale("log")
    doubling_axis(ax, sizes, _("batch size B"))
    ax.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
    ax.set_ylabel(_("deviation of the batch mean / σ"))
    ax.set_xlim(right=1.15 * sizes[-1])
    ax.legend(loc="lower left")
    text = _("From B = {first} to B = {last} the deviation of a batch's mean falls: {told}. Dotted: 1/√B.")
    return Picture(figure, text.format(first=sizes[0], last=sizes[-1], told="; ".join(told)))


@house_style
def batch_sizes(results: Results) -> Picture:
    """Draw the test accuracy against the batch size, for every norm in `results`."""
    figure, ax = new_figure(8, 3)
    told = []
    for norm in dict.fromkeys(results.values("norm")):
        some = results.where(norm=norm)
        sizes, style = some.values("batch_size"), NORMS[norm or "none"]
        middle = spread(ax, sizes, 100 * (1 - some.column("test_error")), label=norm_name(norm), **style)
        told.append(
            _("{norm} {share} % at B = {size}").format(
                norm=norm_name(norm), share=between(middle[0], 20, 80), size=sizes[0]
            )
        )
    doubling_axis(ax, sizes, _("batch size B"))
    ax.set_ylabel(_("test accuracy (%)"))
    ax.legend(loc="lower right")
    text = _("Test digits that are right after training with small batches: {told}; {last} at B = {size}.")
    last = [1 - results.where(batch_size=sizes[-1]).column("test_error")]
    together = _("all within a few percent") if np.ptp(np.median(last, axis=-1)) < 0.05 else _("they differ")
    return Picture(figure, text.format(told="; ".join(told), last=together, size=sizes[-1]))


def _how_many(some: int, all_of_them: int) -> str:
    """Say a count as a share that one more or less seldom changes."""
    if some == 0:
        return _("none")
    return _("most") if 2 * some > all_of_them else _("some")


@house_style
def norm_rates(results: Results, limits: Sequence[float]) -> Picture:
    """Draw the final training loss (nats) against the learning rate, one curve a norm, and the `limits` (dotted).

    Points are medians over the seeds, bars go from the lowest to the highest; a cross on top where most diverged.
    """
    figure, ax = new_figure(8, 3.8)
    told = []
    norms = list(dict.fromkeys(results.values("norm")))
    for place, norm in enumerate(norms):
        some = results.where(norm=norm)
        rates, style = some.values("lr"), NORMS[norm or "none"]
        survive = [rate for rate, record in zip(rates, some, strict=True) if np.median(record.diverged) == 0]
        losses = np.stack([record.train_loss for record in some if record.run.lr in survive])
        beside = 1.06 ** (place - (len(norms) - 1) / 2)  # so that bars at one rate do not cover each other
        medians = spread(ax, beside * np.array(survive), losses, label=norm_name(norm), elinewidth=1.2, **style)
        lost = [rate for rate in rates if rate not in survive]
        ax.plot(lost, [8.0 * 0.7**place] * len(lost), color=style["color"], marker="x", linestyle="", markersize=8)
        if lost:
            ax.annotate(_("diverged"), (lost[0], 8.0), xytext=(0, 7), textcoords="offset points", ha="left", fontsize=9)
        usable = _(" and ").join(_how_many((medians < limit).sum(), len(rates)) for limit in limits)
        told.append(_("{norm} {usable}").format(norm=norm_name(norm), usable=usable))
    ax.set(xscale="log", yscale="log", xlabel=_("learning rate"), ylabel=_("training loss (nats)"))
    ax.set_ylim(0.008, 20)
    for limit in limits:
        ax.axhline(limit, color=BLACK, linewidth=1.1, linestyle=":")
        ax.annotate(
            _("limit {limit:g}").format(limit=limit),
            (1, limit),
            xycoords=ax.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    ax.legend(loc="lower left", fontsize=9)
    text = _(
        "How many of {all} learning rates end with a median training loss below {limits} (dotted): {told}. "
        "Bars: lowest to highest of {seeds} seeds."
    )
    below = _(" and below ").join(f"{limit:g}" for limit in limits)
    return Picture(figure, text.format(all=len(rates), limits=below, told="; ".join(told), seeds=losses.shape[1]))


@house_style
def token_scatter(tokens: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Picture:
    """Draw the mean and deviation of single tokens: (means, deviations) for each name, about 600 of each."""
    figure, ax = new_figure(8, 3.4)
    told = []
    for (name, (means, stds)), style in zip(tokens.items(), SERIES, strict=False):
        means, stds = _values(means).ravel(), _values(stds).ravel()
        step = max(1, len(means) // 600)
        ax.plot(means[::step], stds[::step], **style | {"linestyle": "", "markersize": 3}, alpha=0.7, label=name)
        low, high = np.percentile(stds, [1, 99])
        told.append(_("{name} {factor}").format(name=name, factor=between(high / low, 1.65, 4)))
    ax.set_xlabel(_("a token's mean μ"))
    ax.set_ylabel(_("its deviation σ"))
    ax.set_ylim(0, None)
    ax.legend(loc="lower right", markerscale=2)
    text = _(
        "Mean and deviation of single tokens of real text. Largest deviation over smallest, without "
        "the outermost hundredth on both sides: {told}."
    )
    return Picture(figure, text.format(told="; ".join(told)))


@house_style
def attention_curves(scales: ArrayLike, measured: Mapping[str, AttentionScale]) -> Picture:
    """Draw the entropy of attention and the gradient of its query weights against the scale of the tokens."""
    figure, (left, right) = new_figure(8.6, 3.1, columns=2)
    told, floor = [], 1e-9
    for name, values in measured.items():
        style = NORMS[name]
        entropy = spread(left, scales, values.entropy.T, label=norm_name(name), **style)
        right.plot(scales, np.maximum(np.median(values.query_gradient, axis=0), floor), **style)
        told.append(
            _("{norm} {low} at the smallest scale, {high} at the largest").format(
                norm=norm_name(name), low=between(entropy[0], 0.1, 0.8), high=between(entropy[-1], 0.1, 0.8)
            )
        )
    left.set_ylabel(_("entropy / log T"))
    right.set_ylabel(_("gradient of the query weights"))
    right.set_yscale("log")
    right.set_ylim(2e-10, 1e3)
    right.set_yticks([floor, 1e-6, 1e-3, 1, 1e3], [r"$\leq 10^{-9}$", *(f"$10^{{{n}}}$" for n in (-6, -3, 0, 3))])
    left.legend(loc="lower left", fontsize=9)
    figure.get_layout_engine().set(wspace=0.06)
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks([1e-4, 1e-2, 1, 1e2])
        ax.minorticks_off()
        ax.set_xlabel(_("scale of the tokens"))
    text = _("Entropy of attention (1: all tokens alike, 0: one token takes all): {told}.")
    return Picture(figure, text.format(told="; ".join(told)))
