"""4.1: the Post-LN block, as the Transformer was published."""

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, block_cases
from addnorm_lib.course.exercises.define import exercise


def post_ln(x, sublayer, norm):
    """Return the Post-LN block's output for x (..., D): `sublayer` is F, `norm` is LN; both keep the shape."""
    return norm(x + sublayer(x))


MISTAKES = """
Pre-LN: return x + sublayer(norm(x))
    Is that Pre-LN? Vaswani et al. 2017, section 3.1, normalise the sum, whatever later code does.
the shortcut normalised: return norm(x) + sublayer(x)
    Does only the shortcut pass through the norm? The norm takes the sum, after the addition.
the branch normalised: return x + norm(sublayer(x))
    Does only F(x) pass through the norm? With F = 0 this gives x; Post-LN gives LN(x) even then.
no norm: return x + sublayer(x)
    Where is the norm? This is the residual sum alone.
no shortcut: return norm(sublayer(x))
    Where is the shortcut? The norm takes x + F(x).
each normalised: return norm(x) + norm(sublayer(x))
    Are x and F(x) normalised one by one? LN of a sum is not the sum of the LNs: add first.
before and after: return norm(x + sublayer(norm(x)))
    Is there a norm before F as well? Post-LN has one norm: F reads x itself.
norm first: return norm(x) + sublayer(norm(x))
    Is x normalised first and the sum left as it is? Turn the order round: add, then normalise.
the normalised x in the sum: return norm(norm(x) + sublayer(x))
    Is x normalised before the sum as well as after it? The shortcut carries x itself into the sum.
normalised at both ends: return norm(norm(x) + sublayer(norm(x)))
    Is x normalised on entry, too? In Post-LN that was the last block's work: this block reads x as it is.
the branch normalised, then the sum: return norm(x + norm(sublayer(x)))
    Does F(x) meet a norm of its own before the sum? Only the sum is normalised.
normalised twice: return norm(norm(x + sublayer(x)))
    Is the sum normalised twice? A second norm only changes rows with hardly any variance: one will do.
F last: return sublayer(norm(x))
    Is this F of LN(x), without a sum? Post-LN adds x and F(x), and normalises at the end.
F of the sum: return sublayer(x + norm(x))
    Does F read the sum? F reads x; then comes the sum, then the norm.
"""

HINTS = """
Two steps: Add, then Norm. What does each of them read?
Post-LN means that the norm is the last thing to happen: norm(…) stands outermost.
"""

EXERCISE = exercise(__doc__, post_ln, block_cases, MISTAKES, HINTS, claims="D1", **FLOAT32)
