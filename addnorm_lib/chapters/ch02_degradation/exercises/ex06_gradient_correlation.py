"""2.6: an experiment: how alike are the gradients?."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal


def gradient_correlation(function, x):
    """Return the mean cosine between ∂f/∂x_a and ∂f/∂x_b over all pairs a ≠ b of the rows of x (B, D).

    An experiment: `function` maps x (B, D) to (B,), row by row. Let autograd measure each row's gradient. Return a
    float; B is at least 2, and no gradient is zero.
    """
    x = x.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(function(x).sum(), x)
    unit = gradients / gradients.norm(dim=1, keepdim=True)
    cosines = unit @ unit.T
    return ((cosines.sum() - cosines.trace()) / (len(x) * (len(x) - 1))).item()


def _cases():
    weight = normal(4, 4, seed=3)
    squares = Shown(lambda z: (z**2).sum(dim=1) / 2, "z ↦ ½‖z‖²")
    cubes = Shown(lambda z: (z**3).sum(dim=1), "z ↦ Σ z³")
    network = Shown(lambda z: torch.relu(z @ weight).sum(dim=1), "z ↦ Σ relu(z W)")
    pair = torch.tensor([[1.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    return [(squares, pair), (cubes, pair), (cubes, 1 + normal(3, 2)), (network, normal(6, 4))]


MISTAKES = """
each with itself: (cosines.sum() - cosines.trace()) / (len(x) * (len(x) - 1)) → cosines.mean()
    Are the pairs a = b counted? Each has cosine 1 with itself, whatever the network does.
not normalised: / gradients.norm(dim=1, keepdim=True) →
    Are these dot products? A cosine divides by both lengths.
the inputs' cosine: gradients / gradients.norm( → x / x.norm(
    Is this the cosine of the inputs? The question is how alike their gradients are.
absolute values: unit @ unit.T → (unit @ unit.T).abs()
    Are the cosines' signs dropped? Opposed gradients cancel in a batch, and that must show.
centred: unit @ unit.T → torch.corrcoef(gradients)
    Is each gradient's mean taken off? That is Pearson's correlation; a cosine keeps the mean.
divided by B²: len(x) - 1 → len(x)
    Is the mean over all B² entries, zeros on the diagonal counted? There are B(B − 1) pairs a ≠ b.
half: .item() → .item() / 2
    Is each pair added once, but divided by B(B − 1)? The upper triangle holds half as many.
by columns: dim=1, keepdim=True → dim=0
    Is each column divided by its length? A row is one input's gradient: norm(dim=1, keepdim=True).
summed: / (len(x) * (len(x) - 1)) →
    Is this a sum? Divide by the number of pairs, B(B − 1).
"""

HINTS = """
The rows do not mix, so the gradient of function(x).sum() holds every row's own gradient.
Divide each row by its length; G @ G.T holds all cosines. Leave the diagonal out of the mean.
"""

EXERCISE = exercise(__doc__, gradient_correlation, _cases, MISTAKES, HINTS, claims="B12")
