"""1.8: an F that can erase nothing."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, half, normal


def invert_block(y, branch, n_steps):
    """Return x with x + F(x) = y, found by n_steps rounds of x ← y − F(x), begun at x = y (no round: y).

    It converges wherever F shrinks distances (a Lipschitz constant below 1): such a branch erases nothing.
    """
    x = y
    for _step in range(n_steps):
        x = y - branch(x)
    return x


def _cases():
    gentle = Shown(lambda z: 0.5 * torch.sin(z), "z ↦ ½ sin z")
    flip = Shown(lambda z: -z / 2, "z ↦ −z/2")
    vector = torch.tensor([1.0, 2.0], dtype=torch.float64)
    return [(vector, half, 1), (vector, half, 2), (vector, flip, 30), (normal(3, 4), gentle, 50), (vector, gentle, 0)]


MISTAKES = """
a single step: return y - branch(y)
    Is that one step only? y − F(y) uses F at y, but the equation has F at x: repeat with the better x.
plus: y - branch → y + branch
    Is the sign right? Solve x + F(x) = y for the x that stands alone.
subtracting again and again: y - branch → x - branch
    Does each round begin from y? x − F(x) takes the branch off again and again; y − F(x) takes it once.
F at y in every round: branch(x) → branch(y)
    Does F read the newest x? y − F(y) is the same in every round.
begun at zero: x = y for → x = torch.zeros_like(y) ⏎ for
    Does the loop begin at x = y? It converges from elsewhere too, but not in the same steps.
"""

HINTS = """
Write the equation as x = y − F(x) and read it as an instruction.
Begin with x = y; in each of n_steps rounds compute y − branch(x) and call it x.
"""

EXERCISE = exercise(__doc__, invert_block, _cases, MISTAKES, HINTS, claims="B8 B7")
