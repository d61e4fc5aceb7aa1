"""1.6: which paths carry the gradient."""

import math

from addnorm_lib.course.exercises.define import exercise


def path_shares(n_blocks, gain):
    """Return a list that sums to 1: the share of energy carried by paths through k branches, k = 0 … n_blocks.

    There are C(n, k) paths of length k: at each block a path takes the branch or the shortcut. `gain` is s: each
    branch on a path multiplies the energy by s².
    """
    energies = [math.comb(n_blocks, k) * gain ** (2 * k) for k in range(n_blocks + 1)]
    return [energy / sum(energies) for energy in energies]


def _cases():
    return [(2, 0.5), (3, 1.0), (24, 0.3), (10, 2.0)]


MISTAKES = """
counts alone: * gain ** (2 * k) →
    Do all paths count the same? A path through k branches is damped by s² at each of them.
one path of each length: math.comb(n_blocks, k) * →
    How many paths have length k? There are many ways to choose k blocks out of n_blocks.
amplitude: (2 * k) → k
    Is that s to the power k? Energy is amplitude squared: s² for each branch.
not normalised: / sum(energies) →
    Do the shares sum to 1? Divide by the total energy, which is (1 + s²)^n_blocks.
the empty path left out: range(n_blocks + 1) → range(1, n_blocks + 1)
    Is k = 0 missing? The path that takes every shortcut is a path too, the most important one.
"""

HINTS = """
In how many ways can a path pick k of the n_blocks branches? Python's math.comb counts them.
Paths of length k have energy comb(n_blocks, k) · s^(2k) together; divide by the sum over k.
"""

EXERCISE = exercise(__doc__, path_shares, _cases, MISTAKES, HINTS, claims="B13", rtol=1e-9)
