"""1.2: a projection shortcut, for an F that changes the width."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal, sine


def projected_block(x, branch, weight):
    """Return y = W_s x + F(x) for every row of x (N, D_in); `weight` is W_s (D_out, D_in), F(x) is (N, D_out)."""
    return x @ weight.T + branch(x)


def _cases():
    widen = Shown(lambda z: torch.cat([z, z[:, :1]], dim=1) / 2, "z ↦ [z, z₀]/2")
    narrow = Shown(lambda z: z[:, :1] ** 2, "z ↦ z₀²")
    square_weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    return [
        (torch.tensor([[1.0, 2.0]], dtype=torch.float64), sine, square_weight),
        (torch.tensor([[1.0, 2.0]], dtype=torch.float64), narrow, torch.tensor([[3.0, 1.0]], dtype=torch.float64)),
        (normal(3, 2), widen, normal(3, 2, seed=1)),
    ]


def _pad_or_cut(x, branch, weight):
    y = branch(x)
    shared = min(x.shape[1], y.shape[1])
    y[:, :shared] += x[:, :shared]
    return y


MISTAKES = """
no transpose: weight.T → weight
    Is W_s transposed? Its shape is (D_out, D_in), and the rows of x have length D_in.
no projection: @ weight.T →
    Where is W_s? Without it x keeps the width D_in, or is broadcast.
the branch alone: return branch(x)
    Has the shortcut been dropped where the widths differ? W_s x belongs in the sum.
projected branch input: branch(x) → branch(x @ weight.T)
    Does F read the projected x? Only the shortcut is projected, F reads x itself.
padded or cut: def _pad_or_cut
    Is x padded or cut to fit? That keeps some coordinates and drops others; here W_s decides.
"""

HINTS = """
F(x) has width D_out already. Which matrix takes a row of x from D_in to D_out?
For rows, W_s x is written x @ weight.T.
"""

EXERCISE = exercise(__doc__, projected_block, _cases, MISTAKES, HINTS, claims="A2")
