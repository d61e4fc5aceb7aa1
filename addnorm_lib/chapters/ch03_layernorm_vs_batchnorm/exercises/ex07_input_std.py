"""3.7: make layer norm fail: how small must a token be?."""

import math

from addnorm_lib.course.exercises.define import exercise


def input_std(output_std, eps):
    """Return the deviation σ of a token that layer norm (γ = 1, β = 0) gives the deviation `output_std`.

    Both are biased deviations, numbers of at least 0; return a float. Raise ValueError where no token can have such an
    output: from 1 on.
    """
    if output_std >= 1:
        raise ValueError("output_std: a number below 1 wanted")
    return output_std * math.sqrt(eps / (1 - output_std**2))


def _cases():
    return [(0.6, 0.04), (0.8, 1e-4), (0.1, 1e-12), (0.0, 1e-5), (1.0, 1e-5), (1.5, 1e-5)]


MISTAKES = """
the output's deviation: * math.sqrt(eps / (1 - output_std**2)) → / math.sqrt(output_std**2 + eps)
    Is `output_std` put into the norm once more? That is the way forward; σ is what goes in.
the variance: output_std * math.sqrt( → output_std**2 * (
    Is this σ²? Take the root: a deviation is wanted.
output_std as a variance: output_std * math.sqrt(eps → math.sqrt(output_std * eps; 1 - output_std**2 → 1 - output_std
    Is `output_std` taken for the variance σ²/(σ² + ε)? It is that variance's root.
ε outside the root: math.sqrt( → (; 1 - output_std**2 → 1 - output_std
    Is this solved from σ/(σ + ε)? ε stands under the root: the output's deviation is σ/√(σ² + ε).
small tokens only: eps / (1 - output_std**2) → eps
    Is σ² left out beside ε? σ/√ε holds only far below √ε; solve s² = σ²/(σ² + ε) in full.
√ε: output_std * math.sqrt(eps / (1 - output_std**2)) → math.sqrt(eps)
    Is this √ε, whatever `output_std` is? At σ = √ε the output's variance is ½.
plus: 1 - output_std**2 → 1 + output_std**2
    Is the sign under the root right? s²·(σ² + ε) = σ² gives σ²·(1 − s²) = s²·ε.
root of ε alone: math.sqrt(eps / (1 - output_std**2)) → math.sqrt(eps) / (1 - output_std**2)
    Is 1 − s² under the root too? σ² = s²·ε/(1 − s²), and the root is taken of it all.
square forgotten: 1 - output_std**2 → 1 - output_std
    Is that 1 − s? s² = σ²/(σ² + ε): the square stays.
no limit at 1: if output_std >= 1: raise ValueError("output_std: a number below 1 wanted") →
    Can the output's deviation be 1? σ²/(σ² + ε) stays below 1 for every finite σ: raise a ValueError.
infinite at 1: raise ValueError("output_std: a number below 1 wanted") → return math.inf
    Is there a token of infinite deviation? No token reaches 1: raise a ValueError.
ε for √ε: math.sqrt(eps / (1 - output_std**2)) → eps / math.sqrt(1 - output_std**2)
    Is ε under the root, too? σ² = s²·ε/(1 − s²), and the root is taken of it all.
s lost: output_std * →
    Where is s in the numerator? σ² = s²·ε/(1 − s²).
s not squared: output_std * math.sqrt(eps → math.sqrt(output_std * eps
    Is s squared in the numerator? σ² = s²·ε/(1 − s²).
no root, s not squared: math.sqrt( → (
    Is the root missing, and a square? σ² = s²·ε/(1 − s²).
ε always 1e-5: eps → 1e-5
    Is ε written as 1e-5? Use the argument `eps`.
negative: return output_std → return -output_std
    Is that the negative root? A deviation is at least 0.
0.5 always: output_std * math.sqrt(eps / (1 - output_std**2)) → math.sqrt(eps / 3)
    Is that σ for an output of 0.5 only? Keep `output_std` in the formula.
"""

HINTS = """
Before γ, the output's variance is σ²/(σ² + ε). Set it equal to output_std² and solve for σ.
s²·(σ² + ε) = σ², so σ² = s²·ε/(1 − s²). Which s makes that impossible?
"""

EXERCISE = exercise(__doc__, input_std, _cases, MISTAKES, HINTS, claims="C3 C4", rtol=1e-5, atol=0.0)
