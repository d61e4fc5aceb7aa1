"""6.4: the two row sums of backward."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal, vector


def layer_norm_dx(dy, xhat, rstd, weight):
    """Return the gradient (M, D) of LayerNorm's input from dy and x̂, both (M, D), rstd (M,) and weight (D,).

    With wdy = weight * dy it needs two numbers a row, c1 = mean(x̂ * wdy) and c2 = mean(wdy).
    """
    wdy = weight * dy
    c1 = (xhat * wdy).mean(1, keepdim=True)
    c2 = wdy.mean(1, keepdim=True)
    return (wdy - (xhat * c1 + c2)) * rstd[:, None]


def _cases():
    xhat, weight = vector(-1.0, 1.0, -1.0, 1.0)[None], vector(1.0, 1.0, 1.0, 2.0)
    two = torch.cat([xhat, vector(1.0, 1.0, -1.0, -1.0)[None]])
    return [
        (vector(8.0, 0.0, 0.0, 2.0)[None], xhat, vector(0.5), weight),  # c1 = −1, c2 = 3
        (torch.stack([vector(8.0, 0.0, 0.0, 2.0), vector(0.0, 4.0, 0.0, 0.0)]), two, vector(0.5, 2.0), weight),
        (normal(2, 3), *_normed(normal(2, 3, seed=1)), 1 + normal(3, seed=2)),
        (normal(4, 4, seed=3), *_normed(3 * normal(4, 4, seed=4)), normal(4, seed=5)),
    ]


def _normed(s, eps=1e-5):
    rstd = (s.var(1, correction=0) + eps).rsqrt()
    return (s - s.mean(1, keepdim=True)) * rstd[:, None], rstd


MISTAKES = """
c1 left out: xhat * c1 + c2 → c2
    Is c1 missing? rstd depends on the input too: that is the term x̂ · c1.
c2 left out: c1 + c2 → c1
    Is c2 missing? The mean depends on the input too: that is the term c2.
statistics held constant: - (xhat * c1 + c2) →
    Are mean and rstd treated as constants? Both depend on the input.
sums: every .mean( → .sum(
    Are c1 and c2 sums? They are means: divide by D.
no weight: weight * →
    Is γ left out? Everything here is in terms of γ · dy.
weight at the end: weight * →; return → return weight *
    Is γ multiplied at the end? It belongs inside the means: c1 and c2 are those of γ · dy.
no rstd: * rstd[:, None] →
    Is rstd missing? Forward multiplies by it, so does this.
divided by rstd: * rstd → / rstd
    Is this divided by rstd? rstd is 1/σ already: multiply.
plus c2: c1 + c2 → c1 - c2
    Is c2 added? Both terms are taken off.
over the rows: every mean(1, → mean(0,
    Are the means taken over the rows? Each row has its own c1 and c2.
c1 and c2 swapped: xhat * c1 + c2 → xhat * c2 + c1
    Are c1 and c2 swapped? x̂ goes with c1, the mean of x̂ · wdy.
c1 without x̂: xhat * c1 → c1
    Is x̂ missing before c1? The term is x̂ · c1, different in each column.
x̂ on both: c1 + c2 → (c1 + c2)
    Is x̂ multiplied on both? Only on c1: x̂ · c1 + c2.
plus c1: - (xhat * c1 + c2) → + xhat * c1 - c2
    Is x̂ · c1 added? Both terms are taken off.
plus both: wdy - → wdy +
    Are both terms added? Both are taken off.
negative: wdy - (xhat * c1 + c2) → xhat * c1 + c2 - wdy
    Is the sign upside down? It is wdy less the two terms.
means of dy: xhat * wdy → xhat * dy; wdy.mean → dy.mean
    Are both means taken of dy? They are of wdy = weight * dy.
c1 of dy: xhat * wdy → xhat * dy
    Is c1 the mean of x̂ · dy? It is that of x̂ · wdy.
c2 of dy: wdy.mean → dy.mean
    Is c2 the mean of dy? It is that of wdy.
dy less the terms: wdy - → dy -
    Is the first term dy? It is wdy, as in the means.
weight twice: return → return weight *
    Is γ multiplied twice? It is in wdy already.
rstd squared: rstd[:, None] → rstd[:, None] ** 2
    Is rstd multiplied twice? x̂ holds one already; the gradient needs one.
rstd on wdy alone: (wdy - (xhat * c1 + c2)) * rstd[:, None] → wdy * rstd[:, None] - (xhat * c1 + c2)
    Is only wdy multiplied by rstd? All three terms are.
one mean for all rows: every mean(1, keepdim=True) → mean()
    Is one mean taken over the whole tensor? Each row has its own c1 and c2.
divided by D − 1: every mean(1, keepdim=True) → sum(1, keepdim=True) / (dy.shape[1] - 1)
    Are the sums divided by D − 1? c1 and c2 are means over D elements.
"""

HINTS = """
First wdy = weight * dy. Then two means along a row, keepdim=True.
dx = (wdy − (x̂ · c1 + c2)) · rstd, with rstd[:, None].
"""

EXERCISE = exercise(__doc__, layer_norm_dx, _cases, MISTAKES, HINTS, claims="F5")
