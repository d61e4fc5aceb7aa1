"""One sample in a hundred batches: what its batch-mates do to it."""

import numpy as np
import torch
import torch.nn.functional as F

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import FEATURES, running
from addnorm_lib.course.figures.numbers import fixed, short
from addnorm_lib.course.figures.style import BLACK, BLUE, GREY, SERIES, VERMILION, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.messages import _

DRAWS = 100
LARGEST_BATCH = 128


@house_style
def batch_noise_panel(seed: int = 0) -> Panel:
    """Return a panel: what batch norm and layer norm make of one fixed sample in 100 random batches of size B.

    On the left the deviation of the batch mean over those batches, and the law 1/√B.
    """
    generator = torch.Generator().manual_seed(seed)
    mates = torch.randn(LARGEST_BATCH, DRAWS, FEATURES, generator=generator, dtype=torch.float64)
    sample = torch.tensor([1.0, -0.5, 0.25, -1.0], dtype=torch.float64)
    sizes = 2 ** np.arange(0, LARGEST_BATCH.bit_length())

    def spread(size: int) -> float:
        return mates[:size].mean(dim=0).std(dim=0).square().mean().sqrt().item()

    figure, (law_ax, out_ax) = new_figure(8.6, 3.0, columns=2, width_ratios=(1, 1.5))
    law_ax.set_xscale("log", base=2)
    law_ax.set_yscale("log")
    law_ax.set_xlim(0.8, 1.3 * LARGEST_BATCH)
    law_ax.set_ylim(0.05, 2)
    law_ax.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
    law_ax.set_yticks([0.1, 0.3, 1], ["0.1", "0.3", "1"])
    law_ax.minorticks_off()
    law_ax.set_xlabel(_("batch size B"))
    law_ax.set_ylabel(_("deviation / σ"))
    law_ax.set_title(_("deviation of the batch mean"))
    law_ax.plot(sizes, sizes**-0.5, color=GREY, linestyle=":")
    law_ax.plot(sizes, [spread(int(size)) for size in sizes], color=BLUE, marker="o", linestyle="")
    law_ax.text(3.2, 0.75, "1/√B", color=GREY)
    (mark,) = law_ax.plot([], [], color=BLACK, marker="o", markersize=13, markerfacecolor="none", linestyle="")
    out_ax.set_xlim(-1, DRAWS)
    out_ax.set_ylim(-1.7, 3.2)
    out_ax.set_yticks(range(-1, 4))
    out_ax.set_ylabel(_("output y₁"))
    out_ax.set_xlabel(_("draw of the batch-mates"))
    out_ax.set_title(_("output of one fixed sample (feature 1)"))
    draws = np.arange(DRAWS)
    (batch,) = out_ax.plot([], [], **{**SERIES[1], "linestyle": ""}, label=_("batch norm"))
    (layer,) = out_ax.plot([], [], color=BLUE, label=_("layer norm"))
    refusal = out_ax.text(DRAWS / 2, -0.5, "", ha="center", color=VERMILION)
    out_ax.legend(loc="lower right", ncols=2, borderaxespad=0)

    def update(B: int, value: float, mode: str) -> str:
        token = sample.clone()
        token[0] = value
        together = mates[:B].clone()
        together[0] = token
        alone = F.layer_norm(together[0], (FEATURES,))[:, 0]
        layer.set_data(draws, alone)
        mark.set_data([B], [spread(B)])
        try:
            # One channel for each draw and feature: all the batches in one call.
            channels = together.flatten(1)
            outputs = F.batch_norm(channels, *running(channels.shape[1]), training=mode == "train")[0]
        except ValueError as error:
            batch.set_data([], [])
            refusal.set_text(_("batch norm refuses B = 1"))
            said = _('batch norm refuses: "{error}"').format(error=str(error).split(",")[0])
        else:
            outputs = outputs.reshape(DRAWS, FEATURES)[:, 0]
            batch.set_data(draws, outputs)
            refusal.set_text("")
            low, high = outputs.min().item(), outputs.max().item()
            said = _("batch norm gives the sample's feature 1 anything from {low} to {high}, deviation {std}")
            if low == high:
                said = _("batch norm's running statistics (mean 0, variance 1) give {low}, the same each time")
            said = said.format(low=fixed(low), high=fixed(high), std=short(outputs.std().item(), 2))
        same = bool((alone == alone[0]).all())
        return _(
            "B = {B}, feature 1 of the sample is {value:.2f}. Deviation of the batch mean {mean:.2f} "
            "(1/√B = {law:.2f}). Over {draws} draws of batch-mates {said}; layer norm gives {layer}, {constant}."
        ).format(
            B=B,
            value=value,
            mean=spread(B),
            law=B**-0.5,
            draws=DRAWS,
            said=said,
            layer=fixed(alone[0].item()),
            constant=_("the same bits each time") if same else _("not the same each time"),
        )

    return Panel(
        title=_("One sample, a hundred batches"),
        try_this=_(
            "Predict: how many batch-mates does it take to halve the noise? Drag B. Go down to 2, then to 1. "
            "Is the noise gone in evaluation mode, and what is it that batch norm uses there?"
        ),
        controls={
            "B": slider(_("batch size B"), 8, 1, LARGEST_BATCH, whole=True),
            "value": slider(_("the sample's feature 1"), 1, 0, 2, 0.05),
            "mode": choice(_("batch norm in mode"), [(_("training"), "train"), (_("evaluation"), "eval")], "train"),
        },
        canvas=LiveCanvas(figure, [mark, batch, layer, refusal]),
        update=update,
    )
