"""3.4: batch norm, in training and in evaluation."""

import torch

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def batch_norm(x, running_mean, running_var, training, momentum, eps):
    """Return (y, running_mean, running_var) for x (N, C), without γ and β; change no argument in place.

    In training y is normalised by the batch's mean and biased variance, and a running statistic becomes
    (1 − momentum)·old + momentum·new, where the new variance is unbiased; raise ValueError where N is 1.
    Otherwise y is normalised by the running statistics, which come back as they are.
    """
    if not training:
        return (x - running_mean) / torch.sqrt(running_var + eps), running_mean, running_var
    if len(x) == 1:
        raise ValueError("x: more than one sample wanted in training")
    mean = x.mean(dim=0)
    y = (x - mean) / torch.sqrt(x.var(dim=0, correction=0) + eps)
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_var = (1 - momentum) * running_var + momentum * x.var(dim=0, correction=1)
    return y, running_mean, running_var


def _cases():
    mean, var = floats(1.0, -1.0), floats(4.0, 0.25)
    return [
        (floats([0.0], [1.0], [2.0], [3.0]), torch.zeros(1), torch.ones(1), True, 0.1, 1e-5),
        (floats([1.0, 0.0], [3.0, 4.0]), mean, var, False, 0.1, 1e-5),
        (floats([1.0, 0.0], [3.0, 4.0]), mean, var, True, 0.3, 0.5),
        (floats([3.0, -0.99]), mean, floats(4.0, 1e-5), False, 0.1, 1e-5),
        (floats([3.0, 4.0]), mean, var, True, 0.1, 1e-5),
        (1 + 2 * normal(5, 3), normal(3, seed=1), normal(3, seed=2).abs(), True, 0.9, 1e-3),
        (1 + 2 * normal(5, 3), normal(3, seed=1), 0.1 * normal(3, seed=2).abs(), False, 0.9, 0.1),
    ]


MISTAKES = """
running variance biased: correction=1 → correction=0
    Is the running variance biased? It moves towards the unbiased one (N − 1); only y uses the biased one.
normalised by the unbiased variance: correction=0 → correction=1
    Is y divided by the unbiased deviation? The batch is normalised by the biased one (divided by N).
variances swapped: correction=0 → correction=1; correction=1 → correction=0
    Are the two variances the wrong way round? y takes the biased one, running_var the unbiased one.
momentum reversed: every (1 - momentum) → momentum; momentum * mean → (1 - momentum) * mean;
        momentum * x.var( → (1 - momentum) * x.var(
    Is momentum the share of the old value? In PyTorch it is the share of the new one: 0.1 moves slowly.
over the features: (x - mean) → (x - x.mean(dim=1, keepdim=True));
        x.var(dim=0, correction=0) → x.var(dim=1, correction=0, keepdim=True)
    Is y normalised over axis 1? That is layer norm; batch norm's mean runs over the samples, axis 0.
ε outside the root: torch.sqrt(running_var + eps) → (torch.sqrt(running_var) + eps);
        torch.sqrt(x.var(dim=0, correction=0) + eps) → (x.std(dim=0, correction=0) + eps)
    Is ε added outside the root? It belongs inside, in both modes.
no ε: every + eps →
    Where is ε? It is added to the variance in both modes.
ε left at its default: every eps → 1e-5
    Is `eps` handed on? PyTorch's own functions take 1e-5 unless told.
the batch in evaluation: (x - running_mean) / torch.sqrt(running_var + eps) →
        batch_norm(x, running_mean, running_var, True, momentum, eps)[0]
    Does evaluation read the batch? There y depends on the running statistics alone: any N will do.
the batch in evaluation, even of one: (x - running_mean) → (x - x.mean(dim=0));
        torch.sqrt(running_var + eps) → torch.sqrt(x.var(dim=0, correction=0) + eps)
    Is a sample's output in evaluation made from its batch-mates? Use the running statistics there.
`training` ignored: not training → False
    Is `training` read at all? torch.is_grad_enabled() is another switch, and on here in both modes.
updated in evaluation:
        if not training: return (x - running_mean) / torch.sqrt(running_var + eps), running_mean, running_var →
        evaluated = (x - running_mean) / torch.sqrt(running_var + eps);
        if len(x) == 1: → if training and len(x) == 1:; return y, → return y if training else evaluated,
    Do the running statistics move in evaluation? They move in training only.
running statistics in training: return y, → return (x - running_mean) / torch.sqrt(running_var + eps),
    Is the training batch normalised by the updated running statistics? It uses its own mean and variance.
running statistics never moved: running_mean = → new_mean =; running_var = → new_var =
    Do the running statistics move in training? Return the new ones.
one sample accepted: if len(x) == 1: raise ValueError("x: more than one sample wanted in training") →
    What is the unbiased variance of one sample? 0/0: in training raise a ValueError where N is 1.
one sample always refused: if not training: → if len(x) == 1: raise ValueError ⏎ if not training:
    Is one sample refused in evaluation too? There no batch statistic is taken: any N will do.
variance first: every running_mean, running_var → running_var, running_mean
    Is the order (y, running_mean, running_var)? The variance seems to come second.
running statistics replaced: (1 - momentum) * running_mean + momentum * mean → mean;
        (1 - momentum) * running_var + momentum * x.var( → x.var(
    Do the batch's statistics replace the running ones? (1 − momentum) of the old ones stays.
old value not scaled: every (1 - momentum) * →
    Is the old value multiplied by 1 − momentum? The two shares add up to 1.
momentum left at its default: every momentum → 0.1
    Is `momentum` handed on? PyTorch's own functions take 0.1 unless told.
running deviation: momentum * x.var( → momentum * x.std(
    Does running_var move towards std()? It holds variances.
old running statistics in training: (x - mean) → (x - running_mean); x.var(dim=0, correction=0) → running_var
    Is the training batch normalised by the running statistics? It uses its own mean and variance.
no ε in evaluation: running_var + eps → running_var
    Where is ε in evaluation? It is added to the variance in both modes.
ε outside the root in evaluation: torch.sqrt(running_var + eps) → (torch.sqrt(running_var) + eps)
    Is ε outside the root in evaluation? It is added to the variance in both modes.
"""

HINTS = """
Two branches: `if not training` needs one line, with the running statistics in place of the batch's.
In training: mean and x.var(dim=0, correction=0) for y; x.var(dim=0, correction=1) for running_var.
New names on the left: running_var = (1 - momentum) * running_var + …; running_var *= … would change it.
"""

EXERCISE = exercise(__doc__, batch_norm, _cases, MISTAKES, HINTS, claims="C10 C12", **FLOAT32)
