"""What leaks: padding that should not be there, and tokens that have not come yet."""

import numpy as np
import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.cells import cells, paint
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.eight_norms import BATCH, FEATURES, NORMS
from addnorm_lib.course.figures.numbers import fixed
from addnorm_lib.course.figures.style import ORANGE, SKY, house_style, new_figure
from addnorm_lib.course.panels.canvas import LiveCanvas
from addnorm_lib.course.panels.panel import Panel, choice, slider
from addnorm_lib.messages import _

LENGTH = 6
LEAKING = ("batch", "batch, eval", "layer", "layer of a sequence")


@house_style
def leak_panel(seed: int = 0) -> Panel:
    """Return a panel: which tokens' outputs move when padding, or one later token, changes in a (2, 6, 4) batch.

    Either token j of sequence 0 changes, by a times a fixed random vector, or all from token j on are padding that
    changes from 0 to a times that vector. Each cell says by how much the token's output moves (the largest of its
    features).
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(BATCH, LENGTH, FEATURES, generator=generator, dtype=torch.float64)
    direction = torch.randn(FEATURES, generator=generator, dtype=torch.float64)

    figure, axes = new_figure(8.6, 3.2, rows=2, columns=2)
    boxes, texts = [], []
    for key, ax in zip(LEAKING, axes.flat, strict=True):
        grid = cells(ax, BATCH, LENGTH, empty="0")
        boxes.append(grid[0])
        texts.append(grid[1])
        ax.set_title(_(NORMS[key][0]))
        ax.set_yticks(range(BATCH), [f"b = {b}" for b in range(BATCH)])
    for ax in axes[1]:
        ax.set_xlabel(_("token t"))
    figure.supxlabel(
        _("number: the largest |change| of that token's outputs; bold frame: its input changed; hatched: a leak"),
        fontsize=10,
    )

    def update(what: str, j: int, a: float) -> str:
        before, after = tokens.clone(), tokens.clone()
        changed = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        if what == "padding":
            changed[0, j:] = True
            before[changed] = 0
            after[changed] = a * direction
            watched = ~changed
        else:
            changed[0, j] = True
            after[0, j] += a * direction
            watched = torch.zeros_like(changed)
            watched[0, :j] = True
        verdicts = []
        for key, shown, words in zip(LEAKING, boxes, texts, strict=True):
            name, function = NORMS[key]
            moved = (function(after) - function(before)).abs().amax(dim=-1)
            for index, box, text in zip(np.ndindex(changed.shape), shown, words, strict=True):
                leak = bool(moved[index] > 0 and not changed[index])
                colour = ORANGE if leak else SKY if changed[index] else "white"
                paint(box, colour, hatched=leak, bold=bool(changed[index]))
                text.set_text("0" if moved[index] == 0 else f"{moved[index].item():.2f}")
                text.set_visible(box.get_visible())
            most = moved[watched].max().item()
            most_text = f"{most:.2f}" if most else _("exactly 0")
            verdicts.append(_("{most} under {norm}").format(most=most_text, norm=_(name)))
        told = (
            _("The padding (tokens {j} to {last} of sequence 0) changes from 0 to size {a}: real tokens move by up to")
            if what == "padding"
            else _("Token {j} of sequence 0 changes by {a}: the tokens before it move by up to")
        )
        return f"{told.format(j=j, last=LENGTH - 1, a=fixed(a))} {'; '.join(verdicts)}."

    return Panel(
        title=_("What leaks: padding, and the future"),
        try_this=_(
            "Predict: under which norms do the tokens before j feel the change? Then choose padding: who feels what "
            "should not be there at all?"
        ),
        controls={
            "what": choice(_("what changes"), [(_("one token"), "token"), (_("padding"), "padding")], "token"),
            "j": slider(_("position j"), 4, 1, LENGTH - 1, whole=True),
            "a": slider(_("size a of the change"), 2, -5, 5, 0.25),
        },
        canvas=LiveCanvas(figure, [artist for group in (*boxes, *texts) for artist in group]),
        update=update,
        rows=[("j", "a")],
    )
