"""4.5: find the bug: dropout in the wrong place."""

import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, layer_norm, turn
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal


def pre_ln_with_dropout(x, sublayer, norm, dropout):
    """Return a Pre-LN block's output for x (..., D); `dropout` thins out what the branch F = `sublayer` adds."""
    return x + dropout(sublayer(norm(x)))


class _Masks:
    """Dropout at p = 1/2 without chance: it keeps elements 1, 3, … at its first call, 2, 4, … at its second."""

    def __init__(self):
        self.calls = 0

    def __call__(self, z):
        kept = torch.arange(z.shape[-1]) % 2 == self.calls % 2
        self.calls += 1
        return 2 * z * kept

    def __repr__(self):
        return "z ↦ 2·(z₁, 0, z₃, …), the first mask for p = 1/2"


def _cases():
    everything = Shown(torch.zeros_like, "z ↦ 0 (p = 1)")
    plus_square = Shown(lambda z: 1 + z**2, "z ↦ 1 + z²")
    return [
        (torch.tensor([1.0, 2.0, 3.0]), plus_square, layer_norm, everything),
        (torch.tensor([1.0, 2.0, 6.0]), turn, layer_norm, _Masks()),
        ((1 + 2 * normal(2, 4)).float(), plus_square, layer_norm, _Masks()),
    ]


MISTAKES = """
on the shortcut: return dropout(x) + sublayer(norm(x))
    Is dropout on the shortcut? A dropped element of x is lost to all blocks that follow.
on both: x + → dropout(x) +
    Is dropout on both summands? That is little better than on the sum: x must stay whole.
on the branch's input: return x + sublayer(dropout(norm(x)))
    Is dropout on what F reads? It belongs behind F: with p = 1 the block must return x.
before the norm: return x + sublayer(norm(dropout(x)))
    Is dropout before the norm? The norm's statistics then count the holes; it belongs behind F.
before and after F: return x + dropout(sublayer(dropout(norm(x))))
    Is dropout applied twice? Once, to what F returns.
no dropout: return x + sublayer(norm(x))
    Has dropout gone? It stays in the block, but not on the sum.
Post-LN: return norm(x + dropout(sublayer(x)))
    Has the norm moved to the sum? Dropout is now right; the block was Pre-LN and stays so.
the shortcut taken after the norm: x + → norm(x) +
    Does the shortcut carry LN(x)? Dropout is now right, but x itself must go around the norm.
no norm: norm(x) → x
    Where has the norm gone? F still reads LN(x).
no shortcut: x + →
    Where has x gone? The block still adds it.
on the branch and on the sum: return dropout(x + dropout(sublayer(norm(x))))
    Is dropout still on the sum, too? Once, to what F returns: x must stay whole.
a dropout of one's own, p = 0.5: dropout( → torch.nn.functional.dropout(
    Is that PyTorch's dropout with p = 0.5? Call the one that is handed in: dropout(…).
a dropout of one's own, p = 0.1: return x + torch.nn.functional.dropout(sublayer(norm(x)), 0.1)
    Is that PyTorch's dropout with p = 0.1? Call the one that is handed in: dropout(…).
behind another norm: return x + norm(dropout(sublayer(x)))
    Is there a norm between dropout and the sum? The norm stays before F.
branch norm: return x + dropout(norm(sublayer(x)))
    Has the norm moved behind F? Dropout is now right; F still reads LN(x).
"""

HINTS = """
Let dropout erase everything (p = 1). What should the block return then, and what does it return?
x must reach the output whole, so dropout acts on F's output before the sum.
"""

EXERCISE = exercise(
    __doc__,
    pre_ln_with_dropout,
    _cases,
    MISTAKES,
    HINTS,
    claims="D1",
    starter="x + dropout(sublayer(norm(x))) → dropout(x + sublayer(norm(x)))",
    **FLOAT32,
)
