"""Chapter 4: Post-LN and Pre-LN."""

import copy
import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from addnorm_lib.exercises.exercise import Exercise, Misconception, NotObservable, Shown
from addnorm_lib.exercises.inputs import normal, sine, square, vector, zero
from addnorm_lib.messages import N_, _

layer_norm = Shown(lambda z: torch.nn.functional.layer_norm(z, z.shape[-1:]), "LN")
turn = Shown(lambda z: z.roll(1, dims=-1), "z ↦ (z_D, z₁, …)")
plus_square = Shown(lambda z: 1 + z**2, "z ↦ 1 + z²")
previous = Shown(lambda z: torch.tanh(z.cumsum(dim=-2)), "z ↦ tanh of the sum of the tokens so far")


def _block_cases():
    return [  # float32, so that torch.nn.LayerNorm takes them; D > 2, as LN makes ±1 of any two numbers
        (torch.tensor([1.0, 2.0, 3.0]), square, layer_norm),
        (torch.tensor([1.0, 2.0, 6.0]), zero, layer_norm),
        ((1 + 2 * normal(2, 4)).float(), sine, layer_norm),
        (normal(2, 3, 5, seed=1).float(), previous, layer_norm),
        (1e-3 * normal(2, 4, seed=2).float(), turn, layer_norm),  # variance below ε: LN of LN is not LN here
    ]


# 4.1 ------------------------------------------------------------------------------------------------------------------


def post_ln(x, sublayer, norm):
    """Return the Post-LN block's output for x (..., D): `sublayer` is F, `norm` is LN; both keep the shape."""
    return norm(x + sublayer(x))


POST = Exercise(
    id="4.1",
    title=N_("the Post-LN block, as the Transformer was published"),
    claims=("D1",),
    solve=post_ln,
    cases=_block_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "Pre-LN",
            lambda x, sublayer, norm: x + sublayer(norm(x)),
            N_("Is that Pre-LN? Vaswani et al. 2017, section 3.1, normalise the sum, whatever later code does."),
        ),
        Misconception(
            "the shortcut normalised",
            lambda x, sublayer, norm: norm(x) + sublayer(x),
            N_("Does only the shortcut pass through the norm? The norm takes the sum, after the addition."),
        ),
        Misconception(
            "the branch normalised",
            lambda x, sublayer, norm: x + norm(sublayer(x)),
            N_("Does only F(x) pass through the norm? With F = 0 this gives x; Post-LN gives LN(x) even then."),
        ),
        Misconception(
            "no norm",
            lambda x, sublayer, norm: x + sublayer(x),
            N_("Where is the norm? This is the residual sum alone."),
        ),
        Misconception(
            "no shortcut",
            lambda x, sublayer, norm: norm(sublayer(x)),
            N_("Where is the shortcut? The norm takes x + F(x)."),
        ),
        Misconception(
            "each normalised",
            lambda x, sublayer, norm: norm(x) + norm(sublayer(x)),
            N_("Are x and F(x) normalised one by one? LN of a sum is not the sum of the LNs: add first."),
        ),
        Misconception(
            "before and after",
            lambda x, sublayer, norm: norm(x + sublayer(norm(x))),
            N_("Is there a norm before F as well? Post-LN has one norm: F reads x itself."),
        ),
        Misconception(
            "norm first",
            lambda x, sublayer, norm: norm(x) + sublayer(norm(x)),
            N_("Is x normalised first and the sum left as it is? Turn the order round: add, then normalise."),
        ),
        Misconception(
            "the normalised x in the sum",
            lambda x, sublayer, norm: norm(norm(x) + sublayer(x)),
            N_("Is x normalised before the sum as well as after it? The shortcut carries x itself into the sum."),
        ),
        Misconception(
            "normalised at both ends",
            lambda x, sublayer, norm: norm(norm(x) + sublayer(norm(x))),
            N_(
                "Is x normalised on entry, too? In Post-LN that was the last block's work: this block reads x as it is."
            ),
        ),
        Misconception(
            "the branch normalised, then the sum",
            lambda x, sublayer, norm: norm(x + norm(sublayer(x))),
            N_("Does F(x) meet a norm of its own before the sum? Only the sum is normalised."),
        ),
        Misconception(
            "normalised twice",
            lambda x, sublayer, norm: norm(norm(x + sublayer(x))),
            N_("Is the sum normalised twice? A second norm only changes rows with hardly any variance: one will do."),
        ),
        Misconception(
            "F last",
            lambda x, sublayer, norm: sublayer(norm(x)),
            N_("Is this F of LN(x), without a sum? Post-LN adds x and F(x), and normalises at the end."),
        ),
        Misconception(
            "F of the sum",
            lambda x, sublayer, norm: sublayer(x + norm(x)),
            N_("Does F read the sum? F reads x; then comes the sum, then the norm."),
        ),
    ),
    hints=(
        N_("Two steps: Add, then Norm. What does each of them read?"),
        N_("Post-LN means that the norm is the last thing to happen: norm(…) stands outermost."),
    ),
)


# 4.2 ------------------------------------------------------------------------------------------------------------------


def pre_ln(x, sublayer, norm):
    """Return the Pre-LN block's output for x (..., D): `sublayer` is F, `norm` is LN; both keep the shape."""
    return x + sublayer(norm(x))


PRE = Exercise(
    id="4.2",
    title=N_("the Pre-LN block"),
    claims=("D1",),
    solve=pre_ln,
    cases=_block_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "the shortcut taken after the norm",
            lambda x, sublayer, norm: norm(x) + sublayer(norm(x)),
            N_("Does the shortcut start after the norm, as after x = norm(x)? It must carry x itself, around both."),
        ),
        Misconception(
            "Post-LN",
            lambda x, sublayer, norm: norm(x + sublayer(x)),
            N_("Is that Post-LN? In Pre-LN nothing happens after the sum: with F = 0 the block returns x."),
        ),
        Misconception(
            "the shortcut normalised",
            lambda x, sublayer, norm: norm(x) + sublayer(x),
            N_("Is the norm on the shortcut instead of the branch? F reads LN(x), and x goes around."),
        ),
        Misconception(
            "the branch's output normalised",
            lambda x, sublayer, norm: x + norm(sublayer(x)),
            N_("Is the norm behind F? Pre means before: F reads LN(x)."),
        ),
        Misconception(
            "sandwich",
            lambda x, sublayer, norm: x + norm(sublayer(norm(x))),
            N_("Is there a second norm behind F? That is the sandwich placement; Pre-LN has one norm, before F."),
        ),
        Misconception(
            "no shortcut",
            lambda x, sublayer, norm: sublayer(norm(x)),
            N_("Where is the shortcut? The block still adds x."),
        ),
        Misconception(
            "no norm",
            lambda x, sublayer, norm: x + sublayer(x),
            N_("Where is the norm? F reads LN(x)."),
        ),
        Misconception(
            "before and after",
            lambda x, sublayer, norm: norm(x + sublayer(norm(x))),
            N_("Is the sum normalised as well? Then the path for x is closed again; one norm, inside the branch."),
        ),
        Misconception(
            "normalised at both ends",
            lambda x, sublayer, norm: norm(norm(x) + sublayer(norm(x))),
            N_("Is x overwritten by its norm, and the sum normalised too? Only F's input is."),
        ),
        Misconception(
            "F before the norm",
            lambda x, sublayer, norm: norm(sublayer(x)),
            N_("Are F and the norm in the wrong order, and x forgotten? First the norm, then F, then add x."),
        ),
        Misconception(
            "F of the sum",
            lambda x, sublayer, norm: sublayer(x + norm(x)),
            N_("Does F read the sum? F reads LN(x) alone; x is added to what F returns."),
        ),
    ),
    hints=(
        N_("Draw the path of x from the input to the output: it must meet nothing but a plus sign."),
        N_("Pre-LN means that the norm is the first thing on the branch: F reads norm(x)."),
    ),
)


# 4.3 ------------------------------------------------------------------------------------------------------------------


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


def _stream_cases():
    return [  # (1, 1, −1, −1) turned by one place is at right angles to itself: each block adds exactly 1
        (torch.tensor([[1.0, 1.0, -1.0, -1.0]]), [turn, turn, turn], layer_norm),
        ((3 + 2 * normal(3, 4)).float(), [sine, square], layer_norm),
        ((torch.arange(3.0)[:, None] + normal(3, 5, seed=1)).float(), [square, turn, sine, turn], layer_norm),
    ]


def _stream(block, measure, start=True, every=True):
    """Build a wrong answer: `block(x, F, LN)` makes the next x, `measure(x, before, F, LN)` is what is recorded."""

    def variances(x, sublayers, norm):
        measured = [measure(x, x, None, norm)] if start else []
        for sublayer in sublayers:
            before, x = x, block(x, sublayer, norm)
            measured.append(measure(x, before, sublayer, norm))
        return measured if every else measured[-1:]

    return variances


def _pre_block(x, sublayer, norm):
    return x + sublayer(norm(x))


def _variance(x, *_others):
    return x.var(correction=0).item()


STREAM = Exercise(
    id="4.3",
    title=N_("an experiment: the variance of a Pre-LN stream"),
    claims=("D2", "D4"),
    solve=stream_variances,
    cases=_stream_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "the norm's output",
            _stream(_pre_block, lambda x, before, sublayer, norm: _variance(norm(x))),
            N_("Is that the variance of LN(x), 1 everywhere? F reads LN(x); the stream itself is never normalised."),
        ),
        Misconception(
            "Post-LN",
            _stream(lambda x, sublayer, norm: norm(x + sublayer(x)), _variance),
            N_("Is the sum normalised in every block? That is Post-LN, which holds the variance at 1; here it grows."),
        ),
        Misconception(
            "the shortcut taken after the norm",
            _stream(lambda x, sublayer, norm: norm(x) + sublayer(norm(x)), _variance),
            N_("Does x = norm(x) stand in the loop? Then every block starts again at variance 1."),
        ),
        Misconception(
            "each block reads the start",
            lambda x, sublayers, norm: [_variance(x), *(_variance(_pre_block(x, f, norm)) for f in sublayers)],
            N_("Does every block start from x₀? A block reads what the block before it has left: overwrite x."),
        ),
        Misconception(
            "no norm",
            _stream(lambda x, sublayer, norm: x + sublayer(x), _variance),
            N_("Where is the norm? Without it each branch grows with the stream, and the variance doubles."),
        ),
        Misconception(
            "what is added",
            _stream(
                _pre_block,
                lambda x, before, sublayer, norm: _variance(x if sublayer is None else sublayer(norm(before))),
            ),
            N_("Is that the variance of what each branch adds? The stream is the sum of all of it."),
        ),
        Misconception(
            "standard deviation",
            _stream(_pre_block, lambda x, *_others: x.std(correction=0).item()),
            N_("Are these standard deviations? Variances add: 1, 2, 3, …; their roots do not."),
        ),
        Misconception(
            "unbiased",
            _stream(_pre_block, lambda x, *_others: x.var().item()),
            N_("Is the sum divided by n − 1? torch does that unless correction=0 is given."),
        ),
        Misconception(
            "mean square",
            _stream(_pre_block, lambda x, *_others: (x**2).mean().item()),
            N_("Is that the mean square? A variance takes the mean off first."),
        ),
        Misconception(
            "row by row",
            _stream(_pre_block, lambda x, *_others: x.var(dim=-1, correction=0).mean().item()),
            N_("Is the variance taken in each row, then averaged? That leaves out how the rows' means differ."),
        ),
        Misconception(
            "no start",
            _stream(_pre_block, _variance, start=False),
            N_("Is the start missing? The first entry is the variance of x itself, before any block."),
        ),
        Misconception(
            "only the end",
            _stream(_pre_block, _variance, every=False),
            N_("Is that the last variance alone? One entry after every block is wanted, and one for the start."),
        ),
        Misconception(
            "no end",
            lambda x, sublayers, norm: stream_variances(x, sublayers, norm)[:-1],
            N_("Is the last block's output missing? The start has its entry; append after each block, too."),
        ),
        Misconception(
            "column by column",
            _stream(_pre_block, lambda x, *_others: x.var(dim=0, correction=0).mean().item()),
            N_("Is the variance taken in each column, then averaged? It is over all elements of x at once."),
        ),
        Misconception(
            "one tensor in every entry",
            lambda x, sublayers, norm: stream_variances(x, sublayers, norm)[-1:] * (len(sublayers) + 1),
            N_("Does x += … change the tensor that the list holds already? Write x = x + …, or measure at once."),
        ),
        Misconception(
            "no shortcut",
            _stream(lambda x, sublayer, norm: sublayer(norm(x)), _variance),
            N_("Where is the shortcut? The block still adds x."),
        ),
        Misconception(
            "the final norm measured, too",
            lambda x, sublayers, norm: [
                *stream_variances(x, sublayers, norm)[:-1],
                _variance(norm(_buggy_pre_ln_stack(x, sublayers, norm))),
            ],
            N_("Is the last entry the variance after a final norm? The stream is wanted as the blocks leave it."),
        ),
        Misconception(
            "before the block",
            lambda x, sublayers, norm: (lambda v: [v[0], *v[:-1]])(stream_variances(x, sublayers, norm)),
            N_("Is the variance measured before the block's sum instead of after it? The start then appears twice."),
        ),
    ),
    hints=(
        N_("Predict first: a branch that adds variance 1, unrelated to x, makes of Var x …?"),
        N_("Start the list with x's variance; in the loop, overwrite x with the block's output, then append."),
    ),
)


# 4.4 ------------------------------------------------------------------------------------------------------------------


def pre_ln_stack(x, sublayers, norm):
    """Return what a Pre-LN stack hands to the classifier, for x (B, D): every row has mean 0, variance 1 at any depth.

    Each F in `sublayers` makes one block; `norm` is LN.
    """
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
    return norm(x)


def _buggy_pre_ln_stack(x, sublayers, norm):
    """Return what a Pre-LN stack hands to the classifier, for x (B, D): every row has mean 0, variance 1 at any depth.

    Each F in `sublayers` makes one block; `norm` is LN.
    """
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
    return x


def _stack_cases():
    return [
        (torch.tensor([[1.0, 1.0, -1.0, -1.0]]), [turn, turn, turn], layer_norm),
        (torch.tensor([[1.0, 2.0, 6.0]]), [], layer_norm),
        ((3 + 2 * normal(3, 4)).float(), [sine, square], layer_norm),
        (normal(3, 5, seed=1).float(), [square, turn, sine], layer_norm),
    ]


def _return_in_the_loop(x, sublayers, norm):
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
        return norm(x)


def _blocks(block):
    def stack(x, sublayers, norm):
        for sublayer in sublayers:
            x = block(x, sublayer, norm)
        return x

    return stack


FINAL_NORM = Exercise(
    id="4.4",
    title=N_("find the bug: a Pre-LN stack whose output grows with its depth"),
    claims=("D1",),
    solve=pre_ln_stack,
    cases=_stack_cases,
    starter=_buggy_pre_ln_stack,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "Post-LN instead",
            _blocks(lambda x, sublayer, norm: norm(x + sublayer(x))),
            N_("Did the blocks become Post-LN? They were right; something is missing after the last one."),
        ),
        Misconception(
            "a norm after every block",
            _blocks(lambda x, sublayer, norm: norm(x + sublayer(norm(x)))),
            N_("Is the new norm inside the loop? Then every block normalises the stream; once, at the end, will do."),
        ),
        Misconception(
            "the shortcut normalised",
            _blocks(lambda x, sublayer, norm: norm(x) + sublayer(norm(x))),
            N_("Is x normalised on the shortcut? That breaks the clear path, and the last sum still grows."),
        ),
        Misconception(
            "a norm before the stack",
            lambda x, sublayers, norm: _buggy_pre_ln_stack(norm(x), sublayers, norm),
            N_("Is the norm before the stack? The blocks add to the stream after it: the output grows all the same."),
        ),
        Misconception(
            "before and after the stack",
            lambda x, sublayers, norm: pre_ln_stack(norm(x), sublayers, norm),
            N_("Is there a norm before the first block, too? One at the end is enough; the stream starts as x."),
        ),
        Misconception(
            "the branches unnormalised",
            lambda x, sublayers, norm: norm(_blocks(lambda x, sublayer, norm: x + sublayer(x))(x, sublayers, norm)),
            N_("Have the norms inside the branches gone? They stay; the final norm comes in addition."),
        ),
        Misconception(
            "divided by √(L + 1)",
            lambda x, sublayers, norm: _buggy_pre_ln_stack(x, sublayers, norm) / math.sqrt(len(sublayers) + 1),
            N_("Is the output divided by √(L + 1)? That suits unrelated branches of variance 1 only."),
        ),
        Misconception(
            "only scaled",
            lambda x, sublayers, norm: (lambda y: y / y.std(dim=-1, keepdim=True, correction=0))(
                _buggy_pre_ln_stack(x, sublayers, norm)
            ),
            N_("Is the output divided by its deviation, but the mean left in? norm does both."),
        ),
        Misconception(
            "return in the loop",
            _return_in_the_loop,
            N_("Does return stand inside the loop? Then the stack ends after its first block."),
        ),
        Misconception(
            "the whole batch",
            lambda x, sublayers, norm: (lambda y: (y - y.mean()) / torch.sqrt(y.var(correction=0) + 1e-5))(
                _buggy_pre_ln_stack(x, sublayers, norm)
            ),
            N_("Are mean and variance taken over the whole batch? Every row has its own: use norm."),
        ),
        Misconception(
            "the whole batch, by std()",
            lambda x, sublayers, norm: (lambda y: (y - y.mean()) / y.std())(_buggy_pre_ln_stack(x, sublayers, norm)),
            N_("Are y.mean() and y.std() the whole batch's? Every row has its own: use norm."),
        ),
        Misconception(
            "sandwich",
            _blocks(lambda x, sublayer, norm: x + norm(sublayer(norm(x)))),
            N_("Is each branch's output normalised? The sum of the branches still grows with their number."),
        ),
        Misconception(
            "sandwich and a final norm",
            lambda x, sublayers, norm: norm(_blocks(lambda x, f, norm: x + norm(f(norm(x))))(x, sublayers, norm)),
            N_("The final norm is right; is there a new one behind F, too? The blocks were right as they were."),
        ),
        Misconception(
            "branch norm",
            _blocks(lambda x, sublayer, norm: x + norm(sublayer(x))),
            N_("Has the norm moved behind F? The blocks were right; something is missing after the last one."),
        ),
        Misconception(
            "branch norm and a final norm",
            lambda x, sublayers, norm: norm(_blocks(lambda x, f, norm: x + norm(f(x)))(x, sublayers, norm)),
            N_("The final norm is right; has the one in the branch moved behind F? F still reads LN(x)."),
        ),
        Misconception(
            "the shortcut normalised and a final norm",
            lambda x, sublayers, norm: norm(_blocks(lambda x, f, norm: norm(x) + f(norm(x)))(x, sublayers, norm)),
            N_("The final norm is right; does x = norm(x) stand in the loop? The shortcut carries x itself."),
        ),
        Misconception(
            "no shortcut",
            lambda x, sublayers, norm: norm(_blocks(lambda x, f, norm: f(norm(x)))(x, sublayers, norm)),
            N_("The final norm is right; where has the shortcut gone? Each block still adds x."),
        ),
        Misconception(
            "divided by L",
            lambda x, sublayers, norm: _buggy_pre_ln_stack(x, sublayers, norm) / len(sublayers),
            N_("Is the output divided by the number of blocks? That leaves the mean in and fits no row exactly."),
        ),
        Misconception(
            "branches divided by √L",
            lambda x, sublayers, norm: _blocks(lambda x, f, norm: x + f(norm(x)) / math.sqrt(len(sublayers)))(
                x, sublayers, norm
            ),
            N_(
                "Are the branches divided by √L? Then the output grows less, but its mean is not 0, nor its variance 1."
            ),
        ),
        Misconception(
            "the wrong deviation",
            lambda x, sublayers, norm: (lambda y: (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True))(
                _buggy_pre_ln_stack(x, sublayers, norm)
            ),
            N_("Does std() divide by D − 1? LN divides by D, and norm is at hand."),
        ),
        Misconception(
            "the last block left out",
            lambda x, sublayers, norm: pre_ln_stack(x, sublayers[:-1], norm),
            N_("The final norm is right; has the last block gone?"),
        ),
    ),
    hints=(
        N_("Print the output's variance for 1, 4, 16 sublayers. Which line of the stack could keep it level?"),
        N_("In Pre-LN every norm stands inside a branch. So who normalises what leaves the last block?"),
    ),
)


# 4.5 ------------------------------------------------------------------------------------------------------------------


def pre_ln_with_dropout(x, sublayer, norm, dropout):
    """Return a Pre-LN block's output for x (..., D); `dropout` thins out what the branch F = `sublayer` adds."""
    return x + dropout(sublayer(norm(x)))


def _buggy_pre_ln_with_dropout(x, sublayer, norm, dropout):
    """Return a Pre-LN block's output for x (..., D); `dropout` thins out what the branch F = `sublayer` adds."""
    return dropout(x + sublayer(norm(x)))


class _Masks:
    """Dropout at p = 1/2 without chance: it keeps elements 1, 3, … at its first call, 2, 4, … at its second."""

    def __init__(self):
        self.calls = 0

    def __call__(self, z):
        kept = torch.arange(z.shape[-1]) % 2 == self.calls % 2
        self.calls += 1
        return 2 * z * kept

    def __repr__(self):
        return "z ↦ 2·(z₁, 0, z₃, …), the first mask for p = 1/2"


def _dropout_cases():
    everything = Shown(torch.zeros_like, "z ↦ 0 (p = 1)")
    return [
        (torch.tensor([1.0, 2.0, 3.0]), plus_square, layer_norm, everything),
        (torch.tensor([1.0, 2.0, 6.0]), turn, layer_norm, _Masks()),
        ((1 + 2 * normal(2, 4)).float(), plus_square, layer_norm, _Masks()),
    ]


DROPOUT = Exercise(
    id="4.5",
    title=N_("find the bug: dropout in the wrong place"),
    claims=("D1",),
    solve=pre_ln_with_dropout,
    cases=_dropout_cases,
    starter=_buggy_pre_ln_with_dropout,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "on the shortcut",
            lambda x, sublayer, norm, dropout: dropout(x) + sublayer(norm(x)),
            N_("Is dropout on the shortcut? A dropped element of x is lost to all blocks that follow."),
        ),
        Misconception(
            "on both",
            lambda x, sublayer, norm, dropout: dropout(x) + dropout(sublayer(norm(x))),
            N_("Is dropout on both summands? That is little better than on the sum: x must stay whole."),
        ),
        Misconception(
            "on the branch's input",
            lambda x, sublayer, norm, dropout: x + sublayer(dropout(norm(x))),
            N_("Is dropout on what F reads? It belongs behind F: with p = 1 the block must return x."),
        ),
        Misconception(
            "before the norm",
            lambda x, sublayer, norm, dropout: x + sublayer(norm(dropout(x))),
            N_("Is dropout before the norm? The norm's statistics then count the holes; it belongs behind F."),
        ),
        Misconception(
            "before and after F",
            lambda x, sublayer, norm, dropout: x + dropout(sublayer(dropout(norm(x)))),
            N_("Is dropout applied twice? Once, to what F returns."),
        ),
        Misconception(
            "no dropout",
            lambda x, sublayer, norm, dropout: x + sublayer(norm(x)),
            N_("Has dropout gone? It stays in the block, but not on the sum."),
        ),
        Misconception(
            "Post-LN",
            lambda x, sublayer, norm, dropout: norm(x + dropout(sublayer(x))),
            N_("Has the norm moved to the sum? Dropout is now right; the block was Pre-LN and stays so."),
        ),
        Misconception(
            "the shortcut taken after the norm",
            lambda x, sublayer, norm, dropout: norm(x) + dropout(sublayer(norm(x))),
            N_("Does the shortcut carry LN(x)? Dropout is now right, but x itself must go around the norm."),
        ),
        Misconception(
            "no norm",
            lambda x, sublayer, norm, dropout: x + dropout(sublayer(x)),
            N_("Where has the norm gone? F still reads LN(x)."),
        ),
        Misconception(
            "no shortcut",
            lambda x, sublayer, norm, dropout: dropout(sublayer(norm(x))),
            N_("Where has x gone? The block still adds it."),
        ),
        Misconception(
            "on the branch and on the sum",
            lambda x, sublayer, norm, dropout: dropout(x + dropout(sublayer(norm(x)))),
            N_("Is dropout still on the sum, too? Once, to what F returns: x must stay whole."),
        ),
        Misconception(
            "a dropout of one's own, p = 0.5",
            lambda x, sublayer, norm, dropout: x + torch.nn.functional.dropout(sublayer(norm(x))),
            N_("Is that PyTorch's dropout with p = 0.5? Call the one that is handed in: dropout(…)."),
        ),
        Misconception(
            "a dropout of one's own, p = 0.1",
            lambda x, sublayer, norm, dropout: x + torch.nn.functional.dropout(sublayer(norm(x)), 0.1),
            N_("Is that PyTorch's dropout with p = 0.1? Call the one that is handed in: dropout(…)."),
        ),
        Misconception(
            "behind another norm",
            lambda x, sublayer, norm, dropout: x + norm(dropout(sublayer(x))),
            N_("Is there a norm between dropout and the sum? The norm stays before F."),
        ),
        Misconception(
            "branch norm",
            lambda x, sublayer, norm, dropout: x + dropout(norm(sublayer(x))),
            N_("Has the norm moved behind F? Dropout is now right; F still reads LN(x)."),
        ),
    ),
    hints=(
        N_("Let dropout erase everything (p = 1). What should the block return then, and what does it return?"),
        N_("x must reach the output whole, so dropout acts on F's output before the sum."),
    ),
)


# 4.6 ------------------------------------------------------------------------------------------------------------------


def as_pre_ln(layer):
    """Return a copy of `layer` with its norms moved to the front: Pre-LN, with the same numbers in every parameter.

    `layer` is a torch.nn.TransformerEncoderLayer with norm_first=False; leave it as it is, and let the copy have
    parameters of its own. Whatever else the layer was built with (activation, eps, …) stays.
    """
    import copy

    twin = copy.deepcopy(layer)
    twin.norm_first = True
    return twin


class TransformerEncoderLayer(torch.nn.TransformerEncoderLayer):
    """PyTorch's layer, printed as the call that makes it, so that a message can name it."""

    def __repr__(self):
        shape = f"{self.self_attn.embed_dim}, {self.self_attn.num_heads}, {self.linear1.out_features}"
        options = f"{self.dropout.p}, {self.activation.__name__}, {self.norm1.eps:g}, {self.self_attn.batch_first}"
        return f"TransformerEncoderLayer({shape}, {options})"


def _encoder_layer(seed, **options):
    """Make a layer for d_model = 4 with all parameters drawn anew, the norms' too: γ = 1, β = 0 would hide mistakes."""
    layer = TransformerEncoderLayer(4, 2, dim_feedforward=6, **{"dropout": 0.0, **options})
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 * seed + i) + (parameter.ndim == 1))
    return layer


def _layer_cases():
    with torch.random.fork_rng(devices=[]):
        other = {"dropout": 0.3, "activation": "gelu", "layer_norm_eps": 0.1, "batch_first": True}
        return [(_encoder_layer(1),), (_encoder_layer(2, **other),)]


def _observe_twin(twin, layer):
    if twin is None:
        raise NotObservable(_("your function returned None: is the return missing?"))
    if not isinstance(twin, torch.nn.TransformerEncoderLayer):
        kind = _("a class") if isinstance(twin, type) else type(twin).__name__
        raise NotObservable(_("an nn.TransformerEncoderLayer wanted, got {kind}").format(kind=kind))
    storages = {parameter.data_ptr() for parameter in layer.parameters()}
    numbers = layer.state_dict()
    seen = {
        "norm_first": twin.norm_first,
        "the original's norm_first": layer.norm_first,
        "shared parameters": sum(parameter.data_ptr() in storages for parameter in twin.parameters()),
        "parameters with the original's numbers": sum(
            name in numbers and torch.equal(numbers[name], parameter) for name, parameter in twin.named_parameters()
        ),
        "n_heads": twin.self_attn.num_heads,
        "dropout": twin.dropout.p,
        "layer_norm_eps": twin.norm1.eps,
        "batch_first": twin.self_attn.batch_first,
    }
    x = normal(2, 3, 4) if layer.self_attn.batch_first else normal(2, 4)  # two tokens or more: one shows no heads
    with torch.no_grad():
        return seen | {"output": twin.eval()(x.float())}


def _rebuilt(layer, left_out=(), **options):
    attention = layer.self_attn
    twin = torch.nn.TransformerEncoderLayer(
        attention.embed_dim, attention.num_heads, layer.linear1.out_features, **options
    )
    twin.load_state_dict({k: v for k, v in layer.state_dict().items() if not k.startswith(left_out)}, strict=False)
    twin.norm_first = True
    return twin


def _everything_kept(layer):
    return {
        "dropout": layer.dropout.p,
        "activation": layer.activation,
        "layer_norm_eps": layer.norm1.eps,
        "batch_first": layer.self_attn.batch_first,
    }


def _twin(change, copier=copy.deepcopy):
    def make(layer):
        twin = copier(layer)
        change(twin)
        return twin

    return make


def _pre(twin):
    twin.norm_first = True


def _swap_norms(twin):
    twin.norm_first, twin.norm1, twin.norm2 = True, twin.norm2, twin.norm1


def _exchange_norms(twin):
    twin.norm1, twin.norm2 = twin.norm2, twin.norm1


def _fresh_norms(twin):
    twin.norm_first, twin.norm1, twin.norm2 = True, torch.nn.LayerNorm(4), torch.nn.LayerNorm(4)


def _one_norm(twin):
    twin.norm_first, twin.norm2 = True, twin.norm1


MOVE = Exercise(
    id="4.6",
    title=N_("move a block's norms and keep its weights"),
    claims=("D1",),
    solve=as_pre_ln,
    cases=_layer_cases,
    observe=_observe_twin,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "in place",
            _twin(_pre, copier=lambda layer: layer),
            N_("Did you move the norms of the original? Both names now hold one Pre-LN layer; copy first."),
        ),
        Misconception(
            "copied too late",
            lambda layer: copy.deepcopy(_twin(_pre, copier=lambda same: same)(layer)),
            N_("Did you set norm_first before you copied? Then the original has moved its norms as well."),
        ),
        Misconception(
            "nothing moved",
            _twin(lambda twin: None),
            N_("Is this still Post-LN? PyTorch's default is norm_first=False."),
        ),
        Misconception(
            "the original itself",
            _twin(lambda twin: None, copier=lambda layer: layer),
            N_("Is this the original itself? Make a copy, then set the copy's norm_first."),
        ),
        Misconception(
            "the norms exchanged, not moved",
            _twin(_exchange_norms),
            N_("Have norm1 and norm2 changed places? That is still Post-LN: norm_first says where the norms stand."),
        ),
        Misconception(
            "activation lost",
            lambda layer: _rebuilt(layer, **{**_everything_kept(layer), "activation": "relu"}),
            N_("Has the activation gone back to ReLU? It is layer.activation."),
        ),
        Misconception(
            "shared parameters",
            _twin(_pre, copier=copy.copy),
            N_("Do both layers share their parameters? Training one would train the other: copy.copy is shallow."),
        ),
        Misconception(
            "fresh weights",
            lambda layer: _rebuilt(layer, ("self_attn", "linear", "norm"), **_everything_kept(layer)),
            N_("Are the weights freshly drawn? Then nothing is compared but luck: hand the old ones on."),
        ),
        Misconception(
            "a brand-new layer",
            lambda layer: _rebuilt(layer, ("self_attn", "linear", "norm")),
            N_(
                "Is this a new layer with PyTorch's defaults? Neither the weights nor the options are those of `layer`."
            ),
        ),
        Misconception(
            "fresh norms",
            _twin(_fresh_norms),
            N_("Do the norms start again at γ = 1, β = 0? Theirs are weights too: move the old ones."),
        ),
        Misconception(
            "options lost",
            lambda layer: _rebuilt(layer),
            N_("Is a new layer built with PyTorch's defaults? Hand on activation, eps, dropout and batch_first."),
        ),
        Misconception(
            "norms swapped",
            _twin(_swap_norms),
            N_("Have the two norms changed places? norm1 stays with the attention, norm2 with the feed-forward part."),
        ),
        Misconception(
            "one norm for both",
            _twin(_one_norm),
            N_("Do both sublayers share one norm? Each has its own γ and β."),
        ),
    ),
    hints=(
        N_("Which attribute of the layer says where its norms stand? Look at vars(layer)."),
        N_("copy.deepcopy(layer) keeps everything; then set the copy's norm_first."),
    ),
)


# 4.7 ------------------------------------------------------------------------------------------------------------------


def learning_rate(step, d_model, warmup_steps):
    """Return the learning rate at `step` = 1, 2, …, by Vaswani et al. 2017, section 5.3, as a float.

    It rises linearly to (d_model · warmup_steps)^(−1/2) at step = warmup_steps, then falls as 1/√step.
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def _rate_cases():
    return [(1, 4, 4), (2, 4, 4), (4, 4, 4), (16, 4, 4), (9, 16, 25), (1000, 512, 4000), (100_000, 512, 4000)]


def _peak(d, w):
    return (d * w) ** -0.5


SCHEDULE = Exercise(
    id="4.7",
    title=N_("warm-up, then 1/√step"),
    claims=("D3",),
    solve=learning_rate,
    cases=_rate_cases,
    atol=0.0,
    misconceptions=(
        Misconception(
            "max for min",
            lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5),
            N_("Is the larger of the two taken? Early 1/√step is the larger: the smaller is wanted on either side."),
        ),
        Misconception(
            "no warm-up",
            lambda s, d, w: d**-0.5 * s**-0.5,
            N_("Is there no warm-up, or a line never below 1/√step? Deep Post-LN needs care at step 1."),
        ),
        Misconception(
            "no decay",
            lambda s, d, w: _peak(d, w) * min(1, s / w),
            N_("Does the rate stay at its peak? After warm-up it falls as 1/√step."),
        ),
        Misconception(
            "rises for ever",
            lambda s, d, w: _peak(d, w) * s / w,
            N_("Does the rate rise for ever? The linear part ends at step = warmup_steps."),
        ),
        Misconception(
            "d_model left out",
            lambda s, d, w: min(s**-0.5, s * w**-1.5),
            N_("Where is d_model? Wider models get a smaller rate, by 1/√d_model."),
        ),
        Misconception(
            "1/d_model",
            lambda s, d, w: min(s**-0.5, s * w**-1.5) / d,
            N_("Is d_model's root missing? The factor is d_model^(−1/2)."),
        ),
        Misconception(
            "√d_model",
            lambda s, d, w: min(s**-0.5, s * w**-1.5) * d**0.5,
            N_("Is the rate multiplied by √d_model? Wider models get a smaller rate."),
        ),
        Misconception(
            "the shape alone",
            lambda s, d, w: min(s / w, (w / s) ** 0.5),
            N_("Is the peak 1? The peak is (d_model · warmup_steps)^(−1/2)."),
        ),
        Misconception(
            "exponent of the warm-up",
            lambda s, d, w: d**-0.5 * min(s**-0.5, s * w**-0.5),
            N_("Is it step · warmup^(−1/2)? At step = warmup_steps both parts must meet: the exponent is −3/2."),
        ),
        Misconception(
            "warm-up to 1/√d_model",
            lambda s, d, w: d**-0.5 * (s / w if s < w else s**-0.5),
            N_("Does the warm-up rise to d_model^(−1/2)? Then the rate jumps where it ends; both parts must meet."),
        ),
        Misconception(
            "warm-up to 1",
            lambda s, d, w: s / w if s < w else (d * s) ** -0.5,
            N_("Does the warm-up rise to 1? Both parts must meet at step = warmup_steps."),
        ),
        Misconception(
            "exponent −1 in the warm-up",
            lambda s, d, w: d**-0.5 * min(s**-0.5, s / w),
            N_("Is it step / warmup_steps? At step = warmup_steps both parts must meet: the exponent is −3/2."),
        ),
        Misconception(
            "the peak over √step",
            lambda s, d, w: _peak(d, w) * (s / w if s <= w else s**-0.5),
            N_("Is the peak divided by √step after the warm-up? Then the rate jumps: it is 1/√(d_model · step)."),
        ),
        Misconception(
            "the peak over √(step − warm-up)",
            lambda s, d, w: _peak(d, w) * (s / w if s <= w else (s - w) ** -0.5),
            N_("Does the decay count its steps from the end of the warm-up? It is 1/√(d_model · step)."),
        ),
        Misconception(
            "the peak over √(step − warm-up + 1)",
            lambda s, d, w: _peak(d, w) * (s / w if s <= w else (s - w + 1) ** -0.5),
            N_("Does the decay start again at step 1 when the warm-up ends? It is 1/√(d_model · step)."),
        ),
        Misconception(
            "the peak without its root",
            lambda s, d, w: min(s / w, (w / s) ** 0.5) / (d * w),
            N_("Is the peak's root missing? It is (d_model · warmup_steps)^(−1/2)."),
        ),
        Misconception(
            "the peak's exponent positive",
            lambda s, d, w: min(s / w, (w / s) ** 0.5) * (d * w) ** 0.5,
            N_("Is the sign of the peak's exponent lost? It is (d_model · warmup_steps)^(−1/2), well below 1."),
        ),
        Misconception(
            "precedence",
            lambda s, d, w: d**-1 / 2 * min(s**-1 / 2, s * w**-3 / 2),
            N_("Is that ** -1 / 2? Python reads it as (… ** −1) / 2; write ** -0.5 and ** -1.5."),
        ),
        Misconception(
            "steps from 0",
            lambda s, d, w: d**-0.5 * min((s + 1) ** -0.5, (s + 1) * w**-1.5),
            N_("Is 1 added to the step? Steps are counted from 1 already."),
        ),
        Misconception(
            "a step behind",
            lambda s, d, w: d**-0.5 * (min((s - 1) ** -0.5, (s - 1) * w**-1.5) if s > 1 else 0.0),
            N_("Is 1 taken off the step? The first step has a rate above 0 already."),
        ),
        Misconception(
            "1/step",
            lambda s, d, w: _peak(d, w) * min(s / w, w / s),
            N_("Does the rate fall as 1/step? The decay is by the root: 1/√step."),
        ),
        Misconception(
            "restarted decay",
            lambda s, d, w: d**-0.5 * (s * w**-1.5 if s <= w else (s - w) ** -0.5),
            N_("Does the decay count its steps from the end of the warm-up? Then the rate jumps; it is step^(−1/2)."),
        ),
        Misconception(
            "warm-up by the root",
            lambda s, d, w: _peak(d, w) * min((s / w) ** 0.5, (w / s) ** 0.5),
            N_("Does the rate rise as √step? The warm-up is linear; only the decay has a root."),
        ),
    ),
    hints=(
        N_("Write the two parts one by one: a line through 0, and c/√step. Where must they meet?"),
        N_("min(step^(−1/2), step · warmup_steps^(−3/2)), times d_model^(−1/2)."),
    ),
)


# 4.8 ------------------------------------------------------------------------------------------------------------------

_PLACED = {"A": "branch", "B": "post", "C": "sandwich", "D": "pre"}

PLACEMENT = Exercise(
    id="4.8",
    title=N_("an experiment: four blocks, four placements"),
    claims=("D1", "D2"),
    solve=_PLACED,
    cases=None,
    value_name="placements",
    value_stub="""\
# Replace ... by a dict: each of "A", "B", "C", "D" is "post", "pre", "sandwich" or "branch".
# Ask the blocks: blocks["A"](x, sublayer) takes any sublayer that you can think of; what does F = 0 give?
placements = ...""",
    value_source='placements = {"A": "branch", "B": "post", "C": "sandwich", "D": "pre"}',
    misconceptions=(
        Misconception(
            "pre and post swapped",
            {**_PLACED, "B": "pre", "D": "post"},
            N_("Are pre and post the wrong way round? With F = 0 Pre-LN returns x itself, Post-LN returns LN(x)."),
        ),
        Misconception(
            "pre and branch swapped",
            {**_PLACED, "A": "pre", "D": "branch"},
            N_(
                "Are pre and branch the wrong way round? Try F(z) = 1000 z: a norm behind F takes the factor off again."
            ),
        ),
        Misconception(
            "sandwich and branch swapped",
            {**_PLACED, "A": "sandwich", "C": "branch"},
            N_("Are sandwich and branch the wrong way round? Let F print what it reads: x, or LN(x)?"),
        ),
        Misconception(
            "sandwich and pre swapped",
            {**_PLACED, "C": "pre", "D": "sandwich"},
            N_("Are sandwich and pre the wrong way round? Try F(z) = 1000 z: which block does not care?"),
        ),
        Misconception(
            "post and branch swapped",
            {**_PLACED, "A": "post", "B": "branch"},
            N_("Are post and branch the wrong way round? Take x with mean 5: whose output has mean 0?"),
        ),
        Misconception(
            "all pre but one",
            {**_PLACED, "A": "pre", "C": "pre"},
            N_("Is every block that returns x for F = 0 a pre? Three placements do that; try another F."),
        ),
        Misconception(
            "turned round",
            {"A": "pre", "B": "sandwich", "C": "post", "D": "branch"},
            N_("Is each placement taken for its opposite? Start with F = 0: one block alone does not return x."),
        ),
    ),
    hints=(
        N_("F = 0: torch.zeros_like as the sublayer. One block alone changes x then."),
        N_("For the other three: does F read x or LN(x) (let it print), and does 1000·F change the output?"),
    ),
)


# 4.9 ------------------------------------------------------------------------------------------------------------------

_STATED = {"A": False, "B": False, "C": True, "D": False, "E": True, "F": True}

STATEMENTS = Exercise(
    id="4.9",
    title=N_("six statements, decided by running them"),
    claims=("D1", "D2", "D3", "D4"),
    solve=_STATED,
    cases=None,
    value_name="statements",
    value_stub="""\
# Replace ... by a dict: each of "A" to "F" is True or False. A line of code decides each better than memory.
# A: nn.TransformerEncoderLayer(d_model, n_heads) is a Pre-LN layer.
# B: nn.TransformerEncoder(layer, 6) puts a norm after the last layer, where `layer` is a Pre-LN layer.
# C: The layers of a new nn.TransformerEncoder all start from the same numbers.
# D: In a new Pre-LN stack every layer receives an equally large gradient.
# E: A Post-LN stack of 6 layers can be trained without warm-up.
# F: In a new Pre-LN stack the variance of the residual stream grows from block to block.
statements = ...""",
    value_source='statements = {"A": False, "B": False, "C": True, "D": False, "E": True, "F": True}',
    misconceptions=(
        Misconception(
            "Pre-LN by default",
            {**_STATED, "A": True},
            N_(
                "Is A true? Read norm_first's default with inspect.signature: it is Post-LN, as in Vaswani et al. 2017."
            ),
        ),
        Misconception(
            "a final norm by itself",
            {**_STATED, "B": True},
            N_("Is B true? Look at the encoder's .norm: it is None unless you hand one over."),
        ),
        Misconception(
            "drawn one by one",
            {**_STATED, "C": False},
            N_("Is C false? Compare two layers' weights: the encoder deep-copies the layer that it is given."),
        ),
        Misconception(
            "equal gradients",
            {**_STATED, "D": True},
            N_("Is D true? Later layers add to a stream that has grown: their gradients are smaller. Measure them."),
        ),
        Misconception(
            "warm-up always",
            {**_STATED, "E": False},
            N_("Is E false? Depth decides: 6 layers learn without warm-up; it is the deep stack that needs care."),
        ),
        Misconception(
            "a normalised stream",
            {**_STATED, "F": False},
            N_(
                "Is F false? LN(x) has variance 1, but only F reads it; the stream adds up all branches (exercise 4.3)."
            ),
        ),
        Misconception(
            "all true",
            dict.fromkeys(_STATED, True),
            N_("Are all six true? Three are not; each takes one line to refute."),
        ),
        Misconception(
            "all false",
            dict.fromkeys(_STATED, False),
            N_("Are all six false? Three are true; each takes one line to show."),
        ),
    ),
    hints=(
        N_("inspect.signature and the modules' attributes settle A, B and C."),
        N_("Autograd settles D, exercise 4.3 settles F, and this chapter's warm-up experiment settles E."),
    ),
)


# 4.10 -----------------------------------------------------------------------------------------------------------------


def deepnorm_block(x, weight, norm, n_layers):
    """Return a DeepNorm block's output for x (..., D) in an encoder with N = `n_layers` layers, at initialisation.

    F(x) = x (βW)ᵀ, where `weight` is W (D, D) as Xavier's rule drew it, α = (2N)^(1/4), β = (8N)^(−1/4); `norm` is LN.
    The block is Post-LN, with α on the shortcut (Wang et al. 2022, section 3).
    """
    alpha, beta = (2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25
    return norm(alpha * x + x @ (beta * weight).T)


def _deepnorm_cases():
    weight = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 4.0, 0.0]])
    return [
        (torch.tensor([1.0, 2.0, 4.0]), weight, layer_norm, 8),  # α = 2, β = 64^(−1/4) = 1/√8
        (torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]), weight, layer_norm, 2),  # α = √2, β = 1/2
        ((1 + normal(2, 4)).float(), normal(4, 4, seed=1).float(), layer_norm, 50),
    ]


def _deepnorm(block, alpha=lambda n: (2 * n) ** 0.25, beta=lambda n: (8 * n) ** -0.25):
    """Build a wrong answer: `block(x, F, LN, α)` with constants that may be wrong, too."""

    def answer(x, weight, norm, n_layers):
        return block(x, lambda z: z @ (beta(n_layers) * weight).T, norm, alpha(n_layers))

    return answer


def _deepnorm_sum(x, f, norm, alpha):
    return norm(alpha * x + f(x))


DEEPNORM = Exercise(
    id="4.10",
    title=N_("DeepNorm: what makes Post-LN deep"),
    claims=("D4",),
    solve=deepnorm_block,
    cases=_deepnorm_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "α on the branch",
            _deepnorm(lambda x, f, norm, alpha: norm(x + alpha * f(x))),
            N_("Is α on the branch, or 1/α on the shortcut? To LN both are one; α > 1 makes the shortcut weigh more."),
        ),
        Misconception(
            "α and β exchanged",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (8 * n) ** -0.25, beta=lambda n: (2 * n) ** 0.25),
            N_("Have α and β changed places? α > 1 is for the shortcut, β < 1 for the weights."),
        ),
        Misconception(
            "the square root",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (2 * n) ** 0.5, beta=lambda n: (8 * n) ** -0.5),
            N_("Are these square roots? The exponents are 1/4 and −1/4."),
        ),
        Misconception(
            "precedence",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (2 * n) ** 1 / 4, beta=lambda n: (8 * n) ** -1 / 4),
            N_("Is that ** 1 / 4? Python reads it as (… ** 1) / 4; write ** 0.25 or ** (1 / 4)."),
        ),
        Misconception(
            "2 and 8 outside the power",
            _deepnorm(_deepnorm_sum, alpha=lambda n: 2 * n**0.25, beta=lambda n: 8 * n**-0.25),
            N_("Is that 2 * n_layers ** 0.25? Python takes the power first: write (2 * n_layers) ** 0.25."),
        ),
        Misconception(
            "sublayers counted",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (4 * n) ** 0.25, beta=lambda n: (16 * n) ** -0.25),
            N_("Is N counted in sublayers? N is the number of layers; the 2 in 2N counts each layer's two sublayers."),
        ),
        Misconception(
            "the decoder's constants",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (3 * n) ** 0.25, beta=lambda n: (12 * n) ** -0.25),
            N_("Are these (3M)^(1/4) and (12M)^(−1/4)? They are a decoder's, whose layers have three sublayers."),
        ),
        Misconception(
            "no α",
            _deepnorm(lambda x, f, norm, alpha: norm(x + f(x))),
            N_("Where is α, or does F read αx, too? LN undoes a factor on the whole sum: scale the shortcut alone."),
        ),
        Misconception(
            "no β",
            _deepnorm(_deepnorm_sum, beta=lambda n: 1.0),
            N_("Where is β? The branch starts with the weights βW."),
        ),
        Misconception(
            "plain Post-LN",
            _deepnorm(lambda x, f, norm, alpha: norm(x + f(x)), beta=lambda n: 1.0),
            N_("Are α and β both missing? This is Post-LN as it always was."),
        ),
        Misconception(
            "β of the wrong sign",
            _deepnorm(_deepnorm_sum, beta=lambda n: (8 * n) ** 0.25),
            N_("Is β = (8N)^(1/4)? It is below 1: the deeper the net, the smaller its branches start."),
        ),
        Misconception(
            "the tenth root",
            _deepnorm(_deepnorm_sum, alpha=lambda n: (2 * n) ** 0.1, beta=lambda n: (8 * n) ** -0.1),
            N_("Are the exponents 1/10? An encoder's are 1/4 and −1/4."),
        ),
        Misconception(
            "α outside the norm",
            _deepnorm(lambda x, f, norm, alpha: alpha * norm(x + f(x))),
            N_("Does α multiply what LN returns? It belongs on the shortcut, inside LN."),
        ),
        Misconception(
            "α outside, on the shortcut",
            _deepnorm(lambda x, f, norm, alpha: alpha * x + norm(f(x))),
            N_("Does the norm take F(x) only? DeepNorm is a Post-LN: it normalises the sum αx + F(x)."),
        ),
        Misconception(
            "Pre-LN",
            _deepnorm(lambda x, f, norm, alpha: alpha * x + f(norm(x))),
            N_("Is that Pre-LN with α? Then the stream grows by α in every block; DeepNorm normalises the sum."),
        ),
        Misconception(
            "no norm",
            _deepnorm(lambda x, f, norm, alpha: alpha * x + f(x)),
            N_("Where is the norm? The sum αx + F(x) passes through LN."),
        ),
        Misconception(
            "no shortcut",
            _deepnorm(lambda x, f, norm, alpha: norm(f(x))),
            N_("Where is the shortcut? The sum αx + F(x) passes through LN."),
        ),
        Misconception(
            "β twice",
            lambda x, weight, norm, n: norm((2 * n) ** 0.25 * x + (8 * n) ** -0.5 * (x @ weight.T)),
            N_("Is β there twice, on the weight and on the branch? Once will do."),
        ),
        Misconception(
            "all layers",
            lambda x, weight, norm, n: _blocks(lambda x, f, norm: deepnorm_block(x, weight, norm, n))(
                x, [None] * n, norm
            ),
            N_("Is there a loop over the layers? One block is wanted; n_layers only sets α and β."),
        ),
        Misconception(
            "no transpose",
            lambda x, weight, norm, n: norm((2 * n) ** 0.25 * x + (8 * n) ** -0.25 * (x @ weight)),
            N_("Is the transpose of W missing? For rows, W x is written x @ weight.T."),
        ),
    ),
    hints=(
        N_("Post-LN is LN(x + F(x)); which of the two summands should weigh more in a deep net?"),
        N_("alpha = (2 * n_layers) ** 0.25 on x, beta = (8 * n_layers) ** -0.25 on the weight, and LN around the sum."),
    ),
)


# 4.11 -----------------------------------------------------------------------------------------------------------------


def gradient_slope(loss_at, depths):
    """Return the slope of ln‖∂loss/∂W‖ against ln(depth), by least squares, as a float.

    An experiment: `loss_at(L)` returns (loss, W) of a new net with L layers: a scalar loss, and a weight W of its last
    layer, which requires a gradient. ‖·‖ is the root of the sum of squares of all elements. Predict before you
    measure: a gradient that does not depend on the depth has slope 0, one that falls as 1/√L has slope −1/2.
    """
    norms = []
    for depth in depths:
        loss, weight = loss_at(depth)
        (gradient,) = torch.autograd.grad(loss, weight)
        norms.append(gradient.norm().item())
    x = torch.tensor(depths, dtype=torch.float64).log()
    y = torch.tensor(norms, dtype=torch.float64).log()
    x = x - x.mean()
    return (x @ y / (x @ x)).item()


def stack_loss(placement: Literal["post", "pre"], seed: int = 0, d_model: int = 32, nets: int = 16) -> Shown:
    """Return `loss_at(depth)`, which gives (loss, W) of new Transformer stacks at initialisation, for `gradient_slope`.

    A layer is attention over one token, x W_V, and a ReLU feed-forward part with d_ff = d_model, both with LN in the
    placement asked for; a Pre-LN stack ends in a final LN (Xiong et al. 2020, section 3.2). All weights are normal with
    variance 1/d_model. `nets` independent stacks run at once, one token each: W is (nets, d_model, d_model), the last
    layers' second feed-forward weights, float32, and the loss is the sum of a random projection of every output. Random
    tokens in one net become alike with depth, which would tilt the slope.
    """

    def loss_at(depth: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(nets, *shape, generator=generator)

        def norm(z: Tensor) -> Tensor:
            return torch.nn.functional.layer_norm(z, (d_model,))

        def feed_forward(z: Tensor) -> Tensor:
            return torch.relu(z @ inner) @ weight

        def attention(z: Tensor) -> Tensor:
            return z @ value

        x, projection = norm(draw(1, d_model)), draw(d_model, 1)
        for _layer in range(depth):
            value, inner, weight = (draw(d_model, d_model) / math.sqrt(d_model) for _weight in range(3))
            weight.requires_grad_()
            for sublayer in (attention, feed_forward):
                x = norm(x + sublayer(x)) if placement == "post" else x + sublayer(norm(x))
        loss = ((norm(x) if placement == "pre" else x) @ projection).sum()
        return loss, weight

    return Shown(loss_at, f"L ↦ (loss, W), {placement}")


def _power(exponent, *weight):
    """Return loss_at with ∂loss/∂W = L^exponent · W, W of its own sign in each element."""

    def loss_at(depth):
        leaf = vector(*weight).requires_grad_()
        return (leaf**2).sum() / 2 * depth**exponent, leaf

    return Shown(loss_at, f"L ↦ (L^{exponent}·‖W‖²/2, W)")


def _bent():
    """Return loss_at whose gradient is no power of the depth, and turns its direction with it."""

    def loss_at(depth):
        leaf = vector(1.0, -2.0, 0.5).requires_grad_()
        return (leaf.sin() * vector(1.0, 0.1 * depth, depth**0.5)).sum(), leaf

    return Shown(loss_at, "L ↦ (Σ cᵢ(L)·sin Wᵢ, W)")


def _slope_cases():
    return [  # with losses above 0, so that whoever fits the loss can take its logarithm
        (_power(-0.5, 1.0, -2.0), [1, 4, 16]),
        (_power(1, 3.0, -1.0), [2, 4, 8]),
        (_bent(), [2, 3, 9, 20]),
        (stack_loss("post", seed=53, d_model=16, nets=4), [2, 4, 8, 16]),
        (stack_loss("pre", seed=53, d_model=16, nets=4), [2, 4, 8, 16]),
    ]


def _norms(loss_at, depths, size=lambda g: g.norm()):
    return np.array([size(torch.autograd.grad(*loss_at(depth))[0]).item() for depth in depths])


def _slope(fit, size=lambda g: g.norm()):
    """Build a wrong answer: `fit(depths, norms)` of wrong sizes, or a wrong fit."""
    return lambda loss_at, depths: float(fit(np.array(depths, dtype=float), _norms(loss_at, depths, size)))


def _line(x, y):
    return np.polyfit(x, y, 1)[0]


def _log_log(depths, norms):
    return _line(np.log(depths), np.log(norms))


def _weight_norm(loss_at, depths):
    norms = [loss_at(depth)[1].norm().item() for depth in depths]
    return float(_log_log(depths, norms))


def _loss_slope(loss_at, depths):
    return float(_log_log(depths, [abs(loss_at(depth)[0].item()) for depth in depths]))


SLOPE = Exercise(
    id="4.11",
    title=N_("an experiment: how the last layer's gradient depends on the depth"),
    claims=("D2",),
    solve=gradient_slope,
    cases=_slope_cases,
    rtol=1e-4,
    atol=1e-4,
    misconceptions=(
        Misconception(
            "no logarithms",
            _slope(_line),
            N_("Is the line fitted to the numbers themselves? A power of L is a line only in ln against ln."),
        ),
        Misconception(
            "the gradient's logarithm alone",
            _slope(lambda d, g: _line(d, np.log(g))),
            N_("Is only the gradient's logarithm taken? That fits an exponential in L; take ln L, too."),
        ),
        Misconception(
            "the depth's logarithm alone",
            _slope(lambda d, g: _line(np.log(d), g)),
            N_("Is only the depth's logarithm taken? Take the gradient's, too."),
        ),
        Misconception(
            "two bases",
            _slope(lambda d, g: _line(np.log2(d), np.log(g))),
            N_("Are there two bases, log₂ and ln? The slope is the exponent only where both are the same."),
        ),
        Misconception(
            "base ten",
            _slope(lambda d, g: _line(np.log(d), np.log10(g))),
            N_("Are there two bases, ln and log₁₀? The slope is the exponent only where both are the same."),
        ),
        Misconception(
            "squared norm",
            _slope(_log_log, lambda g: (g**2).sum()),
            N_("Is the norm's root missing? A squared norm has twice the slope."),
        ),
        Misconception(
            "largest element",
            _slope(_log_log, lambda g: g.abs().max()),
            N_("Is that the largest element of the gradient? ‖·‖ is the root of the sum of all squares."),
        ),
        Misconception(
            "mean size",
            _slope(_log_log, lambda g: g.abs().mean()),
            N_("Is that the mean of the absolute values? ‖·‖ is the root of the sum of all squares."),
        ),
        Misconception(
            "signs cancel",
            _slope(_log_log, lambda g: g.sum().abs()),
            N_("Is the gradient summed with its signs? They cancel; take the norm."),
        ),
        Misconception(
            "the ends alone",
            _slope(lambda d, g: np.log(g[-1] / g[0]) / np.log(d[-1] / d[0])),
            N_("Is the slope taken from the first and the last depth alone? A fit uses all of them."),
        ),
        Misconception(
            "step by step",
            _slope(lambda d, g: (np.diff(np.log(g)) / np.diff(np.log(d))).mean()),
            N_("Is that the mean of the slopes between neighbours? Least squares fits one line to all points."),
        ),
        Misconception(
            "axes exchanged",
            _slope(lambda d, g: _line(np.log(g), np.log(d)) if np.ptp(np.log(g)) > 1e-9 else 0.0),
            N_("Are the axes exchanged? The gradient is y, the depth is x."),
        ),
        Misconception(
            "through the origin",
            _slope(lambda d, g: (np.log(d) @ np.log(g)) / (np.log(d) @ np.log(d))),
            N_("Is the line forced through the origin? Take the mean off ln(depth) first, or fit an intercept."),
        ),
        Misconception(
            "the intercept",
            _slope(lambda d, g: np.polyfit(np.log(d), np.log(g), 1)[1]),
            N_("Is that the intercept? np.polyfit returns the slope first."),
        ),
        Misconception(
            "slope and intercept",
            lambda loss_at, depths: np.polyfit(np.log(depths), np.log(_norms(loss_at, depths)), 1).tolist(),
            N_("Are these slope and intercept? np.polyfit returns both, the slope first: take [0]."),
        ),
        Misconception(
            "the sign dropped",
            _slope(lambda d, g: abs(_log_log(d, g))),
            N_("Is the sign dropped? A gradient that falls with the depth has a negative slope."),
        ),
        Misconception(
            "the sign turned",
            _slope(lambda d, g: -_log_log(d, g)),
            N_("Is the sign turned? A gradient that falls with the depth has a negative slope."),
        ),
        Misconception(
            "correlation",
            _slope(lambda d, g: np.corrcoef(np.log(d), np.log(g))[0, 1]),
            N_("Is that the correlation? It says how straight the line is, not how steep."),
        ),
        Misconception(
            "the prediction",
            lambda loss_at, depths: -0.5,
            N_("Is that the prediction itself? Measure the slope of the loss_at that is handed in."),
        ),
        Misconception(
            "the weight's norm",
            _weight_norm,
            N_("Is that the norm of W itself? Its gradient is wanted: torch.autograd.grad(loss, W)."),
        ),
        Misconception(
            "the loss",
            _loss_slope,
            N_("Is that the loss's slope? The gradient of the loss is wanted."),
        ),
    ),
    hints=(
        N_("First the list of norms: (g,) = torch.autograd.grad(loss, weight), then g.norm().item()."),
        N_("A line through ln(norm) against ln(depth): np.polyfit(np.log(depths), np.log(norms), 1)[0]."),
    ),
)

EXERCISES = (POST, PRE, STREAM, FINAL_NORM, DROPOUT, MOVE, SCHEDULE, PLACEMENT, STATEMENTS, DEEPNORM, SLOPE)
