"""3.12: find the bug: padding in a batch norm."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def masked_batch_norm(x, mask, eps):
    """Return x (B, T, D) batch-normalised over the real tokens only; padding becomes 0. Without γ and β.

    `mask` (B, T) is True at real tokens. Each feature has one mean and one biased variance, over all real tokens of the
    batch; what stands in the padding must not matter. float32.
    """
    real = mask[..., None].to(x.dtype)
    count = real.sum()
    mean = (x * real).sum(dim=(0, 1)) / count
    centred = (x - mean) * real
    var = (centred**2).sum(dim=(0, 1)) / count
    return centred / torch.sqrt(var + eps)


def _cases():
    padded = 1 + 2 * normal(3, 4, 2)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False], [True, False, False, False]])
    return [
        (floats([[1.0], [3.0]], [[5.0], [0.0]]), torch.tensor([[True, True], [True, False]]), 1e-5),
        (torch.where(mask[..., None], padded, torch.full_like(padded, 9.0)), mask, 1e-3),
        (1 + 2 * normal(2, 3, 2, seed=1), torch.ones(2, 3, dtype=torch.bool), 0.5),
    ]


MISTAKES = """
padding counted as data: (x * real).sum(dim=(0, 1)) / count → x.mean(dim=(0, 1));
        (centred**2).sum(dim=(0, 1)) / count → x.var(dim=(0, 1), correction=0)
    Are mean and variance taken over the padding too? Then real tokens change with the padding.
padding in the variance: centred**2 → (x * real - mean) ** 2
    Does padding still count in the variance? Each padding token adds μ² to the sum: mask after x − μ.
divided by all tokens: real.sum() → x.shape[0] * x.shape[1]
    Is the sum over the real tokens divided by B·T? Divide by how many were summed.
padding not 0: return centred → return (x - mean)
    Does padding come out as 0? The statistics are right; mask the result as well.
each sequence on its own: real.sum() → real.sum(dim=1, keepdim=True); every dim=(0, 1) → dim=1, keepdim=True
    Has each sequence its own mean? Batch norm shares one over the batch: dim=(0, 1), as given.
layer norm: (x * real).sum(dim=(0, 1)) / count → x.mean(dim=-1, keepdim=True);
        (centred**2).sum(dim=(0, 1)) / count → x.var(dim=-1, correction=0, keepdim=True)
    Is this layer norm? It needs no mask for its statistics; here the batch's are wanted, as given.
unbiased: (centred**2).sum(dim=(0, 1)) / count → (centred**2).sum(dim=(0, 1)) / (count - 1)
    Is the variance divided by one less than the count? It was biased as given, and should be.
not centred: return centred → return x * real
    Is the mean still subtracted in the result? The bug is in which tokens, not in the formula.
padding in the mean as 0: real.sum() → x.shape[0] * x.shape[1]; (x - mean) * real → x * real - mean;
        return centred → return real * centred
    Is padding set to 0 and then counted? A 0 pulls the mean, too: divide by the number of real tokens.
no mask at all: mask[..., None].to(x.dtype) → torch.ones_like(x[..., :1])
    Is `mask` used? Statistics over the real tokens only, and 0 at the padding.
the variance alone mended: return centred → return (x * real - mean)
    What comes out at the padding? The variance is right now; 0 − μ is left there.
padding as it was: centred / torch.sqrt(var + eps) → torch.where(mask[..., None], centred / torch.sqrt(var + eps), x)
    What comes out at the padding? It is x there; 0 is wanted.
ε outside the root: torch.sqrt(var + eps) → (torch.sqrt(var) + eps)
    Is ε added outside the root? It was inside as given.
features counted: real.sum() → real.sum() * x.shape[-1]
    Are features counted, too? Each feature has one mean, over as many numbers as there are real tokens.
one mean for all features:
        real = x[mask] ⏎
        return (x - real.mean()) / torch.sqrt(real.var(correction=0) + eps) * mask[..., None]
    Do the features share one mean? Each has its own, as given: dim=(0, 1).
"""

HINTS = """
Print `centred` at a padding token. What should it be there, and what is it?
x * real sets padding to 0, and then − mean makes it −μ. Do the two in the other order.
"""

EXERCISE = exercise(
    __doc__,
    masked_batch_norm,
    _cases,
    MISTAKES,
    HINTS,
    claims="C13",
    starter="(x - mean) * real → x * real - mean",
    **FLOAT32,
)
