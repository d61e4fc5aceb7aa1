"""2.5: find the bug in a batch-norm residual block."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal


def bn_residual_block(x, weight):
    """Return x + relu(BN(x)) Wᵀ for x (B, D): BN over the batch with ε = 1e-5, no γ, β. `weight` is W (D, D)."""
    mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
    normalised = (x - mean) / torch.sqrt(var + 1e-5)
    return x + torch.relu(normalised) @ weight.T


def _cases():
    weight = torch.tensor([[1.0, 0.0], [1.0, -2.0]])
    return [  # float32, so that torch.nn.BatchNorm1d takes them
        (torch.tensor([[1.0, -4.0], [3.0, 0.0]]), weight),
        ((3 + 2 * normal(4, 3)).float(), normal(3, 3, seed=1).float()),
        ((0.01 * normal(5, 2)).float(), normal(2, 2, seed=2).float()),
    ]


MISTAKES = """
the norm on the sum: return → x =; weight.T → weight.T ⏎ mean, var = x.mean(dim=0), x.var(dim=0, correction=0) ⏎ return
        (x - mean) / torch.sqrt(var + 1e-5)
    Is the sum normalised? Then nothing travels unchanged: the shortcut must bypass every norm.
norm left out: relu(normalised) → relu(x)
    Where has the norm gone? The branch still reads BN(x); only the shortcut must not.
relu on the shortcut: return x → return torch.relu(x)
    Does x pass through relu on the shortcut? Negative entries would be lost there.
over the features: x.mean(dim=0), x.var(dim=0, correction=0) →
        x.mean(dim=1, keepdim=True), x.var(dim=1, correction=0, keepdim=True)
    Are mean and variance taken over the features? That is LayerNorm; the statistics were right as given.
unbiased variance: correction=0 → correction=1
    Is the variance divided by B − 1? The statistics were right as given.
no ε: + 1e-5 →
    Has ε gone? It matters where a feature hardly varies over the batch.
no shortcut: x + →
    Where has the shortcut gone? The block still adds x.
"""

HINTS = """
Follow the name x from the first line to the last. What does it hold in the sum?
Give the normalised values a name of their own, so that x in the sum is the block's input.
"""

EXERCISE = exercise(
    __doc__,
    bn_residual_block,
    _cases,
    MISTAKES,
    HINTS,
    claims="B12",
    rtol=1e-4,
    atol=1e-5,
    starter="normalised = → x =; torch.relu(normalised) → torch.relu(x)",
)
