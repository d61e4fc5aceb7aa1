"""3.5: group norm, between layer norm and instance norm."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def group_norm(x, n_groups, eps):
    """Return x (N, C, L) normalised over groups of C/n_groups neighbouring channels and all L positions, biased.

    Every sample has its own statistics, one pair a group. Without γ and β; `n_groups` divides C. float32.
    """
    groups = x.reshape(len(x), n_groups, -1)
    mean = groups.mean(dim=-1, keepdim=True)
    var = groups.var(dim=-1, correction=0, keepdim=True)
    return ((groups - mean) / torch.sqrt(var + eps)).reshape(x.shape)


def _cases():
    return [
        (floats([[0.0, 1.0], [2.0, 3.0]]), 1, 1e-5),
        (floats([[0.0, 1.0], [2.0, 6.0], [1.0, 2.0], [3.0, 5.0]]), 2, 1e-5),
        (floats([[1.0], [2.0]], [[3.0], [5.0]]), 2, 0.1),
        (1 + 2 * normal(2, 6, 5), 3, 0.1),
        (1 + 2 * normal(3, 4, 2, seed=1), 4, 1e-3),
        (1 + 2 * normal(3, 6, 2, seed=2), 2, 1e-3),
    ]


MISTAKES = """
each position on its own: n_groups, -1 → n_groups, -1, x.shape[2]; every dim=-1 → dim=2
    Has each position its own mean? Then one group would be LayerNorm(C); group norm runs over L too.
layer norm over the channels: x.reshape(len(x), n_groups, -1) → x; every dim=-1 → dim=1
    Is this LayerNorm(C) at each position? One group is not that: it holds all channels *and* positions.
instance norm: x.reshape(len(x), n_groups, -1) → x; every dim=-1 → dim=2
    Is every channel normalised alone? That is instance norm, C groups; a group shares one mean.
one group: x.reshape(len(x), n_groups, -1) → x; every dim=-1 → dim=(1, 2)
    Is n_groups used? All channels share one mean here, as in one group.
over the batch: every dim=-1 → dim=(0, 2)
    Do samples share a mean? Each sample is normalised alone, so that the batch size does not matter.
batch norm: x.reshape(len(x), n_groups, -1) → x; every dim=-1 → dim=(0, 2)
    Is this batch norm? Group norm keeps the samples apart and puts channels together.
interleaved: n_groups, -1 → -1, n_groups, x.shape[2]; every dim=-1 → dim=(1, 3)
    Are channels 0, G, 2G, … put together? A group is a run of neighbours: reshape (N, G, C/G, L).
channels per group: n_groups → x.shape[1] // n_groups
    Is n_groups taken for the channels in a group? It is the number of groups.
samples reshaped away: len(x), n_groups → n_groups
    Where is N in the reshape? (G, −1) mixes samples: (N, G, −1).
shape not restored: .reshape(x.shape) →
    Is the result still grouped? Give it x's shape back.
unbiased: correction=0 → correction=1
    Is the variance divided by one less than the count? Normalising uses the biased one: correction=0.
ε outside the root: torch.sqrt(var + eps) → (torch.sqrt(var) + eps)
    Is ε added outside the root? It belongs inside: √(σ² + ε).
ε left at its default: eps → 1e-5
    Is `eps` handed on? PyTorch's own functions take 1e-5 unless told.
a group of one number kept: return x if x.shape[1] * x.shape[2] == n_groups else group_norm(x, n_groups, eps)
    Is a group of one number left alone? It is its own mean: the output is 0, so such a norm erases x.
no ε: var + eps → var
    Where is ε? Without it a group of one number is 0/0.
no root: torch.sqrt(var + eps) → (var + eps)
    Is the root missing? x − μ is divided by √(σ² + ε).
not centred: groups.var(dim=-1, correction=0, keepdim=True) → (groups**2).mean(dim=-1, keepdim=True);
        (groups - mean) → groups
    Is the group's mean subtracted? Without that it is an RMSNorm of groups.
neighbouring positions: x.reshape( → x.transpose(1, 2).reshape(
    Are the axes turned before the reshape? x is (N, C, L) already: channels first.
"""

HINTS = """
reshape can do the grouping: which shape puts all numbers of a group on one axis?
x.reshape(N, n_groups, -1), normalise over the last axis as layer norm does, reshape back.
"""

EXERCISE = exercise(__doc__, group_norm, _cases, MISTAKES, HINTS, claims="C17", **FLOAT32)
