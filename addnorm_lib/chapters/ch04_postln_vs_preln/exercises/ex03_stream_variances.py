"""4.3: an experiment: the variance of a Pre-LN stream."""

import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, layer_norm, turn
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal, sine, square


def stream_variances(x, sublayers, norm):
    """Return [Var x₀, Var x₁, …, Var x_L] of a Pre-LN stack: x₀ is x (B, D), and each F in `sublayers` makes one block.

    An experiment: run the blocks, x ← x + F(LN(x)), and measure the residual stream. The variance is over all elements
    of x, divided by their number (correction=0). Return a list of L + 1 floats; `norm` is LN.
    """
    variances = [x.var(correction=0).item()]
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
        variances.append(x.var(correction=0).item())
    return variances


def _cases():
    return [  # (1, 1, −1, −1) turned by one place is at right angles to itself: each block adds exactly 1
        (torch.tensor([[1.0, 1.0, -1.0, -1.0]]), [turn, turn, turn], layer_norm),
        ((3 + 2 * normal(3, 4)).float(), [sine, square], layer_norm),
        ((torch.arange(3.0)[:, None] + normal(3, 5, seed=1)).float(), [square, turn, sine, turn], layer_norm),
    ]


MISTAKES = """
the norm's output: every x.var( → norm(x).var(
    Is that the variance of LN(x), 1 everywhere? F reads LN(x); the stream itself is never normalised.
Post-LN: x + sublayer(norm(x)) → norm(x + sublayer(x))
    Is the sum normalised in every block? That is Post-LN, which holds the variance at 1; here it grows.
the shortcut taken after the norm: x + → norm(x) +
    Does x = norm(x) stand in the loop? Then every block starts again at variance 1.
each block reads the start: x = → y =; append(x.var( → append(y.var(
    Does every block start from x₀? A block reads what the block before it has left: overwrite x.
no norm: sublayer(norm(x)) → sublayer(x)
    Where is the norm? Without it each branch grows with the stream, and the variance doubles.
what is added: x = x + sublayer(norm(x)) → branch = sublayer(norm(x)) ⏎ x = x + branch;
        append(x.var( → append(branch.var(
    Is that the variance of what each branch adds? The stream is the sum of all of it.
standard deviation: every x.var( → x.std(
    Are these standard deviations? Variances add: 1, 2, 3, …; their roots do not.
unbiased: every correction=0 →
    Is the sum divided by n − 1? torch does that unless correction=0 is given.
mean square: every x.var(correction=0) → (x**2).mean()
    Is that the mean square? A variance takes the mean off first.
row by row: every x.var(correction=0) → x.var(dim=-1, correction=0).mean()
    Is the variance taken in each row, then averaged? That leaves out how the rows' means differ.
no start: [x.var(correction=0).item()] → []
    Is the start missing? The first entry is the variance of x itself, before any block.
only the end: return variances → return variances[-1:]
    Is that the last variance alone? One entry after every block is wanted, and one for the start.
no end: return variances → return variances[:-1]
    Is the last block's output missing? The start has its entry; append after each block, too.
column by column: every x.var(correction=0) → x.var(dim=0, correction=0).mean()
    Is the variance taken in each column, then averaged? It is over all elements of x at once.
one tensor in every entry: return variances → return variances[-1:] * len(variances)
    Does x += … change the tensor that the list holds already? Write x = x + …, or measure at once.
no shortcut: x + →
    Where is the shortcut? The block still adds x.
the final norm measured, too: return variances → return [*variances[:-1], norm(x).var(correction=0).item()]
    Is the last entry the variance after a final norm? The stream is wanted as the blocks leave it.
before the block: x = x + sublayer(norm(x)) → variances.append(x.var(correction=0).item());
        variances.append(x.var(correction=0).item()) → x = x + sublayer(norm(x))
    Is the variance measured before the block's sum instead of after it? The start then appears twice.
"""

HINTS = """
Predict first: a branch that adds variance 1, unrelated to x, makes of Var x …?
Start the list with x's variance; in the loop, overwrite x with the block's output, then append.
"""

EXERCISE = exercise(__doc__, stream_variances, _cases, MISTAKES, HINTS, claims="D2 D4", **FLOAT32)
