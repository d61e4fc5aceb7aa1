"""4.2: the Pre-LN block."""

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, block_cases
from addnorm_lib.course.exercises.define import exercise


def pre_ln(x, sublayer, norm):
    """Return the Pre-LN block's output for x (..., D): `sublayer` is F, `norm` is LN; both keep the shape."""
    return x + sublayer(norm(x))


MISTAKES = """
the shortcut taken after the norm: return norm(x) + sublayer(norm(x))
    Does the shortcut start after the norm, as after x = norm(x)? It must carry x itself, around both.
Post-LN: return norm(x + sublayer(x))
    Is that Post-LN? In Pre-LN nothing happens after the sum: with F = 0 the block returns x.
the shortcut normalised: return norm(x) + sublayer(x)
    Is the norm on the shortcut instead of the branch? F reads LN(x), and x goes around.
the branch's output normalised: return x + norm(sublayer(x))
    Is the norm behind F? Pre means before: F reads LN(x).
sandwich: return x + norm(sublayer(norm(x)))
    Is there a second norm behind F? That is the sandwich placement; Pre-LN has one norm, before F.
no shortcut: return sublayer(norm(x))
    Where is the shortcut? The block still adds x.
no norm: return x + sublayer(x)
    Where is the norm? F reads LN(x).
before and after: return norm(x + sublayer(norm(x)))
    Is the sum normalised as well? Then the path for x is closed again; one norm, inside the branch.
normalised at both ends: return norm(norm(x) + sublayer(norm(x)))
    Is x overwritten by its norm, and the sum normalised too? Only F's input is.
F before the norm: return norm(sublayer(x))
    Are F and the norm in the wrong order, and x forgotten? First the norm, then F, then add x.
F of the sum: return sublayer(x + norm(x))
    Does F read the sum? F reads LN(x) alone; x is added to what F returns.
"""

HINTS = """
Draw the path of x from the input to the output: it must meet nothing but a plus sign.
Pre-LN means that the norm is the first thing on the branch: F reads norm(x).
"""

EXERCISE = exercise(__doc__, pre_ln, block_cases, MISTAKES, HINTS, claims="D1", **FLOAT32)
