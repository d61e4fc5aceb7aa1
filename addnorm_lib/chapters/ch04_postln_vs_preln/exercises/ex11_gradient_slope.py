"""4.11: an experiment: how the last layer's gradient depends on the depth."""

import numpy as np
import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.stack_loss import stack_loss
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, vector


def gradient_slope(loss_at, depths):
    """Return the slope of ln‖∂loss/∂W‖ against ln(depth), by least squares, as a float.

    An experiment: `loss_at(L)` returns (loss, W) of a new net with L layers: a scalar loss, and a weight W of its last
    layer, which requires a gradient. ‖·‖ is the root of the sum of squares of all elements. Predict before you
    measure: a gradient that does not depend on the depth has slope 0, one that falls as 1/√L has slope −1/2.
    """
    norms = []
    for depth in depths:
        loss, weight = loss_at(depth)
        (gradient,) = torch.autograd.grad(loss, weight)
        norms.append(gradient.norm().item())
    x = torch.tensor(depths, dtype=torch.float64).log()
    y = torch.tensor(norms, dtype=torch.float64).log()
    x = x - x.mean()
    return (x @ y / (x @ x)).item()


def _power(exponent, *weight):
    """Return loss_at with ∂loss/∂W = L^exponent · W, W of its own sign in each element."""

    def loss_at(depth):
        leaf = vector(*weight).requires_grad_()
        return (leaf**2).sum() / 2 * depth**exponent, leaf

    return Shown(loss_at, f"L ↦ (L^{exponent}·‖W‖²/2, W)")


def _bent():
    """Return loss_at whose gradient is no power of the depth, and turns its direction with it."""

    def loss_at(depth):
        leaf = vector(1.0, -2.0, 0.5).requires_grad_()
        return (leaf.sin() * vector(1.0, 0.1 * depth, depth**0.5)).sum(), leaf

    return Shown(loss_at, "L ↦ (Σ cᵢ(L)·sin Wᵢ, W)")


def _cases():
    return [  # with losses above 0, so that whoever fits the loss can take its logarithm
        (_power(-0.5, 1.0, -2.0), [1, 4, 16]),
        (_power(1, 3.0, -1.0), [2, 4, 8]),
        (_bent(), [2, 3, 9, 20]),
        (stack_loss("post", seed=53, d_model=16, nets=4), [2, 4, 8, 16]),
        (stack_loss("pre", seed=53, d_model=16, nets=4), [2, 4, 8, 16]),
    ]


def _line(x, y):
    """Return slope and intercept of the line fitted to the points."""
    return np.polyfit(x, y, 1).tolist()


MISTAKES = """
no logarithms: every .log() →
    Is the line fitted to the numbers themselves? A power of L is a line only in ln against ln.
the gradient's logarithm alone: depths, dtype=torch.float64).log() → depths, dtype=torch.float64)
    Is only the gradient's logarithm taken? That fits an exponential in L; take ln L, too.
the depth's logarithm alone: norms, dtype=torch.float64).log() → norms, dtype=torch.float64)
    Is only the depth's logarithm taken? Take the gradient's, too.
two bases: depths, dtype=torch.float64).log() → depths, dtype=torch.float64).log2()
    Are there two bases, log₂ and ln? The slope is the exponent only where both are the same.
base ten: norms, dtype=torch.float64).log() → norms, dtype=torch.float64).log10()
    Are there two bases, ln and log₁₀? The slope is the exponent only where both are the same.
squared norm: gradient.norm() → (gradient**2).sum()
    Is the norm's root missing? A squared norm has twice the slope.
largest element: gradient.norm() → gradient.abs().max()
    Is that the largest element of the gradient? ‖·‖ is the root of the sum of all squares.
mean size: gradient.norm() → gradient.abs().mean()
    Is that the mean of the absolute values? ‖·‖ is the root of the sum of all squares.
signs cancel: gradient.norm() → gradient.sum().abs()
    Is the gradient summed with its signs? They cancel; take the norm.
the ends alone: (x @ y / (x @ x)) → ((y[-1] - y[0]) / (x[-1] - x[0]))
    Is the slope taken from the first and the last depth alone? A fit uses all of them.
step by step: (x @ y / (x @ x)) → (y.diff() / x.diff()).mean()
    Is that the mean of the slopes between neighbours? Least squares fits one line to all points.
axes exchanged: tensor(depths → tensor(norms; tensor(norms → tensor(depths
    Are the axes exchanged? The gradient is y, the depth is x.
through the origin: x = x - x.mean() →
    Is the line forced through the origin? Take the mean off ln(depth) first, or fit an intercept.
the intercept: x = x - x.mean() → return _line(x, y)[1]
    Is that the intercept? np.polyfit returns the slope first.
slope and intercept: x = x - x.mean() → return _line(x, y)
    Are these slope and intercept? np.polyfit returns both, the slope first: take [0].
the sign dropped: (x @ y / (x @ x)) → abs(x @ y / (x @ x))
    Is the sign dropped? A gradient that falls with the depth has a negative slope.
the sign turned: x @ y → -x @ y
    Is the sign turned? A gradient that falls with the depth has a negative slope.
correlation: (x @ y / (x @ x)) → (x @ y / (x.norm() * (y - y.mean()).norm()))
    Is that the correlation? It says how straight the line is, not how steep.
the prediction: return -0.5
    Is that the prediction itself? Measure the slope of the loss_at that is handed in.
the weight's norm: gradient.norm() → weight.norm()
    Is that the norm of W itself? Its gradient is wanted: torch.autograd.grad(loss, W).
the loss: gradient.norm() → loss.abs()
    Is that the loss's slope? The gradient of the loss is wanted.
"""

HINTS = """
First the list of norms: (g,) = torch.autograd.grad(loss, weight), then g.norm().item().
A line through ln(norm) against ln(depth): np.polyfit(np.log(depths), np.log(norms), 1)[0].
"""

EXERCISE = exercise(__doc__, gradient_slope, _cases, MISTAKES, HINTS, claims="D2", rtol=1e-4, atol=1e-4)
