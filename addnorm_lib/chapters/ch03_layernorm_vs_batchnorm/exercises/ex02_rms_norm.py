"""3.2: RMSNorm: layer norm without the mean."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def rms_norm(x, weight, eps):
    """Return γ·x/√(mean(x²) + ε) for x (..., D), the mean over the last axis.

    `weight` is γ (D,), `eps` is ε. A new tensor of x's shape and dtype, float32.
    """
    mean_square = (x**2).mean(dim=-1, keepdim=True)
    return weight * x / torch.sqrt(mean_square + eps)


def _cases():
    return [
        (floats([2.0, 2.0]), torch.ones(2), 1e-5),
        (floats([3.0, 4.0], [0.0, 0.0]), floats(1.0, 2.0), 0.5),
        (floats([-7.0]), torch.ones(1), 1e-5),
        (1e-3 * normal(3, 3), torch.ones(3), 1e-5),
        (1 + 2 * normal(2, 3, 4), normal(4, seed=1), 1e-3),
    ]


MISTAKES = """
layer norm: mean_square = → x = x - x.mean(dim=-1, keepdim=True) ⏎ mean_square =
    Is the mean subtracted? That is layer norm; the two agree only where a token's mean is 0.
divided by the deviation: (x**2).mean(dim=-1, keepdim=True) → x.var(dim=-1, correction=0, keepdim=True)
    Is x divided by σ? The variance is taken about the mean; RMSNorm averages x² itself.
ε outside the root: torch.sqrt(mean_square + eps) → (torch.sqrt(mean_square) + eps)
    Is ε added outside the root? It belongs inside: √(mean(x²) + ε).
no ε: mean_square + eps → mean_square
    Where is ε? Without it a token of zeros is divided by zero.
ε left at its default: mean_square + eps → mean_square + torch.finfo(x.dtype).eps
    Is `eps` handed on? torch.nn.RMSNorm's default is the dtype's own, 1.2e-7 in float32.
sum: (x**2).mean( → (x**2).sum(
    Is x² summed? That makes every token's length 1; RMSNorm averages: the length becomes √D.
no root: torch.sqrt(mean_square + eps) → (mean_square + eps)
    Is the root missing? The R in RMS stands for it.
the mean, squared: (x**2).mean(dim=-1, keepdim=True) → x.mean(dim=-1, keepdim=True) ** 2
    Is the mean squared? First square every feature, then take the mean: else plus and minus cancel.
mean of absolute values: (x**2).mean( → x.abs().mean(; torch.sqrt(mean_square + eps) → (mean_square + eps)
    Is that the mean of |x|? RMS is the root of the mean of x².
over the batch: dim=-1 → dim=0
    Is the mean square taken over axis 0? Each token has its own: dim=-1.
over axis 1: dim=-1 → dim=1
    Is dim=1 meant as the last axis? In (B, T, D) it mixes tokens. Use dim=-1.
over everything: dim=-1, keepdim=True →
    Is there one mean square for the whole tensor? Each token has its own: dim=-1, keepdim=True.
keepdim forgotten: dim=-1, keepdim=True → dim=-1
    Is keepdim=True missing? One number a token must line up with the tokens, not with the features.
γ forgotten: weight * →
    Is γ applied? RMSNorm has no β, but it keeps γ.
1 + γ: weight * → (1 + weight) *
    Is that 1 + γ? Some models store γ − 1 as their weight; here `weight` is γ itself.
γ before the norm: mean_square = → x = weight * x ⏎ mean_square =; weight * →
    Is γ·x normalised? The mean square is that of x; γ comes afterwards.
divided by std(): (x**2).mean(dim=-1, keepdim=True) → x.var(dim=-1, keepdim=True)
    Is x divided by var() or std()? Both subtract the mean first; RMSNorm averages x² itself.
norm plus ε: return weight * x / (x.norm(dim=-1, keepdim=True) + eps)
    Is x divided by its norm? That is a sum of squares; RMSNorm takes their mean, and ε under the root.
ε always 1e-5: mean_square + eps → mean_square + 1e-5
    Is ε written as 1e-5? Use the argument `eps`.
ε always 1e-6: mean_square + eps → mean_square + 1e-6
    Is ε written as 1e-6? Use the argument `eps`.
"""

HINTS = """
RMS read backwards: square, mean, root. No mean of x itself occurs.
(x**2).mean(dim=-1, keepdim=True), plus eps, under torch.sqrt; then x over it, times weight.
"""

EXERCISE = exercise(__doc__, rms_norm, _cases, MISTAKES, HINTS, claims="C1", **FLOAT32)
