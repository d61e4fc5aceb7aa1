"""2.1: the deep copy: layers that change nothing."""

import torch

from addnorm_lib.course.exercises.define import exercise


def copy_weights(width, extra):
    """Return the weights (extra, width, width) of `extra` layers h ← relu(W h) that hand every h ≥ 0 on unchanged."""
    return torch.eye(width).repeat(extra, 1, 1)


def _cases():
    return [(2, 1), (3, 2), (4, 3)]


MISTAKES = """
zeros: return torch.zeros(extra, width, width)
    Are the weights zero? A residual block with F = 0 copies its input; a plain layer erases it.
ones: return torch.ones(extra, width, width)
    Is every entry 1? Then each output is the sum of all inputs.
mean: return torch.full((extra, width, width), 1 / width)
    Is every entry 1/D? Then each output is the mean of all inputs.
He's factor: return → return 2**0.5 *
    Is that √2 times the identity? The factor suits random weights; here relu loses nothing, as h ≥ 0.
twice: return → return 2 *
    Is that twice the identity, to make up for relu? relu loses nothing here, as h ≥ 0.
minus: return → return -
    Is the sign negative? Then relu sets everything to zero.
one matrix: .repeat(extra, 1, 1) →
    Is this one matrix? `extra` of them are wanted, stacked: shape (extra, width, width).
"""

HINTS = """
What is relu(h) when h ≥ 0 already? So what must W h be?
The identity matrix, once for each layer: torch.eye(width), repeated.
"""

EXERCISE = exercise(__doc__, copy_weights, _cases, MISTAKES, HINTS, claims="B3")
