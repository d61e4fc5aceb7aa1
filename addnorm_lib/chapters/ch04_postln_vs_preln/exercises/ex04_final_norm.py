"""4.4: find the bug: a Pre-LN stack whose output grows with its depth."""

import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, layer_norm, turn
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal, sine, square


def pre_ln_stack(x, sublayers, norm):
    """Return what a Pre-LN stack hands to the classifier, for x (B, D): every row has mean 0, variance 1 at any depth.

    Each F in `sublayers` makes one block; `norm` is LN.
    """
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
    return norm(x)


def _cases():
    return [
        (torch.tensor([[1.0, 1.0, -1.0, -1.0]]), [turn, turn, turn], layer_norm),
        (torch.tensor([[1.0, 2.0, 6.0]]), [], layer_norm),
        ((3 + 2 * normal(3, 4)).float(), [sine, square], layer_norm),
        (normal(3, 5, seed=1).float(), [square, turn, sine], layer_norm),
    ]


MISTAKES = """
Post-LN instead: x + sublayer(norm(x)) → norm(x + sublayer(x)); return norm(x) → return x
    Did the blocks become Post-LN? They were right; something is missing after the last one.
a norm after every block: x + sublayer(norm(x)) → norm(x + sublayer(norm(x))); return norm(x) → return x
    Is the new norm inside the loop? Then every block normalises the stream; once, at the end, will do.
the shortcut normalised: x + → norm(x) +; return norm(x) → return x
    Is x normalised on the shortcut? That breaks the clear path, and the last sum still grows.
a norm before the stack: for sublayer → x = norm(x) ⏎ for sublayer; return norm(x) → return x
    Is the norm before the stack? The blocks add to the stream after it: the output grows all the same.
before and after the stack: for sublayer → x = norm(x) ⏎ for sublayer
    Is there a norm before the first block, too? One at the end is enough; the stream starts as x.
the branches unnormalised: sublayer(norm(x)) → sublayer(x)
    Have the norms inside the branches gone? They stay; the final norm comes in addition.
divided by √(L + 1): return norm(x) → return x / (len(sublayers) + 1) ** 0.5
    Is the output divided by √(L + 1)? That suits unrelated branches of variance 1 only.
only scaled: return norm(x) → return x / x.std(dim=-1, keepdim=True, correction=0)
    Is the output divided by its deviation, but the mean left in? norm does both.
return in the loop: for sublayer in sublayers: return norm(x + sublayer(norm(x)))
    Does return stand inside the loop? Then the stack ends after its first block.
the whole batch: return norm(x) → return (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5)
    Are mean and variance taken over the whole batch? Every row has its own: use norm.
the whole batch, by std(): return norm(x) → return (x - x.mean()) / x.std()
    Are y.mean() and y.std() the whole batch's? Every row has its own: use norm.
sandwich: sublayer(norm(x)) → norm(sublayer(norm(x))); return norm(x) → return x
    Is each branch's output normalised? The sum of the branches still grows with their number.
sandwich and a final norm: sublayer(norm(x)) → norm(sublayer(norm(x)))
    The final norm is right; is there a new one behind F, too? The blocks were right as they were.
branch norm: sublayer(norm(x)) → norm(sublayer(x)); return norm(x) → return x
    Has the norm moved behind F? The blocks were right; something is missing after the last one.
branch norm and a final norm: sublayer(norm(x)) → norm(sublayer(x))
    The final norm is right; has the one in the branch moved behind F? F still reads LN(x).
the shortcut normalised and a final norm: x + → norm(x) +
    The final norm is right; does x = norm(x) stand in the loop? The shortcut carries x itself.
no shortcut: x + →
    The final norm is right; where has the shortcut gone? Each block still adds x.
divided by L: return norm(x) → return x / len(sublayers)
    Is the output divided by the number of blocks? That leaves the mean in and fits no row exactly.
branches divided by √L: sublayer(norm(x)) → sublayer(norm(x)) / len(sublayers) ** 0.5; return norm(x) → return x
    Are the branches divided by √L? Then the output grows less, but its mean is not 0, nor its variance 1.
the wrong deviation: return norm(x) → return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    Does std() divide by D − 1? LN divides by D, and norm is at hand.
the last block left out: in sublayers → in sublayers[:-1]
    The final norm is right; has the last block gone?
"""

HINTS = """
Print the output's variance for 1, 4, 16 sublayers. Which line of the stack could keep it level?
In Pre-LN every norm stands inside a branch. So who normalises what leaves the last block?
"""

EXERCISE = exercise(
    __doc__, pre_ln_stack, _cases, MISTAKES, HINTS, claims="D1", starter="return norm(x) → return x", **FLOAT32
)
