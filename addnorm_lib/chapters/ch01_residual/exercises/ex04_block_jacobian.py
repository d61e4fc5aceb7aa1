"""1.4: the Jacobian of a block."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal, square


def block_jacobian(branch, x):
    """Return the Jacobian ∂y/∂x (D, D) of y = x + F(x) at x (D,); torch.func.jacrev(F)(x) is F's."""
    jacobian = torch.func.jacrev(branch)(x)
    return torch.eye(len(x), dtype=x.dtype) + jacobian


def _cases():
    weight = torch.tensor([[1.0, 2.0], [0.0, -1.0]], dtype=torch.float64)
    linear = Shown(lambda z: weight @ z, "z ↦ [[1, 2], [0, −1]] z")
    mixing = Shown(lambda z: torch.sin(z) * z.roll(1), "z ↦ sin(z)·roll(z)")
    return [
        (linear, torch.tensor([1.0, 2.0], dtype=torch.float64)),
        (square, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)),
        (mixing, normal(4)),
    ]


MISTAKES = """
the branch's Jacobian: torch.eye(len(x), dtype=x.dtype) + →
    Is this the Jacobian of F alone? y also depends on x directly.
one instead of the identity: torch.eye(len(x), dtype=x.dtype) → 1
    Is 1 added to every entry? ∂x/∂x is the identity matrix: ones on the diagonal, zeros elsewhere.
transposed: + jacobian → + jacobian.T
    Is it transposed? Row i, column j holds ∂y_i/∂x_j.
minus: + jacobian → - jacobian
    Is the sign right? The branch is added.
gradient of the sum: return torch.func.grad(lambda z: (z + branch(z)).sum())(x)
    Is this the gradient of the outputs' sum? That is one vector; the Jacobian has a row for each output.
"""

HINTS = """
Differentiate the two roads apart: what is ∂x/∂x?
torch.func.jacrev(branch)(x) is the Jacobian of F; torch.eye(D, dtype=x.dtype) is the identity.
"""

EXERCISE = exercise(__doc__, block_jacobian, _cases, MISTAKES, HINTS, claims="B6")
