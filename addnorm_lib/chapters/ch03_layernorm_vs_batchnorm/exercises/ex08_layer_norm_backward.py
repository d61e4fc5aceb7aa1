"""3.8: layer norm's gradients."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def layer_norm_backward(grad, x, weight, eps):
    """Return (dx, dweight, dbias) of y = γ·x̂ + β, x̂ = (x − μ)/√(σ² + ε), given `grad`, the loss's gradient ∂/∂y.

    grad and x (..., D); `weight` is γ (D,). With r = 1/√(σ² + ε), w = γ·grad, c₁ = mean(x̂·w) and c₂ = mean(w), each
    token's own means: dx = (w − x̂·c₁ − c₂)·r, shape (..., D). dweight and dbias (D,) are sums over all tokens.
    """
    mean = x.mean(dim=-1, keepdim=True)
    r = torch.rsqrt(x.var(dim=-1, correction=0, keepdim=True) + eps)
    normalised = (x - mean) * r
    w = weight * grad
    c1 = (normalised * w).mean(dim=-1, keepdim=True)
    c2 = w.mean(dim=-1, keepdim=True)
    dx = (w - normalised * c1 - c2) * r
    return dx, (grad * normalised).flatten(0, -2).sum(dim=0), grad.flatten(0, -2).sum(dim=0)


def _cases():
    return [
        (floats([1.0, 0.0, 0.0]), floats([-1.0, 0.0, 1.0]), torch.ones(3), 1e-5),
        (
            floats([1.0, 0.0, 2.0], [0.0, 1.0, 0.0]),
            floats([0.0, 1.0, 5.0], [2.0, 0.0, 1.0]),
            floats(2.0, 1.0, 0.5),
            0.5,
        ),
        (normal(2, 3, 4), 1 + 2 * normal(2, 3, 4, seed=1), normal(4, seed=2), 1e-3),
    ]


MISTAKES = """
statistics held constant: (w - normalised * c1 - c2) → w
    Are μ and σ held constant? They move with x: c₁ and c₂ are what their gradients add.
c₁ missing: - normalised * c1 →
    Is x̂·c₁ missing? It is what flows through σ.
c₂ missing: - c2 →
    Is c₂ missing? It is what flows through μ.
c₁ without x̂: normalised * c1 → c1
    Is c₁ multiplied by x̂? A larger feature moves σ more.
c₁ added: - normalised * c1 → + normalised * c1
    Is x̂·c₁ subtracted? Both corrections take something off.
no γ in dx: weight * grad → grad
    Does dx contain γ? The gradient passes γ before it reaches x̂: w = γ·grad.
no r: - c2) * r → - c2)
    Is dx multiplied by r = 1/√(σ² + ε)? x̂ moves by r when x moves by 1.
divided by r: - c2) * r → - c2) / r
    Is dx divided by r? r is 1/√(σ² + ε) already: multiply.
sums for means: (normalised * w).mean( → (normalised * w).sum(; w.mean( → w.sum(
    Are c₁ and c₂ sums? They are means over the D features.
means over all tokens: (normalised * w).mean(dim=-1, keepdim=True) → (normalised * w).mean();
        w.mean(dim=-1, keepdim=True) → w.mean()
    Are c₁ and c₂ taken over all tokens? Each token has its own: dim=-1, keepdim=True.
unbiased: correction=0 → correction=1
    Is the variance divided by D − 1? Layer norm's is biased, forward and backward.
summed over the features: every .flatten(0, -2).sum(dim=0) → .sum(dim=-1)
    Are dweight and dbias summed over the features? γ and β have D entries: sum over the tokens.
not summed: every .flatten(0, -2).sum(dim=0) →
    Are dweight and dbias summed over the tokens? All tokens share γ and β, so their gradients add up.
summed over axis 0 only: every .flatten(0, -2) →
    Are the tokens on both axes of (B, T, D) summed? Shape (D,) is wanted: flatten(0, -2) first.
averaged over the tokens: every .sum(dim=0) → .mean(dim=0)
    Are dweight and dbias averages? Gradients of shared parameters add up: sum over the tokens.
dweight from x: grad * normalised → grad * x
    Is dweight made from x? γ multiplies x̂, so its gradient is grad·x̂.
γ in dweight: grad * normalised → w * normalised
    Is γ in dweight? ∂y/∂γ = x̂: γ itself does not occur.
dweight and dbias swapped: (grad * normalised).flatten( → grad.flatten(; grad.flatten( → (grad * normalised).flatten(
    Is the order (dx, dweight, dbias)? The last two seem to be swapped.
both corrections added: - normalised * c1 - c2 → + normalised * c1 + c2
    Are x̂·c₁ and c₂ added? Both are subtracted.
c₁ and c₂ swapped: normalised * c1 - c2 → normalised * c2 - c1
    Are c₁ and c₂ the wrong way round? c₁ = mean(x̂·w) is the one that x̂ multiplies.
γ in dbias: grad.flatten( → w.flatten(
    Is γ in dbias? ∂y/∂β = 1: dbias is the sum of grad itself.
γ in dweight and dbias: grad * normalised → w * normalised; grad.flatten( → w.flatten(
    Is γ in dweight and dbias? They are made from grad, not from w = γ·grad.
no ε: + eps →
    Where is ε? r = 1/√(σ² + ε).
means over the tokens: (normalised * w).mean(dim=-1 → (normalised * w).mean(dim=0; w.mean(dim=-1 → w.mean(dim=0
    Are c₁ and c₂ taken over axis 0? Each token has its own: dim=-1, keepdim=True.
"""

HINTS = """
Write the formula down name by name: r, x̂, w, c₁, c₂. c₁ and c₂ are means with dim=-1, keepdim=True.
∂y/∂γ = x̂ and ∂y/∂β = 1, the same γ and β for every token: flatten(0, -2).sum(dim=0) adds the tokens.
Compare with torch.autograd.grad on a call of torch.nn.functional.layer_norm.
"""

EXERCISE = exercise(__doc__, layer_norm_backward, _cases, MISTAKES, HINTS, claims="C7", **FLOAT32)
