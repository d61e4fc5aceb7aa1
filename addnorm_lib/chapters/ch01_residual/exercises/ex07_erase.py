"""1.7: an F that erases a subspace."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal


def erase(x, direction):
    """Return F(x) such that x + F(x) has no component along `direction`, and every other component is kept.

    x is (N, D); direction is (D,), not zero, of any length.
    """
    unit = direction / direction.norm()
    return -(x @ unit)[:, None] * unit


def _cases():
    return [
        (torch.tensor([[3.0, 1.0]], dtype=torch.float64), torch.tensor([2.0, 0.0], dtype=torch.float64)),
        (torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)),
        (normal(4, 5), normal(5, seed=1)),
    ]


MISTAKES = """
direction not normalised: / direction.norm() →
    Does the direction have length 1? A longer one is overshot: the component changes sign instead.
normalised once: x @ unit → x @ direction
    Is the length divided out once? The direction enters twice, in x·u and in u.
plus: -(x @ → (x @
    Is the sign right? Adding the component doubles it.
everything: return -x
    Is all of x erased? The other components must be kept.
the sum instead of F: return → return x +
    Is this x + F(x)? Return the branch F(x) alone; the block adds x.
"""

HINTS = """
How long is x's shadow on the unit vector u? It is x·u.
Take that shadow away: F(x) = −(x·u) u with u = direction / ‖direction‖.
"""

EXERCISE = exercise(__doc__, erase, _cases, MISTAKES, HINTS, claims="B8")
