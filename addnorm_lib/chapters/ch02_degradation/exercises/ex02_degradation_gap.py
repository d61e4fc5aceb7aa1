"""2.2: the degradation gap, with its error."""

import math

import torch

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal, vector


def degradation_gap(deep, shallow):
    """Return (gap, error): by how much the deep net's mean loss is higher, and the standard error of that number.

    `deep`, `shallow` are tensors (S,) of final losses; entry i of both has seed i, so take differences by seed. Return
    two floats.
    """
    difference = torch.as_tensor(deep - shallow)  # NumPy's std() would divide by S
    return difference.mean().item(), difference.std().item() / math.sqrt(len(difference))


def _cases():
    return [
        (vector(1.0, 2.0, 4.0), vector(1.0, 1.0, 1.0)),
        (vector(3.0, 5.0), vector(1.0, 2.0)),
        (1 + normal(8).abs(), normal(8, seed=1).abs()),
        (vector(1.0, 1.5, 1.0), vector(2.0, 1.0, 4.0)),  # a deep net that is better: the gap is negative
    ]


MISTAKES = """
standard deviation: / math.sqrt(len(difference)) →
    Is the error a standard deviation? That is how far one seed strays; the mean of S strays √S less.
divided by S: math.sqrt(len(difference)) → len(difference)
    Is the error divided by S? The mean's error falls as √S.
biased: difference.std() → difference.std(correction=0)
    Is the deviation divided by S instead of S − 1? With few seeds that makes the error too small.
not paired: difference.std().item() / math.sqrt(len(difference)) → math.sqrt((deep.var() + shallow.var()) / len(deep))
    Are the two nets' errors added? The seeds are paired: take the difference seed by seed first.
reversed: difference.mean() → -difference.mean()
    Is the sign reversed? The gap is positive where the deep net is worse.
absolute value: difference.mean() → difference.mean().abs()
    Is the sign dropped? Where the deep net is better the gap is negative, and that must show.
median: difference.mean() → difference.quantile(0.5)
    Is the gap a median? This standard error is the error of the mean.
population deviation: difference.std().item() / math.sqrt(len(difference)) → difference.std(correction=0).item()
    Is the error a standard deviation, divided by S? Divide by S − 1 (NumPy: ddof=1), then by √S.
best against best: difference.mean() → (deep.min() - shallow.min())
    Are the luckiest seeds compared? Take the mean over all seeds.
"""

HINTS = """
First the differences, seed by seed; then their mean.
The standard error of a mean is the differences' standard deviation (with S − 1) divided by √S.
"""

EXERCISE = exercise(__doc__, degradation_gap, _cases, MISTAKES, HINTS, claims="B4")
