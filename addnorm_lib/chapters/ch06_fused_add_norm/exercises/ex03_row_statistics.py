"""6.3: find the bug: mask the tail."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal
from addnorm_lib.microscope import tiles as tl


def row_statistics(s, D, eps):
    """Return (mean, rstd), each (BM,), of tiles `s` (BM, BN) whose first D columns are data and the others 0.

    rstd is 1 / √(variance + eps), the variance in two passes and divided by D.
    """
    mask = tl.arange(0, s.shape[1]) < D
    mean = tl.sum(s, 1) / D
    centred = tl.where(mask[None, :], s - mean[:, None], 0)
    return mean, tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)


def _cases():
    return [
        (torch.tensor([[1.0, 2.0, 3.0, 0.0]]), 3, 1 / 3),  # variance 2/3, so rstd is 1; with the padding it is 2
        (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 4, 0.1),
        (torch.tensor([[0.0, 1.0, 2.0, 0.0]]), 3, 1 / 3),  # a zero that is data
        (torch.tensor([[4096.0, 4097.0, 4098.0, 0.0]]), 3, 1 / 3),  # 4097² is too long for float32
        (_padded(2 + normal(2, 5).float(), 8), 5, 1e-5),
        (_padded(0.01 * normal(3, 9, seed=1).float(), 16), 9, 1e-3),
    ]


def _padded(values, columns):
    return torch.cat([values, values.new_zeros(len(values), columns - values.shape[1])], 1)


MISTAKES = """
everything over BN: every / D → / s.shape[1]; tl.where(mask[None, :], s - mean[:, None], 0) → s - mean[:, None]
    Is everything divided by BN now? Then zeros that are no data pull mean and variance.
the variance over BN: tl.where(mask[None, :], s - mean[:, None], 0) → s - mean[:, None]; centred, 1) / D →
        centred, 1) / s.shape[1]
    Is the variance divided by BN? The padding's squares are still in the sum: mask them instead.
unbiased: centred, 1) / D → centred, 1) / (D - 1)
    Is the variance divided by D − 1? LayerNorm's is divided by D.
mean square: s - mean[:, None] → s
    Is the mean left in? This is the mean square; the variance takes the mean off first.
variance instead of rstd: tl.rsqrt(tl.sum(centred * centred, 1) / D + eps) → tl.sum(centred * centred, 1) / D
    Is the variance returned? rstd is 1 / √(variance + ε).
std instead of rstd: tl.rsqrt( → torch.sqrt(
    Is the standard deviation returned? rstd is its inverse.
ε outside: tl.rsqrt(tl.sum(centred * centred, 1) / D + eps) → 1 / (torch.sqrt(tl.sum(centred * centred, 1) / D) + eps)
    Is ε outside the root? It was right as given.
one pass: tl.sum(centred * centred, 1) / D → tl.sum(s * s, 1) / D - mean * mean
    Is the variance the mean square less mean²? Far from 0 the digits cancel: keep the two passes.
zeros masked: mask[None, :] → s != 0
    Is the mask taken from s != 0? A 0 may be data: the column's number tells, cols < D.
order: return row_statistics(s, D, eps)[::-1]
    Is the order (rstd, mean)? The mean comes first.
no ε: + eps →
    Is ε gone? It is added to the variance, as it was.
ε after the root: / D + eps) → / D) + eps
    Is ε added after rsqrt? It was right as given.
the mean over BN: tl.sum(s, 1) / D → tl.sum(s, 1) / s.shape[1]
    Is the mean divided by BN? The zeros add nothing to the sum, so D is right, as given.
the mean over BN, nothing masked: tl.sum(s, 1) / D → tl.sum(s, 1) / s.shape[1];
        tl.where(mask[None, :], s - mean[:, None], 0) → s - mean[:, None]
    Is the mean divided by BN now? It was right: the bug is in the next line.
masked, and over BN: centred, 1) / D → centred, 1) / s.shape[1]
    Is the masked variance divided by BN? Only D lanes are left in its sum.
one lane too many: < D → <= D
    Does the mask let one lane too many in? The columns of data are 0 … D − 1: cols < D.
one lane too few: < D → < D - 1
    Does the mask leave a lane of data out? The columns of data are 0 … D − 1: cols < D.
mask upside down: < D → >= D
    Is the mask upside down? The columns below D are kept.
"""

HINTS = """
What does a padded lane hold after `s - mean`?
Mask again: tl.where(cols < D, s - mean, 0), with cols = tl.arange(0, s.shape[1]).
"""

EXERCISE = exercise(
    __doc__,
    row_statistics,
    _cases,
    MISTAKES,
    HINTS,
    claims="F9 F4",
    rtol=1e-4,
    atol=1e-5,
    starter="mask = tl.arange(0, s.shape[1]) < D mean → mean; "
    "tl.where(mask[None, :], s - mean[:, None], 0) → s - mean[:, None]",
)
