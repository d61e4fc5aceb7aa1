"""3.1: layer norm from the formula."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def layer_norm(x, weight, bias, eps):
    """Return γ·(x − μ)/√(σ² + ε) + β for x (..., D): every token's own μ and biased σ², over the last axis.

    `weight` is γ (D,), `bias` is β (D,), `eps` is ε. A new tensor of x's shape and dtype, float32. It should hold where
    μ is far larger than σ, too.
    """
    mean = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, correction=0, keepdim=True)
    return weight * (x - mean) / torch.sqrt(var + eps) + bias


def _cases():
    return [
        (floats([1.0, 2.0, 3.0, 4.0]), torch.ones(4), torch.zeros(4), 1e-5),
        (floats([-1.0, 0.0, 1.0]), floats(2.0, 1.0, 0.5), floats(1.0, 0.0, -1.0), 1e-5),
        (floats([0.0, 0.0, 0.6], [5.0, 5.0, 5.0]), floats(2.0, 1.0, 0.5), floats(1.0, 0.0, -1.0), 0.1),
        (1e-3 * normal(3, 3), torch.ones(3), torch.zeros(3), 1e-5),
        (1 + 2 * normal(2, 3, 4), normal(4, seed=1), normal(4, seed=2), 1e-3),
        (floats([8191.0, 8192.0, 8192.0, 8193.0]), torch.ones(4), torch.zeros(4), 1e-5),
    ]


MISTAKES = """
unbiased: correction=0 → correction=1
    Is the variance divided by D − 1? var() and std() do so unless told; layer norm divides by D.
one pass: x.var(dim=-1, correction=0, keepdim=True) → (x**2).mean(dim=-1, keepdim=True) - mean**2
    Is the variance E[x²] − μ²? Equal on paper; in float32 the digits cancel where μ is large.
unbiased, and ε outside the root: correction=0 → correction=1; torch.sqrt(var + eps) → (torch.sqrt(var) + eps)
    Is that std(...) + ε? std() divides by D − 1, and ε belongs under the root: √(σ² + ε), biased.
ε outside the root: torch.sqrt(var + eps) → (torch.sqrt(var) + eps)
    Is ε added to σ? It belongs under the root: √(σ² + ε), which differs where σ² is not far above ε.
no ε: var + eps → var
    Where is ε? Without it a constant token is divided by zero, and a small one is blown up.
unbiased, and no ε: correction=0 → correction=1; var + eps → var
    Is that x.std()? It divides by D − 1 and has no ε: √(σ² + ε) with the biased σ² is wanted.
ε left at its default: var + eps → var + 1e-5
    Is `eps` handed on? PyTorch's own functions take 1e-5 unless told.
sum of squares: var + eps → var * x.shape[-1] + eps
    Are the squared deviations summed? The variance is their mean: divide by D.
no root: torch.sqrt(var + eps) → (var + eps)
    Is the root missing? x − μ is divided by √(σ² + ε), a deviation, not by the variance.
over the batch: every dim=-1 → dim=0
    Are the statistics taken over axis 0? That is batch norm's way; a token needs its own: dim=-1.
over axis 1: every dim=-1 → dim=1
    Is dim=1 meant as the last axis? It is for (N, D); in (B, T, D) it mixes tokens. Use dim=-1.
across tokens: every dim=-1 → dim=-2
    Are the statistics taken across tokens? Each token has its own, over its features: dim=-1.
over tokens and features: every dim=-1 → dim=(-2, -1)
    Do the tokens of a sequence share one μ and σ²? That is LayerNorm((T, D)); it lets tokens mix.
over everything: x.mean(dim=-1, keepdim=True) → x.mean(); x.var(dim=-1, correction=0, keepdim=True) →
        x.var(correction=0)
    Is there one mean for the whole tensor? mean() and var() without dim= reduce every axis.
keepdim forgotten: x.mean(dim=-1, keepdim=True) → x.mean(dim=-1); correction=0, keepdim=True → correction=0
    Is keepdim=True missing? μ (N,) lines up with the features then; μ (N, 1) lines up with the tokens.
squeezed into [0, 1]:
        low, high = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True) ⏎
        return weight * (x - low) / (high - low) + bias
    Is this min–max scaling? Layer norm's values are not confined to [0, 1]: mean 0, variance about 1.
RMSNorm: x.var(dim=-1, correction=0, keepdim=True) → (x**2).mean(dim=-1, keepdim=True); (x - mean) → x
    Is this RMSNorm? Layer norm subtracts the mean first.
mean kept: (x - mean) → x
    Is the mean subtracted? Dividing alone leaves it in.
only centred: / torch.sqrt(var + eps) →
    Is the division missing? Subtracting μ centres a token; its scale is still its own.
precedence: (x - mean) / torch.sqrt(var + eps) → (x - mean / torch.sqrt(var + eps))
    Is only μ divided? x − μ / … divides first: put x − μ in brackets.
γ and β forgotten: weight * →; + bias →
    Are γ and β applied? They come last: γ·x̂ + β.
γ forgotten: weight * →
    Is γ applied? It scales each normalised feature, before β is added.
β forgotten: + bias →
    Is β added, after γ?
γ and β swapped: weight * → bias *; + bias → + weight
    Are γ and β the wrong way round? `weight` multiplies, `bias` is added.
β before γ: (x - mean) / torch.sqrt(var + eps) + bias → ((x - mean) / torch.sqrt(var + eps) + bias)
    Is β multiplied by γ too? First γ·x̂, then + β.
γ and β before the norm: mean = → x = weight * x + bias ⏎ mean =; weight * →; torch.sqrt(var + eps) + bias →
        torch.sqrt(var + eps)
    Are γ and β applied to x before it is normalised? The norm would take out much of what they do.
γ under the fraction bar: weight * →; torch.sqrt(var + eps) → torch.sqrt(var + eps) / weight
    Is that divided by γ? γ multiplies.
over the batch, unbiased: every dim=-1 → dim=0; correction=0 → correction=1
    Is that x.mean(0) and x.var(0)? Axis 0 is the batch, and var() divides by N − 1: dim=-1, correction=0.
over everything, unbiased: x.mean(dim=-1, keepdim=True) → x.mean(); x.var(dim=-1, correction=0, keepdim=True) → x.var()
    Is that x.mean() and x.var()? Without dim= they reduce every axis, and var() divides by n − 1.
a loop over axis 0: every dim=-1 → dim=tuple(range(1, x.ndim))
    Does a loop run over x? In (B, T, D) it yields sequences, not tokens: let dim=-1 do it.
ε in two places: torch.sqrt(var + eps) → (torch.sqrt(var + eps) + eps)
    Is ε added twice? Once is enough, under the root.
ε squared: var + eps → var + eps**2
    Is ε squared? It is added to σ² as it is.
ε as a lower bound: var + eps → var.clamp(min=eps)
    Is ε a lower bound for σ²? It is added to every σ², large or small.
σ for σ²: x.var( → x.std(
    Is std() under the root? It is a root already: var() belongs there.
mean of squares for σ²: x.var(dim=-1, correction=0, keepdim=True) → (x**2).mean(dim=-1, keepdim=True)
    Is σ² the mean of x²? It is the mean of (x − μ)²: subtract μ there, too.
β subtracted: + bias → - bias
    Is β subtracted? It is added.
"""

HINTS = """
x.mean(dim=-1, keepdim=True) is μ with shape (..., 1), which lines up with every feature of its token.
x.var(dim=-1, correction=0, keepdim=True) is the biased σ²; divide x − μ by torch.sqrt(var + eps).
γ and β are (D,) and line up with the last axis by themselves: weight * normalised + bias.
"""

EXERCISE = exercise(__doc__, layer_norm, _cases, MISTAKES, HINTS, claims="C2 C5 C6 C8", **FLOAT32)
