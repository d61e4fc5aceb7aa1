"""3.10: an experiment: which norm leaks the future?."""

from torch.nn import functional as F

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown


def leak(norm, x, position):
    """Return the largest |change| of norm(x) at the tokens before `position` when that token is doubled; a float.

    An experiment: x is (B, T, D), norm(x) has x's shape, position is at least 1. Double token `position` of every
    sequence in a copy of x, and compare the outputs.
    """
    changed = x.clone()
    changed[:, position] *= 2
    return (norm(changed) - norm(x))[:, :position].abs().max().item()


def _cases():
    layer = Shown(lambda x: F.layer_norm(x, x.shape[-1:]), "LayerNorm(D)")
    tokens = Shown(lambda x: F.layer_norm(x, x.shape[-2:]), "LayerNorm((T, D))")
    batch = Shown(
        lambda x: F.batch_norm(x.transpose(1, 2), None, None, training=True).transpose(1, 2), "BatchNorm1d(D), training"
    )
    later = Shown(lambda x: -x.flip(1).cumsum(1).cumsum(1).flip(1), "y_t = −Σ (s − t + 1)·x_s over s ≥ t")
    earlier = Shown(lambda x: x.cumsum(1).cumsum(1), "y_t = Σ (t − s + 1)·x_s over s ≤ t")
    small = floats([[1.0, 2.0], [3.0, 7.0], [2.0, -3.0]])
    return [
        (batch, small, 1),
        (layer, small, 1),
        (later, floats([[1.0], [2.0], [3.0]], [[4.0], [1.0], [2.0]]), 2),
        (earlier, normal(2, 5, 2), 2),
        (tokens, normal(2, 4, 3, seed=1), 2),
        (batch, normal(3, 4, 2, seed=2), 3),
    ]


MISTAKES = """
always 0: return 0.0
    Is it always 0? Batch norm in training leaks. Is `changed` x itself (use x.clone()), or x compared?
the token itself counted: [:, :position] → [:, : position + 1]
    Is token `position` itself counted? It may change; the slice [:, :position] ends before it.
all positions: [:, :position] →
    Are all outputs compared? Only those before `position` must not know about it.
later positions: [:, :position] → [:, position:]
    Are the outputs from `position` on compared? A leak of the future shows before it.
the previous token only: [:, :position] → [:, position - 1]
    Is only the token just before `position` compared? Every earlier one counts.
no absolute value: .abs() →
    Is the sign kept? A change downwards is a leak as well: take the absolute value first.
mean: .max() → .mean()
    Is this the mean change? The largest one is wanted.
sum: .max() → .sum()
    Are the changes summed? The largest one is wanted.
the first sequence only: changed[:, position] → changed[0, position]
    Is the token doubled in the first sequence only? Double it in every one: changed[:, position].
every later token too: changed[:, position] → changed[:, position:]
    Are the later tokens doubled too? Change token `position` alone.
zeroed: *= 2 → *= 0
    Is the token set to 0? Double it.
the feature instead of the token: changed[:, position] → changed[..., position]
    Is a feature doubled? Tokens lie on axis 1: changed[:, position].
the inputs compared: norm(changed) - norm(x) → changed - x; [:, :position] → [:, position]
    Are the inputs compared? The question is what norm(x) does at the other tokens.
absolute value last: .abs().max() → .max().abs()
    Is the absolute value taken last? Take it before the maximum: a change downwards may be the largest.
token 0 only: [:, :position] → [:, 0]
    Is only token 0 compared? Every one before `position` counts.
the first sequence compared: [:, :position] → [0, :position]
    Is only the first sequence compared? Every one counts.
length of the change: .abs().max() → .norm()
    Is that the length of the change? The largest single one is wanted.
squared: .abs() → .square()
    Are the changes squared? Take their absolute value.
tripled: *= 2 → *= 3
    Is the token tripled? `+= 2 * …` adds two more of it.
compared with the input: norm(x) → x
    Is the changed output compared with x? Compare it with norm(x).
"""

HINTS = """
x.clone() is a copy; changed[:, position] *= 2 doubles the token in it.
(norm(changed) - norm(x))[:, :position] holds the changes before it; .abs().max().item() is the largest.
"""

EXERCISE = exercise(__doc__, leak, _cases, MISTAKES, HINTS, claims="C15 C5", **FLOAT32)
