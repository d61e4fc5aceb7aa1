"""1.3: find the bug: a broadcast that passes silently."""

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal


def token_update(x, weight):
    """Return y = x + F(x) for x (B, T, D), where F(x) = tanh(x Wᵀ) at each token; `weight` is W (D, D)."""
    update = torch.tanh(x @ weight.T)
    return x + update


def _cases():
    weight = torch.tensor([[1.0, 0.0], [1.0, -1.0]], dtype=torch.float64)
    return [
        (torch.tensor([[[1.0, 2.0], [0.0, 0.5]]], dtype=torch.float64), weight),
        (normal(2, 3, 4), normal(4, 4, seed=1)),
        (normal(3, 1, 2), normal(2, 2, seed=2)),
    ]


MISTAKES = """
the first token instead: tanh(x → tanh(x[:, :1]
    Does every token still receive the first token's update? A token's update must come from that token.
averaged: weight.T) → weight.T).mean(dim=1, keepdim=True)
    Is the update averaged over the tokens? Then all tokens receive the same one.
only the last token: x + update → torch.cat([x[:, :-1], x[:, -1:] + update[:, -1:]], dim=1)
    Do the earlier tokens receive an update? F acts on all of them.
no transpose: weight.T → weight
    Where did the transpose of W go? It was right as given.
update alone: x + →
    Where has x gone? The bug is in the update, not in the sum.
"""

HINTS = """
Print update.shape beside x.shape. Which of the two should differ from the other?
A size of 1 is stretched to T without a word. Which slice makes it 1?
"""

EXERCISE = exercise(__doc__, token_update, _cases, MISTAKES, HINTS, claims="A2", starter="tanh(x → tanh(x[:, -1:]")
