"""2.4: a residual block that trains at depth 32 without a norm."""

import math

from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import Shown, normal, sine, square, vector

turn = Shown(lambda z: z.roll(1), "z ↦ (z₄, z₁, z₂, z₃)")


def normless_block(x, branch, depth):
    """Return the output of one of L = `depth` residual blocks without a norm; `branch` is F, with Var F(x) = Var x.

    Scale F(x) so that the variance grows by the factor 1 + 1/L a block: by less than e over all of them.
    """
    return x + branch(x) / math.sqrt(depth)


def _cases():
    return [
        (vector(1.0, 1.0, -1.0, -1.0), turn, 4),  # Var F(x) = Var x, no covariance: from 1 to 1.25
        (vector(1.0, -2.0), square, 16),
        (normal(2, 3), sine, 32),
        (normal(3), square, 1),
    ]


MISTAKES = """
no factor: / math.sqrt(depth) →
    Is there no factor? Then the variance doubles in every block: 2^32 after 32.
1/L: math.sqrt(depth) → depth
    Is the factor 1/L? Variances add, not amplitudes: that lets all L branches add only 1/L together.
the shortcut scaled too: x + branch(x) → (x + branch(x))
    Is x scaled too? After L blocks the shortcut would carry x·L^(−L/2): nothing.
the average: return (x + branch(x)) / math.sqrt(2)
    Is the sum divided by √2? The variance stays level, but the shortcut halves x's share in every block.
the shortcut alone scaled: return x / math.sqrt(depth) + branch(x)
    Is the factor on the shortcut? It belongs on the branch: the shortcut must stay the identity.
inside the branch: return x + branch(x / math.sqrt(depth))
    Does F read a scaled x? Scale what F returns; a nonlinear F answers a scaled input differently.
no shortcut: x + →
    Where has the shortcut gone? The block still adds x.
precedence: math.sqrt(depth) → depth / 2
    Is that depth ** 1 / 2? It is (depth ** 1) / 2; write depth ** 0.5 or math.sqrt(depth).
all blocks: for _block in range(depth): x = x + branch(x) / math.sqrt(depth) ⏎ return x
    Are these all L blocks? One is wanted; L only sets its factor.
√L: return x + math.sqrt(depth) * branch(x)
    Is the branch multiplied by √L? It must become smaller with depth, not larger.
"""

HINTS = """
With a factor c on F, the variance grows by 1 + c² a block. Which c makes that 1 + 1/L?
c = 1/√L, on the branch only; math.sqrt(depth) is √L.
"""

EXERCISE = exercise(__doc__, normless_block, _cases, MISTAKES, HINTS, claims="B11 B7")
