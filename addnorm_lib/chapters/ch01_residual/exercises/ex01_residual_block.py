"""1.1: the residual block."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import half, normal, sine, square, zero


def residual_block(x, branch):
    """Return y = x + F(x), where `branch` is F."""
    return x + branch(x)


def _cases():
    return [
        (torch.tensor([1.0, 2.0]), half),
        (torch.tensor([1.0, 2.0]), zero),
        (torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.5, -1.0]]), square),
        (normal(2, 3, 4), sine),
    ]


MISTAKES = """
the branch alone: return branch(x)
    Where has x gone? This is a plain layer, not a sum.
a copy: return x
    Is F(x) added at all? This block returns x whatever F does.
x twice: return x + x + branch(x)
    Is x added twice? The shortcut carries it once, with factor 1.
composed: return branch(x + branch(x))
    Does the sum pass through F once more? The shortcut goes around F, to the output.
the branch sees the sum: return x + branch(branch(x))
    Is F applied twice? The branch reads x itself.
product: return x * branch(x)
    Is that a product? Add & Norm adds: with F = 0 a product erases x, a sum keeps it.
difference: return x - branch(x)
    Is the sign right? The branch's output is added.
concatenation: return torch.cat([x, branch(x)], dim=-1)
    Is this a concatenation? It keeps x but changes the shape: the next block would not fit.
"""

HINTS = """
The block has two roads from input to output: one around F, one through it.
Call branch(x) once and add its result to x.
"""

EXERCISE = exercise(__doc__, residual_block, _cases, MISTAKES, HINTS, claims="B1")
