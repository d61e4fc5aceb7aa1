"""1.5: measure a branch, and predict how deep ≈ I holds."""

import math

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal, sine


def identity_depth(branch, x, deviation):
    """Return the largest whole L (0 if none) for which √((1 + s²)^L − 1) ≤ `deviation`: so many blocks stay near I.

    An experiment: measure the gain s = ‖J‖_F / √D of `branch` at x (D,), with torch.func.jacrev; s is not zero.
    """
    jacobian = torch.func.jacrev(branch)(x)
    gain = jacobian.norm() / math.sqrt(len(x))
    return math.floor(math.log(1 + deviation**2) / math.log(1 + float(gain) ** 2))


def _cases():
    tenth = Shown(lambda z: z / 10, "z ↦ z/10")
    first = Shown(lambda z: z[0] * torch.ones_like(z) / 3, "z ↦ (z₀/3, …, z₀/3)")
    weight = 0.05 * normal(16, 16, seed=3)
    network = Shown(lambda z: weight @ torch.tanh(z), "z ↦ W tanh z")
    ones = torch.ones(2, dtype=torch.float64)
    return [(tenth, ones, 1.0), (first, ones, 0.9), (network, normal(16), 0.5), (sine, normal(8), 30.0)]


MISTAKES = """
√D forgotten: / math.sqrt(len(x)) →
    Is ‖J‖_F divided by √D? The identity itself has ‖I‖_F = √D: s compares the two.
spectral norm: jacobian.norm() / math.sqrt(len(x)) → torch.linalg.matrix_norm(jacobian, ord=2)
    Is this the largest singular value? s is the root mean square of them all, ‖J‖_F / √D.
rounded up: math.floor → math.ceil
    Is the depth rounded up? At that depth the deviation is past the limit already.
linear: math.log(1 + deviation**2) / math.log(1 + float(gain) ** 2) → deviation / float(gain)
    Do the deviations add up block by block? Independent ones add in squares, and they compound.
first order: math.log(1 + deviation**2) / math.log(1 + float(gain) ** 2) → deviation**2 / float(gain) ** 2
    Is √(L·s²) used? That is the first order only; (1 + s²)^L grows faster.
"""

HINTS = """
torch.func.jacrev(branch)(x) gives J; s = J.norm() / √D.
Solve (1 + s²)^L − 1 = deviation² for L with logarithms, then round down.
"""

EXERCISE = exercise(__doc__, identity_depth, _cases, MISTAKES, HINTS, claims="B6")
