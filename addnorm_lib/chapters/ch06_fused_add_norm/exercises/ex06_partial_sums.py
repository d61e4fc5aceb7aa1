"""6.6: dγ without atomics: partial sums."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal


def partial_sums(dy, xhat, programs):
    """Return the partial sums (programs, D) of dγ: program p adds up dy * x̂ over its rows p, p + G, p + 2 G, …

    dy and x̂ are (M, D), and G = `programs`, from 1 to M.
    """
    return torch.stack([(dy[p::programs] * xhat[p::programs]).sum(0) for p in range(programs)])


def _cases():
    return [
        (torch.arange(1.0, 7.0).reshape(3, 2), torch.tensor([[1.0, 1.0], [1.0, -1.0], [2.0, 1.0]]), 2),
        (normal(7, 2).float(), normal(7, 2, seed=1).float(), 3),
        (normal(6, 2, seed=2).float(), normal(6, 2, seed=3).float(), 3),
        (normal(4, 3, seed=4).float(), normal(4, 3, seed=5).float(), 4),
        (normal(5, 2, seed=6).float(), normal(5, 2, seed=7).float(), 1),
    ]


MISTAKES = """
contiguous rows: return torch.stack([part.sum(0) for part in torch.tensor_split(dy * xhat, programs)])
    Has each program a block of neighbouring rows? Here program p takes every G-th row: p, p + G, …
x̂ left out: * xhat[p::programs] →
    Is x̂ left out? That is dβ; dγ sums dy · x̂.
already finished: return (dy * xhat).sum(0)
    Is this the finished sum? One row a program is wanted; a second kernel adds them up.
every program everything: every [p::programs] →
    Does every program sum all rows? Then the total is G times dγ.
first rows only: return (dy * xhat)[:programs]
    Does each program stop after one row? It goes on in steps of G.
means: sum(0) → mean(0)
    Are these means? A gradient adds its rows up.
sums of each: (dy[p::programs] * xhat[p::programs]).sum(0) → dy[p::programs].sum(0) * xhat[p::programs].sum(0)
    Is the product taken of two sums? Multiply row by row, then sum.
along the features: sum(0) → sum().expand(dy.shape[1])
    Is the sum taken along the features too? Each feature has its own γ.
chunks: return torch.stack([part.sum(0) for part in (dy * xhat).chunk(programs)])
    Is each program given a chunk of neighbouring rows? Program p takes every G-th row: p, p + G, …
the tail left out: return (dy * xhat)[: len(dy) // programs * programs].reshape(-1, programs, dy.shape[1]).sum(0)
    Are the last M % G rows left out? M need not be a multiple of G.
dy left out: dy[p::programs] * →
    Is dy left out? dγ sums dy · x̂.
from 1: range(programs) → range(1, programs + 1)
    Do the rows begin at p + 1? Programs are numbered from 0, and program p begins at row p.
transposed: range(programs)] → range(programs)], dim=1
    Is it transposed? Programs go down the rows, features along the columns.
never set back: return partial_sums(dy, xhat, programs).cumsum(0)
    Does a program go on from the sum of the one before? Each begins at 0.
last row only: .sum(0) → [-1]
    Is each program's last row alone kept? Add them up (out[index] += … adds a repeated index once).
reversed: return partial_sums(dy, xhat, programs).flip(0)
    Are the programs in reverse? Row p of the result belongs to program p.
"""

HINTS = """
dy[p::programs] holds the rows p, p + G, p + 2 G, …
Sum dy * x̂ over those rows (dim 0) for each p, and stack the results.
"""

EXERCISE = exercise(__doc__, partial_sums, _cases, MISTAKES, HINTS, claims="F6", rtol=1e-4, atol=1e-5)
