"""3.6: undo a layer norm."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.ex01_layer_norm import layer_norm
from addnorm_lib.course.exercises.define import exercise


def restore(y, mean, var, weight, bias, eps):
    """Return the x (T, D) from which layer norm made y = γ·(x − μ)/√(σ² + ε) + β.

    Each token has its own μ and biased σ²: `mean` and `var` are (T,). `weight` is γ (D,), without zeros, `bias` is
    β (D,), `eps` is ε.
    """
    normalised = (y - bias) / weight
    return normalised * torch.sqrt(var + eps)[:, None] + mean[:, None]


def _cases():
    weight, bias = floats(2.0, 0.5), floats(1.0, -1.0)
    made_from = [
        (floats([1.0, 3.0]), torch.ones(2), torch.zeros(2), 1e-5),
        (floats([1.0, 3.0], [8.0, 2.0]), torch.ones(2), torch.zeros(2), 0.5),
        (floats([1.0, 3.0], [8.0, 2.0]), weight, bias, 0.5),
        (1 + 2 * normal(3, 4), 1 + normal(4, seed=1) ** 2, normal(4, seed=2), 0.1),
        (0.1 * normal(3, 4), 1 + normal(4, seed=1) ** 2, normal(4, seed=2), 0.1),
    ]
    return [
        (layer_norm(x, w, b, eps), x.mean(dim=-1), x.var(dim=-1, correction=0), w, b, eps) for x, w, b, eps in made_from
    ]


MISTAKES = """
nothing undone: return y
    Is y returned as it is? γ = 1, β = 0 does not bring x back: μ and σ of each token are gone from y.
only γ and β undone: return (y - bias) / weight
    Are μ and σ put back? γ and β are one pair for all tokens; each token's own μ and σ went before them.
no ε: var + eps → var
    Is ε undone too? x − μ was divided by √(σ² + ε), so σ alone is too small a factor.
ε outside the root: torch.sqrt(var + eps)[:, None] → (torch.sqrt(var)[:, None] + eps)
    Is ε added outside the root? Multiply by what was divided by: √(σ² + ε).
no root: torch.sqrt(var + eps) → (var + eps)
    Is the root missing? The deviation was divided out, not the variance.
per feature: every [:, None] →
    Do μ and σ line up with the features? They belong to the tokens: mean[:, None], shape (T, 1).
mean per feature: mean[:, None] → mean
    Does μ line up with the features? It belongs to the tokens: mean[:, None], shape (T, 1).
deviation per feature: torch.sqrt(var + eps)[:, None] → torch.sqrt(var + eps)
    Does σ line up with the features? It belongs to the tokens: [:, None], shape (T, 1).
mean forgotten: + mean[:, None] →
    Is μ added back? It was subtracted first.
mean before the scale: normalised * → (normalised + mean[:, None]) *; + mean[:, None] →
    Is μ multiplied by σ? Undo the steps in reverse: first the division, then − μ.
β after γ: (y - bias) / weight → y / weight - bias
    Is γ undone before β? β was added last, so it is taken off first.
γ and β ignored: (y - bias) / weight → y
    Are γ and β undone? They were applied last, so they come off first.
applied again: return weight * (y - mean[:, None]) / torch.sqrt(var + eps)[:, None] + bias
    Is this the norm once more? Each step must be turned round: multiply where it divides.
β ignored: (y - bias) → y
    Is β taken off? It was added last, so y − β comes first.
β added: y - bias → y + bias
    Is β added once more? The norm added it: subtract it.
γ ignored: / weight →
    Is γ undone? y − β is divided by it.
γ multiplied: / weight → * weight
    Is that multiplied by γ? The norm did: divide by it.
σ divided: normalised * → normalised /
    Is that divided by the deviation? The norm did: multiply by it.
μ subtracted: + mean → - mean
    Is μ subtracted once more? The norm did: add it.
ε left at its default: eps → 1e-5
    Is ε written as 1e-5? Use the argument `eps`.
ε subtracted: var + eps → var - eps
    Is ε subtracted? The factor is the very root that was divided by: √(σ² + ε).
a second layer norm: return layer_norm(y, weight, bias, eps)
    Is that a layer norm of y? It cannot know the token's old μ and σ: use `mean` and `var`.
one μ for all tokens: torch.sqrt(var + eps)[:, None] → torch.sqrt(var.mean() + eps); mean[:, None] → mean.mean()
    Is there one μ and σ for all tokens? Each has its own: mean[:, None].
"""

HINTS = """
Four steps made y: − μ, / √(σ² + ε), · γ, + β. Undo them from the last to the first.
γ and β line up with the features as they are; μ and σ belong to tokens: mean[:, None] is (T, 1).
"""

EXERCISE = exercise(__doc__, restore, _cases, MISTAKES, HINTS, claims="C6 C7", **FLOAT32)
