"""6.2: write the forward kernel."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal
from addnorm_lib.microscope import tiles as tl


def forward_tile(pid, x, residual, M, D, eps, BM, BN):
    """Return the tile (BM, BN) of LayerNorm(x + residual), without weight and bias, that program `pid` has to store.

    x and residual point to M × D elements, row after row; the program's rows begin at pid * BM. BN is a power of two,
    at least D. Nothing from row M or column D on may be loaded; there the tile is 0. Use tl.arange, tl.load, tl.sum,
    tl.where and tl.rsqrt, as in Triton.
    """
    rows = pid * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < D)[None, :]
    at = rows[:, None] * D + cols[None, :]
    s = tl.load(x + at, mask, other=0) + tl.load(residual + at, mask, other=0)
    mean = tl.sum(s, 1) / D
    centred = tl.where(mask, s - mean[:, None], 0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    return centred * rstd[:, None]


def _cases():
    ramp = torch.arange(1.0, 5.0).reshape(2, 2)
    short = torch.tensor([[4.0, 1.0, 1.0], [2.0, 0.0, 4.0], [0.0, 1.0, 2.0]])
    one, two = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[0.0, 1.0, 2.0]])
    return [
        (1, _pointer(ramp), _pointer(2 * ramp), 2, 2, 4.0, 1, 2),  # x + residual = (9, 12): ± 1.5 / √(2.25 + 4)
        (0, _pointer(one), _pointer(two), 1, 3, 1.0, 1, 4),
        (1, _pointer(short), _pointer(2 * short), 3, 3, 3.0, 2, 4),  # row 2: (0, 3, 6), variance 6, so (−1, 0, 1)
        (1, _pointer(normal(3, 5)), _pointer(normal(3, 5, seed=1)), 3, 5, 1e-5, 2, 8),
        (2, _pointer(3 + normal(6, 7, seed=2)), _pointer(normal(6, 7, seed=3)), 6, 7, 0.1, 2, 16),
        (0, _pointer(normal(4, 8, seed=4)), _pointer(normal(4, 8, seed=5)), 4, 8, 1e-5, 4, 8),
    ]


def _pointer(values):
    return tl.Pointer(values.float())


MISTAKES = """
residual left out: + tl.load(residual + at, mask, other=0) →
    Is the residual left out? The kernel normalises the sum.
ε outside the root: tl.rsqrt(tl.sum(centred * centred, 1) / D + eps) →
        1 / (torch.sqrt(tl.sum(centred * centred, 1) / D) + eps)
    Is ε outside the root? It is added to the variance: rsqrt(var + ε).
no root: tl.rsqrt( → 1 / (
    Is the root missing? Divide by √(var + ε), not by var + ε.
root instead of its inverse: tl.rsqrt( → torch.sqrt(
    Is the tile multiplied by the root? rsqrt is 1 / √.
RMSNorm: s - mean[:, None] → s
    Is the mean not taken off? That is RMSNorm.
one mask: tl.where(mask, s - mean[:, None], 0) → s - mean[:, None]; centred * rstd[:, None] →
        tl.where(mask, centred * rstd[:, None], 0)
    Is s − mean masked? A masked lane holds 0 in s, −mean after the subtraction, and its square counts.
one mask, and the padding returned: tl.where(mask, s - mean[:, None], 0) → s - mean[:, None]
    Is s − mean masked? Masked lanes hold −mean, which counts in the variance and comes out in the tile.
no other: every , other=0 →
    Is `other` missing in tl.load? Masked lanes then hold anything (here: NaN); other=0 makes them 0.
no other, masked at the end: every , other=0 →; centred * rstd[:, None] → tl.where(mask, centred * rstd[:, None], 0)
    Is `other` missing in tl.load? Masked lanes then hold anything, and the mean sums them: other=0.
columns not masked: cols < D → cols >= 0
    Are the columns beyond D masked? There the tile runs into the next row, and off the tensor's end.
rows not masked: rows < M → rows >= 0
    Are the rows beyond M masked? The last program may have fewer than BM rows.
divided by BN: every / D → / BN
    Are mean and variance divided by BN? Only D of the lanes hold data.
unbiased: centred, 1) / D → centred, 1) / (D - 1)
    Is the variance divided by D − 1? LayerNorm's is divided by D.
sum instead of mean square: centred, 1) / D → centred, 1)
    Is the variance a sum? Divide it by D.
rows BN apart: * D → * BN
    Are rows taken to be BN elements apart? In memory they are D apart; BN is the tile's width.
rows from pid: pid * BM → pid
    Do the rows begin at pid? Each program has BM rows, so they begin at pid * BM.
always the first rows: pid * BM + →
    Is pid left out? Every program would do the first program's rows.
padding returned: return centred → return (s - mean[:, None])
    Does the tile hold −mean · rstd beyond D? There it has to be 0: return the masked s − mean times rstd.
mean over BN: tl.sum(s, 1) / D → tl.sum(s, 1) / BN
    Is the mean divided by BN? Only D of the lanes hold data.
variance over BN: centred, 1) / D → centred, 1) / BN
    Is the variance divided by BN? Only D of the lanes hold data.
no ε: + eps →
    Is ε left out? It is added to the variance: rsqrt(var + ε).
ε after the root: / D + eps) → / D) + eps
    Is ε added after rsqrt? It belongs inside: rsqrt(var + ε).
residual added after the norm: + tl.load(residual + at, mask, other=0) →; rstd[:, None] →
        rstd[:, None] + tl.load(residual + at, mask, other=0)
    Is the residual added after the norm? Add first, then normalise the sum.
x twice: residual → x
    Is x loaded twice? The second load is from residual.
difference: other=0) + → other=0) -
    Is the residual taken off? It is added.
"""

HINTS = """
Four lines of addresses: rows, cols, mask, at = rows[:, None] * D + cols[None, :]. Then load and add.
mean = tl.sum(s, 1) / D. Then mask again: centred = tl.where(mask, s - mean[:, None], 0).
rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps), one a row: rstd[:, None].
"""

EXERCISE = exercise(__doc__, forward_tile, _cases, MISTAKES, HINTS, claims="F9 F1", rtol=1e-4, atol=1e-5)
