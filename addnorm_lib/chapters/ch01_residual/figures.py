"""Figures of chapter 1: values, gradients and information along a residual stream."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from addnorm_lib.chapters.ch01_residual.measures.identity import IdentityLosses
from addnorm_lib.chapters.ch01_residual.measures.increments import BranchShares
from addnorm_lib.course.figures.numbers import between
from addnorm_lib.course.figures.style import (
    BLACK,
    BLUE,
    GREY,
    PLAIN,
    PREDICTION,
    RESIDUAL,
    SERIES,
    VERMILION,
    Picture,
    house_style,
    label,
    new_figure,
)
from addnorm_lib.course.figures.sweeps import doubling_axis, spread
from addnorm_lib.messages import _


@house_style
def broadcast_map(x: Tensor, update: Tensor) -> Picture:
    """Draw, for x (T, D) and an update that broadcasts, which row of the update each token received."""
    received = (x + update) - x
    figure, axes = new_figure(8, 2.4, columns=3)
    panels = ((_("x"), x), (_("F(x)"), update), (_("what was added to x"), received))
    limit = max(t.abs().max().item() for _title, t in panels)
    for ax, (title, values) in zip(axes, panels, strict=True):
        ax.imshow(values, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        ax.set_title(f"{title}  {tuple(values.shape)}", fontsize=10)
        ax.set_xticks(range(values.shape[1]))
        ax.set_yticks(range(len(values)))
        ax.grid(False)
        for (row, column), value in np.ndenumerate(values.numpy()):
            ink = "white" if abs(value) > 0.6 * limit else BLACK
            ax.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink)
        ax.set_xlabel(_("feature"))
    axes[0].set_ylabel(_("token"))
    same = bool((received == received[:1]).all())
    text = _("x has shape {x}, F(x) has shape {update}; the update that the tokens received is {same}.").format(
        x=tuple(x.shape), update=tuple(update.shape), same=_("the same row for all") if same else _("a row for each")
    )
    return Picture(figure, text)


@house_style
def identity_losses(result: IdentityLosses) -> Picture:
    """Draw the final loss on H(x) = x against depth, for each kind of stack: median and all seeds."""
    figure, ax = new_figure(8, 3.4)
    names = {"plain": _("plain"), "residual": _("residual"), "scaled": _("residual, branches begun at 1/√L")}
    styles = {"plain": PLAIN, "residual": RESIDUAL, "scaled": SERIES[2]}
    for kind, losses in result.losses.items():
        style = styles[kind]
        medians = spread(ax, result.depths, losses.numpy(), **style)
        lift = {"plain": 0.75, "residual": 1.3}.get(kind, 1.0)  # the two end close together
        label(ax, result.depths[-1], lift * medians[-1], names[kind], style["color"])
    doubling_axis(ax, result.depths, _("depth L (blocks)"))
    ax.set_yscale("log")
    ax.set_xlim(result.depths[0] * 0.9, result.depths[-1] * 3.2)
    ax.set_ylabel(_("mean squared error on H(x) = x"))
    deepest = {kind: losses[-1].median().item() for kind, losses in result.losses.items()}
    order = "; ".join(names[kind] for kind in sorted(deepest, key=deepest.__getitem__))
    text = _("Loss on the identity task after training, from lowest to highest at depth {depth}: {order}.").format(
        depth=result.depths[-1], order=order
    )
    return Picture(figure, text)


@house_style
def gain_curves(norms: Mapping[float, Tensor]) -> Picture:
    """Draw the norm of a plain stack's Jacobian against depth (L + 1,), one curve for each gain."""
    figure, ax = new_figure(8, 3.2)
    for (gain, curve), style in zip(norms.items(), SERIES, strict=False):
        depths = np.arange(len(curve))
        ax.plot(depths, curve, markevery=4, **style)
        ax.plot(depths, gain**depths, **PREDICTION)
        label(ax, depths[-1], curve[-1].item(), _("gain {gain:g}").format(gain=gain), style["color"])
    ax.set_yscale("log")
    ax.set_xlim(0, 1.14 * depths[-1])
    ax.set_xlabel(_("depth L (layers)"))
    ax.set_ylabel(_(r"$\Vert\partial x_L/\partial x_0\Vert\;/\;\sqrt{D}$"))
    ends = "; ".join(
        _("gain {gain:g} ends near 1e{power:+.0f}").format(gain=gain, power=math.log10(curve[-1].item()))
        for gain, curve in norms.items()
    )
    text = _("Norm of the product of {depth} layer Jacobians: {ends}. Dotted: gain to the power L.")
    return Picture(figure, text.format(depth=len(curve) - 1, ends=ends))


@house_style
def deviations(depths: Sequence[int], measured: Mapping[float, Tensor]) -> Picture:
    """Draw ‖∏(I + J) − I‖/‖I‖ against depth, measured (depths, seeds) and predicted, one curve for each gain s."""
    figure, ax = new_figure(8, 3.4)
    grid = np.arange(1, depths[-1] + 1)
    for (s, values), style in zip(measured.items(), SERIES, strict=False):
        ax.plot(grid, np.sqrt(np.expm1(grid * np.log1p(s * s))), **PREDICTION)
        middle = values.square().mean(dim=1).sqrt()
        errors = torch.stack([middle - values.min(dim=1).values, values.max(dim=1).values - middle]).clamp(min=0)
        ax.errorbar(depths, middle, yerr=errors.numpy(), capsize=3, **{**style, "linestyle": ""})
        label(ax, depths[-1], middle[-1].item(), f"s = {s:g}", style["color"])
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.annotate(
        _("as large as I itself"),
        (1.01 * depths[-1], 1),
        xytext=(0, 4),
        textcoords="offset points",
        color=GREY,
        fontsize=9,
        ha="left",
    )
    ax.set_yscale("log")
    ax.set_xlim(0, 1.2 * depths[-1])
    ax.set_xlabel(_("depth L (blocks)"))
    ax.set_ylabel(_("‖∏(I + J) − I‖ / ‖I‖"))
    ends = ", ".join(
        _("s = {s:g}: {value}").format(
            s=s, value=between(values[-1].square().mean().sqrt().item(), 0.4, 1, 20, 60, 3e4, 2e5)
        )
        for s, values in measured.items()
    )
    text = _("Deviation of the product from the identity at depth {depth}: {ends}. Dotted: √((1 + s²)^L − 1).")
    return Picture(figure, text.format(depth=depths[-1], ends=ends))


@house_style
def path_lengths(shares: Mapping[float, Tensor]) -> Picture:
    """Draw how the gradient's energy divides over path lengths (L + 1,), and how the paths themselves do."""
    figure, ax = new_figure(8, 3.2)
    n_blocks = len(next(iter(shares.values()))) - 1
    lengths = np.arange(n_blocks + 1)
    counts = np.array([math.comb(n_blocks, k) for k in lengths]) / 2**n_blocks
    ax.bar(lengths, counts, color="#DDDDDD", edgecolor=GREY, width=0.9)
    ax.annotate(
        _("the paths, counted"), (n_blocks / 2 + 1.6, 0.85 * counts.max()), xytext=(6, 0), textcoords="offset points"
    )
    means = []
    for (s, share), style in zip(shares.items(), SERIES, strict=False):
        ax.plot(lengths, share, **style)
        peak = int(share.argmax())
        label(ax, lengths[peak], share[peak].item() * 1.04, _("energy, s = {s:g}").format(s=s), style["color"])
        mean = float((share * torch.arange(n_blocks + 1)).sum())
        means.append(_("{mean} (s = {s:g})").format(s=s, mean=between(mean, 0.5, 1.5, 2.5, 4.5, 8)))
    ax.set_xlabel(_("path length k (branches taken)"))
    ax.set_ylabel(_("share"))
    text = _("Of {blocks} blocks the average path takes {half:g} branches; weighted by energy it takes {means}.")
    return Picture(figure, text.format(blocks=n_blocks, half=n_blocks / 2, means=", ".join(means)))


@house_style
def reconstruction(depths: Sequence[int], r2: Mapping[str, Tensor]) -> Picture:
    """Draw the share of the input that a linear read-out recovers, R² (depths, seeds), against depth."""
    figure, ax = new_figure(8, 3.2)
    styles = dict(zip(r2, (PLAIN, RESIDUAL, *SERIES[2:]), strict=False))
    for name, values in r2.items():
        middle = values.mean(dim=1)
        errors = torch.stack([middle - values.min(dim=1).values, values.max(dim=1).values - middle]).numpy()
        ax.errorbar(depths, middle, yerr=errors, capsize=3, **styles[name])
        label(ax, depths[-1], middle[-1].item(), name, styles[name]["color"])
    ax.set_xlim(-0.5, 1.42 * depths[-1])
    ax.set_ylim(0, 1.05)
    ax.set_xticks(depths)
    ax.set_xlabel(_("depth l (blocks passed)"))
    ax.set_ylabel(_("R² of the input, held-out digits"))
    ends = "; ".join(
        _("{name} {value}").format(name=name, value=between(values[-1].mean().item(), 0.3, 0.8))
        for name, values in r2.items()
    )
    text = _("R² of a linear read-out of the input at depth {depth}: {ends}.")
    return Picture(figure, text.format(depth=depths[-1], ends=ends))


@house_style
def read_back_digits(digits: Tensor, rows: Mapping[str, Tensor], background: Tensor | float = 0.0) -> Picture:
    """Draw digits (N, 64) and, a row for each name, what could be read back of them (N, 64).

    `background` (64,), the mean picture, is added to every picture.
    """
    figure, axes = new_figure(8, 0.95 * (len(rows) + 1), rows=len(rows) + 1, columns=len(digits))
    for row, (name, images) in enumerate({_("input"): digits, **rows}.items()):
        for ax, image in zip(axes[row], images, strict=True):
            shown = (image + background).reshape(8, 8)
            ax.imshow(shown, cmap="gray_r", vmin=0, vmax=(digits + background).max())
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(False)
        axes[row][0].set_ylabel(name, rotation=0, ha="right", va="center")
    closeness = "; ".join(
        _("{name} {value}").format(
            name=name, value=between(np.corrcoef(images.ravel().numpy(), digits.ravel().numpy())[0, 1], 0.5, 0.7)
        )
        for name, images in rows.items()
    )
    text = _("{count} held-out digits and what a linear read-out recovers; correlation with the input: {closeness}.")
    return Picture(figure, text.format(count=len(digits), closeness=closeness))


@house_style
def branch_shares(result: BranchShares) -> Picture:
    """Draw each block's branch share of the variance before and after training, with 1/(l + 1)."""
    figure, ax = new_figure(8, 3.2)
    blocks = np.arange(1, result.before.shape[1] + 1)
    ax.plot(blocks, 1 / (blocks + 1), **{**PREDICTION, "linewidth": 2})
    for name, shares, style, shift in (
        (_("before training"), result.before, {"color": BLUE, "marker": "o", "linestyle": ""}, -0.08),
        (_("after training"), result.after, {"color": VERMILION, "marker": "s", "linestyle": "--"}, 0.08),
    ):
        middle = shares.mean(dim=0)
        errors = torch.stack([middle - shares.min(dim=0).values, shares.max(dim=0).values - middle]).numpy()
        ax.errorbar(blocks + shift, middle, yerr=errors, capsize=2, label=name, **style)
    ax.plot([], [], label="1/(l + 1)", **PREDICTION)
    ax.legend()
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.set_yticks([0.5, 0.2, 0.1, 0.05, 0.02], ["50 %", "20 %", "10 %", "5 %", "2 %"])
    ax.set_xticks(blocks)
    ax.set_xlabel(_("block l"))
    ax.set_ylabel(_("branch's share of the variance"))
    text = _(
        "Branch share of the variance falls from {first} at block 1 to {last} at block {depth} before training; "
        "after training the last block's is {comparison}."
    ).format(
        first=between(result.before[:, 0].mean().item(), 0.4, 0.6),
        last=between(result.before[:, -1].mean().item(), 0.1),
        depth=len(blocks),
        comparison=_("smaller") if result.after[:, -1].mean() < result.before[:, -1].mean() else _("larger"),
    )
    return Picture(figure, text)
