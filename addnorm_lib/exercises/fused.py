"""Chapter 6: what a GPU does with Add & Norm."""

from itertools import chain, pairwise

import torch

from addnorm_lib.exercises.exercise import Exercise, Misconception
from addnorm_lib.exercises.inputs import normal, vector
from addnorm_lib.messages import N_
from addnorm_lib.microscope import tiles as tl

EPS = 1e-5


# 6.1 ------------------------------------------------------------------------------------------------------------------


def bytes_moved(rows, features, itemsize, fused, keep_sum):
    """Return the bytes that the forward pass of LayerNorm(x + residual) reads and writes, all together: an int.

    Each element has `itemsize` bytes. Not `fused`, an add kernel writes s and a norm kernel reads it. Fused, s stays on
    the chip, and is written only if `keep_sum`. Count tensors of rows × features elements; leave out weight, bias and
    the rows' statistics.
    """
    tensors = (4 if keep_sum else 3) if fused else 5
    return tensors * rows * features * itemsize


def _bytes(fused, kept, eager, eager_kept=None):
    def wrong(rows, features, itemsize, is_fused, keep_sum):
        tensors = (kept if keep_sum else fused) if is_fused else (eager_kept or eager) if keep_sum else eager
        return tensors * rows * features * itemsize

    return wrong


BYTES = Exercise(
    id="6.1",
    title=N_("count the bytes"),
    claims=("F1", "F2"),
    solve=bytes_moved,
    cases=lambda: [
        (1, 4, 2, False, False),
        (1, 4, 2, False, True),
        (1, 4, 2, True, False),
        (1, 4, 2, True, True),
        (3, 1000, 4, False, True),
        (2, 8, 4, True, True),
    ],
    misconceptions=(
        Misconception(
            "elements",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(rows, D, 1, fused, keep_sum),
            N_("Are these elements? Each has `itemsize` bytes."),
        ),
        Misconception(
            "bits",
            lambda rows, features, itemsize, fused, keep_sum: bytes_moved(
                rows, features, 8 * itemsize, fused, keep_sum
            ),
            N_("Are these bits? `itemsize` is in bytes already."),
        ),
        Misconception(
            "the sum read for nothing",
            _bytes(3, 4, 4),
            N_("Does the norm kernel find s on the chip? The add kernel has ended; s is written, and then read again."),
        ),
        Misconception(
            "reads alone",
            _bytes(2, 2, 3),
            N_("Are only reads counted? What is written crosses the same wires."),
        ),
        Misconception(
            "writes alone",
            _bytes(1, 2, 2),
            N_("Are only writes counted? What is read crosses the same wires."),
        ),
        Misconception(
            "kept sum left out",
            _bytes(3, 3, 5),
            N_("Is the kept sum left out? With keep_sum the fused kernel writes s as well as y."),
        ),
        Misconception(
            "always kept",
            _bytes(4, 4, 5),
            N_("Does the fused kernel always write s? Without keep_sum it never leaves the chip."),
        ),
        Misconception(
            "eager pays for keeping",
            _bytes(3, 4, 5, 6),
            N_("Does keep_sum cost eager mode something? There s is written anyway: keeping it is free."),
        ),
        Misconception(
            "one residual",
            _bytes(2, 3, 4),
            N_("Is one of x and residual left out? Both are read."),
        ),
        Misconception(
            "swapped",
            lambda rows, features, itemsize, fused, keep_sum: bytes_moved(
                rows, features, itemsize, not fused, keep_sum
            ),
            N_("Are the two ways swapped? The fused kernel moves less."),
        ),
        Misconception(
            "eager keeps s on the chip",
            _bytes(3, 3, 4),
            N_("Are there 4 tensors in eager mode? s crosses twice there: written by one kernel, read by the next."),
        ),
        Misconception(
            "eager writes s only if kept",
            _bytes(3, 4, 4, 5),
            N_("Does eager mode write s only with keep_sum? The norm kernel needs it in memory either way."),
        ),
        Misconception(
            "keep_sum upside down",
            _bytes(4, 3, 5),
            N_("Is keep_sum upside down? Keeping s costs one more write."),
        ),
        Misconception(
            "fused reads one tensor",
            _bytes(2, 3, 5),
            N_("Does the fused kernel read one tensor? It reads x and residual."),
        ),
        Misconception(
            "s read twice",
            _bytes(3, 4, 6),
            N_("Is s read twice? The norm kernel reads each row once, and writes y."),
        ),
        Misconception(
            "kept s read back",
            _bytes(3, 5, 5),
            N_("Is the kept s read again? In forward it is only written; backward reads it."),
        ),
        Misconception(
            "weight and bias counted",
            lambda rows, D, itemsize, fused, keep_sum: (
                bytes_moved(rows, D, itemsize, fused, keep_sum) + 2 * D * itemsize
            ),
            N_("Are weight and bias counted? They are left out here."),
        ),
        Misconception(
            "two bytes",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(rows, D, 2, fused, keep_sum),
            N_("Has every element 2 bytes? It has `itemsize`."),
        ),
        Misconception(
            "four bytes",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(rows, D, 4, fused, keep_sum),
            N_("Has every element 4 bytes? It has `itemsize`."),
        ),
        Misconception(
            "one row",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(1, D, itemsize, fused, keep_sum),
            N_("Is this one row? A tensor has rows × features elements."),
        ),
        Misconception(
            "one column",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(rows, 1, itemsize, fused, keep_sum),
            N_("Is this one column? A tensor has rows × features elements."),
        ),
        Misconception(
            "rows plus features",
            lambda rows, D, itemsize, fused, keep_sum: bytes_moved(rows + D, 1, itemsize, fused, keep_sum),
            N_("Are rows and features added? A tensor has rows × features elements."),
        ),
    ),
    hints=(
        N_("Write down each kernel: what does it read, what does it write?"),
        N_("Eager: add reads 2 and writes 1, the norm reads 1 and writes 1. Fused: reads 2, writes 1, or 2 with s."),
    ),
)


# 6.2 ------------------------------------------------------------------------------------------------------------------


def forward_tile(pid, x, residual, M, D, eps, BM, BN):
    """Return the tile (BM, BN) of LayerNorm(x + residual), without weight and bias, that program `pid` has to store.

    x and residual point to M × D elements, row after row; the program's rows begin at pid * BM. BN is a power of two,
    at least D. Nothing from row M or column D on may be loaded; there the tile is 0. Use tl.arange, tl.load, tl.sum,
    tl.where and tl.rsqrt, as in Triton.
    """
    rows = pid * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < D)[None, :]
    at = rows[:, None] * D + cols[None, :]
    s = tl.load(x + at, mask, other=0) + tl.load(residual + at, mask, other=0)
    mean = tl.sum(s, 1) / D
    centred = tl.where(mask, s - mean[:, None], 0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    return centred * rstd[:, None]


def _pointer(values):
    return tl.Pointer(values.float())


def _tile_cases():
    ramp = torch.arange(1.0, 5.0).reshape(2, 2)
    short = torch.tensor([[4.0, 1.0, 1.0], [2.0, 0.0, 4.0], [0.0, 1.0, 2.0]])
    one, two = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[0.0, 1.0, 2.0]])
    return [
        (1, _pointer(ramp), _pointer(2 * ramp), 2, 2, 4.0, 1, 2),  # x + residual = (9, 12): ± 1.5 / √(2.25 + 4)
        (0, _pointer(one), _pointer(two), 1, 3, 1.0, 1, 4),
        (1, _pointer(short), _pointer(2 * short), 3, 3, 3.0, 2, 4),  # row 2: (0, 3, 6), variance 6, so (−1, 0, 1)
        (1, _pointer(normal(3, 5)), _pointer(normal(3, 5, seed=1)), 3, 5, EPS, 2, 8),
        (2, _pointer(3 + normal(6, 7, seed=2)), _pointer(normal(6, 7, seed=3)), 6, 7, 0.1, 2, 16),
        (0, _pointer(normal(4, 8, seed=4)), _pointer(normal(4, 8, seed=5)), 4, 8, EPS, 4, 8),
    ]


def _tile(
    sum_of=lambda x, residual: x + residual,
    second_mask=True,
    mean_over=lambda D, BN: D,
    var_over=lambda D, BN: D,
    stride=lambda D, BN: D,
    scale=lambda var, eps: tl.rsqrt(var + eps),
    start=lambda pid, BM: pid * BM,
    centre=True,
    mask_of=lambda rows, cols, M, D: (rows < M)[:, None] & (cols < D)[None, :],
    other=0,
    zeroed=True,
    after=lambda y, unmasked, residual: y,
):
    def wrong(pid, x, residual, M, D, eps, BM, BN):
        rows = start(pid, BM) + tl.arange(0, BM)
        cols = tl.arange(0, BN)
        mask = mask_of(rows, cols, M, D)
        at = rows[:, None] * stride(D, BN) + cols[None, :]
        own, other_one = tl.load(x + at, mask, other=other), tl.load(residual + at, mask, other=other)
        s = sum_of(own, other_one)
        mean = tl.sum(s, 1) / mean_over(D, BN) if centre else torch.zeros(BM)
        centred = s - mean[:, None]
        if second_mask:
            centred = tl.where(mask, centred, 0)
        var = tl.sum(centred * centred, 1) / var_over(D, BN)
        rstd = scale(var, eps)[:, None]
        y = after(centred * rstd, (s - mean[:, None]) * rstd, other_one)
        return tl.where(mask, y, 0) if zeroed else y

    return wrong


TILE = Exercise(
    id="6.2",
    title=N_("write the forward kernel"),
    claims=("F9", "F1"),
    solve=forward_tile,
    cases=_tile_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "residual left out",
            _tile(sum_of=lambda x, residual: x),
            N_("Is the residual left out? The kernel normalises the sum."),
        ),
        Misconception(
            "ε outside the root",
            _tile(scale=lambda var, eps: 1 / (torch.sqrt(var) + eps)),
            N_("Is ε outside the root? It is added to the variance: rsqrt(var + ε)."),
        ),
        Misconception(
            "no root",
            _tile(scale=lambda var, eps: 1 / (var + eps)),
            N_("Is the root missing? Divide by √(var + ε), not by var + ε."),
        ),
        Misconception(
            "root instead of its inverse",
            _tile(scale=lambda var, eps: torch.sqrt(var + eps)),
            N_("Is the tile multiplied by the root? rsqrt is 1 / √."),
        ),
        Misconception(
            "RMSNorm",
            _tile(centre=False),
            N_("Is the mean not taken off? That is RMSNorm."),
        ),
        Misconception(
            "one mask",
            _tile(second_mask=False),
            N_("Is s − mean masked? A masked lane holds 0 in s, −mean after the subtraction, and its square counts."),
        ),
        Misconception(
            "one mask, and the padding returned",
            _tile(second_mask=False, zeroed=False),
            N_("Is s − mean masked? Masked lanes hold −mean, which counts in the variance and comes out in the tile."),
        ),
        Misconception(
            "no other",
            _tile(other=None, zeroed=False),
            N_("Is `other` missing in tl.load? Masked lanes then hold anything (here: NaN); other=0 makes them 0."),
        ),
        Misconception(
            "no other, masked at the end",
            _tile(other=None),
            N_("Is `other` missing in tl.load? Masked lanes then hold anything, and the mean sums them: other=0."),
        ),
        Misconception(
            "columns not masked",
            _tile(mask_of=lambda rows, cols, M, D: (rows < M)[:, None] & (cols >= 0)[None, :]),
            N_("Are the columns beyond D masked? There the tile runs into the next row, and off the tensor's end."),
        ),
        Misconception(
            "rows not masked",
            _tile(mask_of=lambda rows, cols, M, D: (rows >= 0)[:, None] & (cols < D)[None, :]),
            N_("Are the rows beyond M masked? The last program may have fewer than BM rows."),
        ),
        Misconception(
            "divided by BN",
            _tile(mean_over=lambda D, BN: BN, var_over=lambda D, BN: BN),
            N_("Are mean and variance divided by BN? Only D of the lanes hold data."),
        ),
        Misconception(
            "unbiased",
            _tile(var_over=lambda D, BN: D - 1),
            N_("Is the variance divided by D − 1? LayerNorm's is divided by D."),
        ),
        Misconception(
            "sum instead of mean square",
            _tile(var_over=lambda D, BN: 1),
            N_("Is the variance a sum? Divide it by D."),
        ),
        Misconception(
            "rows BN apart",
            _tile(stride=lambda D, BN: BN),
            N_("Are rows taken to be BN elements apart? In memory they are D apart; BN is the tile's width."),
        ),
        Misconception(
            "rows from pid",
            _tile(start=lambda pid, BM: pid),
            N_("Do the rows begin at pid? Each program has BM rows, so they begin at pid * BM."),
        ),
        Misconception(
            "always the first rows",
            _tile(start=lambda pid, BM: 0),
            N_("Is pid left out? Every program would do the first program's rows."),
        ),
        Misconception(
            "padding returned",
            _tile(after=lambda y, unmasked, residual: unmasked, zeroed=False),
            N_(
                "Does the tile hold −mean · rstd beyond D? There it has to be 0: return the masked s − mean times rstd."
            ),
        ),
        Misconception(
            "mean over BN",
            _tile(mean_over=lambda D, BN: BN),
            N_("Is the mean divided by BN? Only D of the lanes hold data."),
        ),
        Misconception(
            "variance over BN",
            _tile(var_over=lambda D, BN: BN),
            N_("Is the variance divided by BN? Only D of the lanes hold data."),
        ),
        Misconception(
            "no ε",
            _tile(scale=lambda var, eps: tl.rsqrt(var), zeroed=False),
            N_("Is ε left out? It is added to the variance: rsqrt(var + ε)."),
        ),
        Misconception(
            "ε after the root",
            _tile(scale=lambda var, eps: tl.rsqrt(var) + eps, zeroed=False),
            N_("Is ε added after rsqrt? It belongs inside: rsqrt(var + ε)."),
        ),
        Misconception(
            "residual added after the norm",
            _tile(sum_of=lambda x, residual: x, after=lambda y, unmasked, residual: y + residual),
            N_("Is the residual added after the norm? Add first, then normalise the sum."),
        ),
        Misconception(
            "x twice",
            _tile(sum_of=lambda x, residual: 2 * x),
            N_("Is x loaded twice? The second load is from residual."),
        ),
        Misconception(
            "difference",
            _tile(sum_of=lambda x, residual: x - residual),
            N_("Is the residual taken off? It is added."),
        ),
    ),
    hints=(
        N_("Four lines of addresses: rows, cols, mask, at = rows[:, None] * D + cols[None, :]. Then load and add."),
        N_("mean = tl.sum(s, 1) / D. Then mask again: centred = tl.where(mask, s - mean[:, None], 0)."),
        N_("rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps), one a row: rstd[:, None]."),
    ),
)


# 6.3 ------------------------------------------------------------------------------------------------------------------


def row_statistics(s, D, eps):
    """Return (mean, rstd), each (BM,), of tiles `s` (BM, BN) whose first D columns are data and the others 0.

    rstd is 1 / √(variance + eps), the variance in two passes and divided by D.
    """
    mask = tl.arange(0, s.shape[1]) < D
    mean = tl.sum(s, 1) / D
    centred = tl.where(mask[None, :], s - mean[:, None], 0)
    return mean, tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)


def _buggy_row_statistics(s, D, eps):
    """Return (mean, rstd), each (BM,), of tiles `s` (BM, BN) whose first D columns are data and the others 0.

    rstd is 1 / √(variance + eps), the variance in two passes and divided by D.
    """
    mean = tl.sum(s, 1) / D
    centred = s - mean[:, None]
    return mean, tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)


def _padded(values, columns):
    return torch.cat([values, values.new_zeros(len(values), columns - values.shape[1])], 1)


def _statistics_cases():
    return [
        (torch.tensor([[1.0, 2.0, 3.0, 0.0]]), 3, 1 / 3),  # variance 2/3, so rstd is 1; with the padding it is 2
        (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 4, 0.1),
        (torch.tensor([[0.0, 1.0, 2.0, 0.0]]), 3, 1 / 3),  # a zero that is data
        (torch.tensor([[4096.0, 4097.0, 4098.0, 0.0]]), 3, 1 / 3),  # 4097² is too long for float32
        (_padded(2 + normal(2, 5).float(), 8), 5, EPS),
        (_padded(0.01 * normal(3, 9, seed=1).float(), 16), 9, 1e-3),
    ]


def _statistics(mean_of=None, variance_of=None, scale=None):
    def wrong(s, D, eps):
        real = s[:, :D]
        mean = mean_of(s, D) if mean_of else real.mean(1)
        variance = variance_of(s, D) if variance_of else (real - mean[:, None]).square().mean(1)
        return mean, scale(variance, eps) if scale else (variance + eps).rsqrt()

    return wrong


MASK = Exercise(
    id="6.3",
    title=N_("find the bug: mask the tail"),
    claims=("F9", "F4"),
    solve=row_statistics,
    cases=_statistics_cases,
    starter=_buggy_row_statistics,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "everything over BN",
            _statistics(lambda s, D: s.mean(1), lambda s, D: s.var(1, correction=0)),
            N_("Is everything divided by BN now? Then zeros that are no data pull mean and variance."),
        ),
        Misconception(
            "the variance over BN",
            _statistics(variance_of=lambda s, D: (s - s[:, :D].mean(1, keepdim=True)).square().mean(1)),
            N_("Is the variance divided by BN? The padding's squares are still in the sum: mask them instead."),
        ),
        Misconception(
            "unbiased",
            _statistics(variance_of=lambda s, D: s[:, :D].var(1)),
            N_("Is the variance divided by D − 1? LayerNorm's is divided by D."),
        ),
        Misconception(
            "mean square",
            _statistics(variance_of=lambda s, D: s[:, :D].square().mean(1)),
            N_("Is the mean left in? This is the mean square; the variance takes the mean off first."),
        ),
        Misconception(
            "variance instead of rstd",
            _statistics(scale=lambda variance, eps: variance),
            N_("Is the variance returned? rstd is 1 / √(variance + ε)."),
        ),
        Misconception(
            "std instead of rstd",
            _statistics(scale=lambda variance, eps: (variance + eps).sqrt()),
            N_("Is the standard deviation returned? rstd is its inverse."),
        ),
        Misconception(
            "ε outside",
            _statistics(scale=lambda variance, eps: 1 / (variance.sqrt() + eps)),
            N_("Is ε outside the root? It was right as given."),
        ),
        Misconception(
            "one pass",
            _statistics(variance_of=lambda s, D: s.square().sum(1) / D - (s.sum(1) / D).square()),
            N_("Is the variance the mean square less mean²? Far from 0 the digits cancel: keep the two passes."),
        ),
        Misconception(
            "zeros masked",
            _statistics(
                variance_of=lambda s, D: torch.where(s != 0, s - s.sum(1, keepdim=True) / D, 0).square().sum(1) / D
            ),
            N_("Is the mask taken from s != 0? A 0 may be data: the column's number tells, cols < D."),
        ),
        Misconception(
            "order",
            lambda s, D, eps: row_statistics(s, D, eps)[::-1],
            N_("Is the order (rstd, mean)? The mean comes first."),
        ),
        Misconception(
            "no ε",
            _statistics(scale=lambda variance, eps: variance.rsqrt()),
            N_("Is ε gone? It is added to the variance, as it was."),
        ),
        Misconception(
            "ε after the root",
            _statistics(scale=lambda variance, eps: variance.rsqrt() + eps),
            N_("Is ε added after rsqrt? It was right as given."),
        ),
        Misconception(
            "the mean over BN",
            _statistics(lambda s, D: s.mean(1), lambda s, D: (s[:, :D] - s.mean(1, keepdim=True)).square().mean(1)),
            N_("Is the mean divided by BN? The zeros add nothing to the sum, so D is right, as given."),
        ),
        Misconception(
            "the mean over BN, nothing masked",
            _statistics(lambda s, D: s.mean(1), lambda s, D: (s - s.mean(1, keepdim=True)).square().sum(1) / D),
            N_("Is the mean divided by BN now? It was right: the bug is in the next line."),
        ),
        Misconception(
            "masked, and over BN",
            _statistics(
                variance_of=lambda s, D: (s[:, :D] - s[:, :D].mean(1, keepdim=True)).square().sum(1) / s.shape[1]
            ),
            N_("Is the masked variance divided by BN? Only D lanes are left in its sum."),
        ),
        Misconception(
            "one lane too many",
            _statistics(variance_of=lambda s, D: (s[:, : D + 1] - s[:, :D].mean(1, keepdim=True)).square().sum(1) / D),
            N_("Does the mask let one lane too many in? The columns of data are 0 … D − 1: cols < D."),
        ),
        Misconception(
            "one lane too few",
            _statistics(variance_of=lambda s, D: (s[:, : D - 1] - s[:, :D].mean(1, keepdim=True)).square().sum(1) / D),
            N_("Does the mask leave a lane of data out? The columns of data are 0 … D − 1: cols < D."),
        ),
        Misconception(
            "mask upside down",
            _statistics(variance_of=lambda s, D: (s[:, D:] - s[:, :D].mean(1, keepdim=True)).square().sum(1) / D),
            N_("Is the mask upside down? The columns below D are kept."),
        ),
    ),
    hints=(
        N_("What does a padded lane hold after `s - mean`?"),
        N_("Mask again: tl.where(cols < D, s - mean, 0), with cols = tl.arange(0, s.shape[1])."),
    ),
)


# 6.4 ------------------------------------------------------------------------------------------------------------------


def layer_norm_dx(dy, xhat, rstd, weight):
    """Return the gradient (M, D) of LayerNorm's input from dy and x̂, both (M, D), rstd (M,) and weight (D,).

    With wdy = weight * dy it needs two numbers a row, c1 = mean(x̂ * wdy) and c2 = mean(wdy).
    """
    wdy = weight * dy
    c1 = (xhat * wdy).mean(1, keepdim=True)
    c2 = wdy.mean(1, keepdim=True)
    return (wdy - (xhat * c1 + c2)) * rstd[:, None]


def _normed(s, eps=EPS):
    rstd = (s.var(1, correction=0) + eps).rsqrt()
    return (s - s.mean(1, keepdim=True)) * rstd[:, None], rstd


def _dx_cases():
    xhat, weight = vector(-1.0, 1.0, -1.0, 1.0)[None], vector(1.0, 1.0, 1.0, 2.0)
    two = torch.cat([xhat, vector(1.0, 1.0, -1.0, -1.0)[None]])
    return [
        (vector(8.0, 0.0, 0.0, 2.0)[None], xhat, vector(0.5), weight),  # c1 = −1, c2 = 3
        (torch.stack([vector(8.0, 0.0, 0.0, 2.0), vector(0.0, 4.0, 0.0, 0.0)]), two, vector(0.5, 2.0), weight),
        (normal(2, 3), *_normed(normal(2, 3, seed=1)), 1 + normal(3, seed=2)),
        (normal(4, 4, seed=3), *_normed(3 * normal(4, 4, seed=4)), normal(4, seed=5)),
    ]


def _dx(c1=True, c2=True, mean=True, weight=True, rstd=True, sign=1.0, late_weight=False, over=1, power=1):
    def wrong(dy, xhat, r, w):
        reduce = torch.mean if mean else torch.sum
        wdy = dy if not weight or late_weight else w * dy
        out = wdy - c1 * xhat * reduce(xhat * wdy, over, keepdim=True)
        out = out - c2 * sign * reduce(wdy, over, keepdim=True)
        out = out * (r[:, None] ** power if rstd else 1)
        return w * out if late_weight else out

    return wrong


def _dx_by(formula):
    def wrong(dy, xhat, rstd, weight):
        return formula(dy, weight * dy, xhat, rstd[:, None])

    return wrong


def _mean(values):
    return values.mean(1, keepdim=True)


BACKWARD = Exercise(
    id="6.4",
    title=N_("the two row sums of backward"),
    claims=("F5",),
    solve=layer_norm_dx,
    cases=_dx_cases,
    misconceptions=(
        Misconception(
            "c1 left out", _dx(c1=False), N_("Is c1 missing? rstd depends on the input too: that is the term x̂ · c1.")
        ),
        Misconception(
            "c2 left out", _dx(c2=False), N_("Is c2 missing? The mean depends on the input too: that is the term c2.")
        ),
        Misconception(
            "statistics held constant",
            _dx(c1=False, c2=False),
            N_("Are mean and rstd treated as constants? Both depend on the input."),
        ),
        Misconception("sums", _dx(mean=False), N_("Are c1 and c2 sums? They are means: divide by D.")),
        Misconception("no weight", _dx(weight=False), N_("Is γ left out? Everything here is in terms of γ · dy.")),
        Misconception(
            "weight at the end",
            _dx(late_weight=True),
            N_("Is γ multiplied at the end? It belongs inside the means: c1 and c2 are those of γ · dy."),
        ),
        Misconception("no rstd", _dx(rstd=False), N_("Is rstd missing? Forward multiplies by it, so does this.")),
        Misconception(
            "divided by rstd",
            _dx(power=-1),
            N_("Is this divided by rstd? rstd is 1/σ already: multiply."),
        ),
        Misconception("plus c2", _dx(sign=-1.0), N_("Is c2 added? Both terms are taken off.")),
        Misconception(
            "over the rows",
            _dx(over=0),
            N_("Are the means taken over the rows? Each row has its own c1 and c2."),
        ),
        Misconception(
            "c1 and c2 swapped",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * _mean(wdy) - _mean(xhat * wdy)) * rstd),
            N_("Are c1 and c2 swapped? x̂ goes with c1, the mean of x̂ · wdy."),
        ),
        Misconception(
            "c1 without x̂",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - _mean(xhat * wdy) - _mean(wdy)) * rstd),
            N_("Is x̂ missing before c1? The term is x̂ · c1, different in each column."),
        ),
        Misconception(
            "x̂ on both",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * (_mean(xhat * wdy) + _mean(wdy))) * rstd),
            N_("Is x̂ multiplied on both? Only on c1: x̂ · c1 + c2."),
        ),
        Misconception(
            "plus c1",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy + xhat * _mean(xhat * wdy) - _mean(wdy)) * rstd),
            N_("Is x̂ · c1 added? Both terms are taken off."),
        ),
        Misconception(
            "plus both",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy + xhat * _mean(xhat * wdy) + _mean(wdy)) * rstd),
            N_("Are both terms added? Both are taken off."),
        ),
        Misconception(
            "negative",
            _dx_by(lambda dy, wdy, xhat, rstd: (xhat * _mean(xhat * wdy) + _mean(wdy) - wdy) * rstd),
            N_("Is the sign upside down? It is wdy less the two terms."),
        ),
        Misconception(
            "means of dy",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * _mean(xhat * dy) - _mean(dy)) * rstd),
            N_("Are both means taken of dy? They are of wdy = weight * dy."),
        ),
        Misconception(
            "c1 of dy",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * _mean(xhat * dy) - _mean(wdy)) * rstd),
            N_("Is c1 the mean of x̂ · dy? It is that of x̂ · wdy."),
        ),
        Misconception(
            "c2 of dy",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * _mean(xhat * wdy) - _mean(dy)) * rstd),
            N_("Is c2 the mean of dy? It is that of wdy."),
        ),
        Misconception(
            "dy less the terms",
            _dx_by(lambda dy, wdy, xhat, rstd: (dy - xhat * _mean(xhat * wdy) - _mean(wdy)) * rstd),
            N_("Is the first term dy? It is wdy, as in the means."),
        ),
        Misconception(
            "weight twice",
            lambda dy, xhat, rstd, weight: weight * layer_norm_dx(dy, xhat, rstd, weight),
            N_("Is γ multiplied twice? It is in wdy already."),
        ),
        Misconception(
            "rstd squared",
            _dx(power=2),
            N_("Is rstd multiplied twice? x̂ holds one already; the gradient needs one."),
        ),
        Misconception(
            "rstd on wdy alone",
            _dx_by(lambda dy, wdy, xhat, rstd: wdy * rstd - xhat * _mean(xhat * wdy) - _mean(wdy)),
            N_("Is only wdy multiplied by rstd? All three terms are."),
        ),
        Misconception(
            "one mean for all rows",
            _dx_by(lambda dy, wdy, xhat, rstd: (wdy - xhat * (xhat * wdy).mean() - wdy.mean()) * rstd),
            N_("Is one mean taken over the whole tensor? Each row has its own c1 and c2."),
        ),
        Misconception(
            "divided by D − 1",
            _dx_by(
                lambda dy, wdy, xhat, rstd: (
                    (wdy - (xhat * _mean(xhat * wdy) + _mean(wdy)) * dy.shape[1] / (dy.shape[1] - 1)) * rstd
                )
            ),
            N_("Are the sums divided by D − 1? c1 and c2 are means over D elements."),
        ),
    ),
    hints=(
        N_("First wdy = weight * dy. Then two means along a row, keepdim=True."),
        N_("dx = (wdy − (x̂ · c1 + c2)) · rstd, with rstd[:, None]."),
    ),
)


# 6.5 ------------------------------------------------------------------------------------------------------------------


def merge(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
    """Return (n, mean, m2) of two parts put together: three numbers.

    n counts elements, m2 is the sum of their squared distances from their own mean. (Chan et al. 1983)
    """
    n = n_a + n_b
    delta = mean_b - mean_a
    mean = mean_a + delta * n_b / n
    m2 = m2_a + m2_b + delta * delta * n_a * n_b / n
    return n, mean, m2


def _merge_cases():
    return [
        (2, 1.0, 2.0, 2, 5.0, 2.0),  # (0, 2) and (4, 6)
        (1, 3.0, 0.0, 3, 7.0, 6.0),
        (4, -2.0, 5.0, 2, 4.5, 0.5),
        (3, 2.0, 1.5, 5, 2.0, 2.5),
    ]


def _merged(mean=None, m2=None):
    def wrong(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
        n, right_mean, right_m2 = merge(n_a, mean_a, m2_a, n_b, mean_b, m2_b)
        between = right_m2 - m2_a - m2_b
        return (
            n,
            mean(n_a, mean_a, n_b, mean_b) if mean else right_mean,
            m2(n_a, m2_a, n_b, m2_b, between, mean_b - mean_a) if m2 else right_m2,
        )

    return wrong


MERGE = Exercise(
    id="6.5",
    title=N_("merge two parts' mean and variance"),
    claims=("F10",),
    solve=merge,
    cases=_merge_cases,
    misconceptions=(
        Misconception(
            "the parts' m2 added",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b),
            N_("Is m2 only the two parts' sum? Their means differ, and that distance is spread too."),
        ),
        Misconception(
            "means averaged",
            _merged(mean=lambda n_a, a, n_b, b: (a + b) / 2),
            N_("Are the means averaged without weights? The larger part counts for more."),
        ),
        Misconception(
            "weights swapped",
            _merged(mean=lambda n_a, a, n_b, b: a + (b - a) * n_a / (n_a + n_b)),
            N_("Are the weights swapped? From mean_a it is delta · n_b / n."),
        ),
        Misconception(
            "delta not squared",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta * n_a * n_b / (n_a + n_b)),
            N_("Is delta not squared? m2 has the unit of a square."),
        ),
        Misconception(
            "divided by n²",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + between / (n_a + n_b)),
            N_("Is the last term divided by n²? m2 is a sum, not a mean: n_a · n_b / n."),
        ),
        Misconception(
            "not divided by n",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + between * (n_a + n_b)),
            N_("Is the division by n missing in the last term? It is delta² · n_a · n_b / n."),
        ),
        Misconception(
            "variance",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: (a + b + between) / (n_a + n_b)),
            N_("Is this the variance? m2 is wanted, the sum of squares before the division by n."),
        ),
        Misconception(
            "only b's weight",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta * delta * n_b),
            N_("Is the last term weighted by n_b alone? Both parts lie off the common mean: n_a · n_b / n."),
        ),
        Misconception(
            "delta² alone",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta**2),
            N_("Is delta² added once? It is weighted by n_a · n_b / n."),
        ),
        Misconception(
            "n_b / n",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta**2 * n_b / (n_a + n_b)),
            N_("Is delta² weighted by n_b / n? A factor n_a is missing."),
        ),
        Misconception(
            "n_a / n",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta**2 * n_a / (n_a + n_b)),
            N_("Is delta² weighted by n_a / n? A factor n_b is missing."),
        ),
        Misconception(
            "a's distance alone",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + between * n_b / (n_a + n_b)),
            N_("Is only part a's distance from the common mean counted? Part b is off it as well."),
        ),
        Misconception(
            "b's distance alone",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + between * n_a / (n_a + n_b)),
            N_("Is only part b's distance from the common mean counted? Part a is off it as well."),
        ),
        Misconception(
            "minus",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b - between),
            N_("Is the last term taken off? Two means apart spread the whole wider."),
        ),
        Misconception(
            "m2 averaged",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: (n_a * a + n_b * b) / (n_a + n_b) + between),
            N_("Are m2_a and m2_b averaged? They are sums: add them."),
        ),
        Misconception(
            "m2 averaged, no delta",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: (n_a * a + n_b * b) / (n_a + n_b)),
            N_("Is m2 an average of the two? They are sums: add them, and delta²'s term."),
        ),
        Misconception(
            "variances taken",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: n_a * a + n_b * b + between),
            N_("Are m2_a and m2_b taken for variances? They are sums of squares already."),
        ),
        Misconception(
            "unbiased variance",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: (a + b + between) / (n_a + n_b - 1)),
            N_("Is m2 divided by n − 1? m2 is wanted, the sum of squares before any division."),
        ),
        Misconception(
            "delta backwards",
            _merged(mean=lambda n_a, a, n_b, b: a - (b - a) * n_b / (n_a + n_b)),
            N_("Does the mean move away from mean_b? delta is mean_b − mean_a."),
        ),
        Misconception(
            "one element's step",
            _merged(mean=lambda n_a, a, n_b, b: a + (b - a) / (n_a + n_b)),
            N_("Does the mean move by delta / n? That is for one new element; here there are n_b."),
        ),
        Misconception(
            "means not divided",
            _merged(mean=lambda n_a, a, n_b, b: n_a * a + n_b * b),
            N_("Is the mean a sum? Divide n_a · mean_a + n_b · mean_b by n."),
        ),
        Misconception(
            "means added",
            _merged(mean=lambda n_a, a, n_b, b: a + b),
            N_("Are the two means added? The common one lies between them."),
        ),
        Misconception(
            "m2 before mean",
            lambda *parts: (merge(*parts)[0], merge(*parts)[2], merge(*parts)[1]),
            N_("Is m2 returned before mean? The order is n, mean, m2."),
        ),
        Misconception(
            "n at the end",
            lambda *parts: (*merge(*parts)[1:], merge(*parts)[0]),
            N_("Is n returned last? The order is n, mean, m2."),
        ),
        Misconception(
            "floor division",
            _merged(m2=lambda n_a, a, n_b, b, between, delta: a + b + delta**2 * n_a * n_b // (n_a + n_b)),
            N_("Is there a // in m2? It drops the fraction: divide by /."),
        ),
    ),
    hints=(
        N_("The common mean lies between the two, nearer to the larger part."),
        N_("m2 = m2_a + m2_b + delta² · n_a · n_b / n."),
    ),
)


# 6.6 ------------------------------------------------------------------------------------------------------------------


def partial_sums(dy, xhat, programs):
    """Return the partial sums (programs, D) of dγ: program p adds up dy * x̂ over its rows p, p + G, p + 2 G, …

    dy and x̂ are (M, D), and G = `programs`, from 1 to M.
    """
    return torch.stack([(dy[p::programs] * xhat[p::programs]).sum(0) for p in range(programs)])


def _partial_cases():
    return [
        (torch.arange(1.0, 7.0).reshape(3, 2), torch.tensor([[1.0, 1.0], [1.0, -1.0], [2.0, 1.0]]), 2),
        (normal(7, 2).float(), normal(7, 2, seed=1).float(), 3),
        (normal(6, 2, seed=2).float(), normal(6, 2, seed=3).float(), 3),
        (normal(4, 3, seed=4).float(), normal(4, 3, seed=5).float(), 4),
        (normal(5, 2, seed=6).float(), normal(5, 2, seed=7).float(), 1),
    ]


def _whole(dy, xhat):
    return (dy * xhat).sum(0)


PARTIAL = Exercise(
    id="6.6",
    title=N_("dγ without atomics: partial sums"),
    claims=("F6",),
    solve=partial_sums,
    cases=_partial_cases,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "contiguous rows",
            lambda dy, xhat, programs: torch.stack([part.sum(0) for part in torch.tensor_split(dy * xhat, programs)]),
            N_("Has each program a block of neighbouring rows? Here program p takes every G-th row: p, p + G, …"),
        ),
        Misconception(
            "x̂ left out",
            lambda dy, xhat, programs: torch.stack([dy[p::programs].sum(0) for p in range(programs)]),
            N_("Is x̂ left out? That is dβ; dγ sums dy · x̂."),
        ),
        Misconception(
            "already finished",
            lambda dy, xhat, programs: _whole(dy, xhat),
            N_("Is this the finished sum? One row a program is wanted; a second kernel adds them up."),
        ),
        Misconception(
            "every program everything",
            lambda dy, xhat, programs: _whole(dy, xhat).expand(programs, -1).clone(),
            N_("Does every program sum all rows? Then the total is G times dγ."),
        ),
        Misconception(
            "first rows only",
            lambda dy, xhat, programs: (dy * xhat)[:programs],
            N_("Does each program stop after one row? It goes on in steps of G."),
        ),
        Misconception(
            "means",
            lambda dy, xhat, programs: torch.stack(
                [(dy[p::programs] * xhat[p::programs]).mean(0) for p in range(programs)]
            ),
            N_("Are these means? A gradient adds its rows up."),
        ),
        Misconception(
            "sums of each",
            lambda dy, xhat, programs: torch.stack(
                [dy[p::programs].sum(0) * xhat[p::programs].sum(0) for p in range(programs)]
            ),
            N_("Is the product taken of two sums? Multiply row by row, then sum."),
        ),
        Misconception(
            "along the features",
            lambda dy, xhat, programs: torch.stack(
                [(dy[p::programs] * xhat[p::programs]).sum(1).sum().expand(dy.shape[1]) for p in range(programs)]
            ),
            N_("Is the sum taken along the features too? Each feature has its own γ."),
        ),
        Misconception(
            "chunks",
            lambda dy, xhat, programs: torch.stack([part.sum(0) for part in (dy * xhat).chunk(programs)]),
            N_("Is each program given a chunk of neighbouring rows? Program p takes every G-th row: p, p + G, …"),
        ),
        Misconception(
            "the tail left out",
            lambda dy, xhat, programs: (
                (dy * xhat)[: len(dy) // programs * programs].reshape(-1, programs, dy.shape[1]).sum(0)
            ),
            N_("Are the last M % G rows left out? M need not be a multiple of G."),
        ),
        Misconception(
            "dy left out",
            lambda dy, xhat, programs: torch.stack([xhat[p::programs].sum(0) for p in range(programs)]),
            N_("Is dy left out? dγ sums dy · x̂."),
        ),
        Misconception(
            "from 1",
            lambda dy, xhat, programs: torch.stack([(dy * xhat)[p::programs].sum(0) for p in range(1, programs + 1)]),
            N_("Do the rows begin at p + 1? Programs are numbered from 0, and program p begins at row p."),
        ),
        Misconception(
            "transposed",
            lambda dy, xhat, programs: torch.stack([(dy * xhat)[p::programs].sum(0) for p in range(programs)], dim=1),
            N_("Is it transposed? Programs go down the rows, features along the columns."),
        ),
        Misconception(
            "never set back",
            lambda dy, xhat, programs: partial_sums(dy, xhat, programs).cumsum(0),
            N_("Does a program go on from the sum of the one before? Each begins at 0."),
        ),
        Misconception(
            "last row only",
            lambda dy, xhat, programs: torch.stack([(dy * xhat)[p::programs][-1] for p in range(programs)]),
            N_("Is each program's last row alone kept? Add them up (out[index] += … adds a repeated index once)."),
        ),
        Misconception(
            "reversed",
            lambda dy, xhat, programs: partial_sums(dy, xhat, programs).flip(0),
            N_("Are the programs in reverse? Row p of the result belongs to program p."),
        ),
    ),
    hints=(
        N_("dy[p::programs] holds the rows p, p + G, p + 2 G, …"),
        N_("Sum dy * x̂ over those rows (dim 0) for each p, and stack the results."),
    ),
)


# 6.7 ------------------------------------------------------------------------------------------------------------------


def distinct_results(parts, orders):
    """Return how many different results, bit for bit, come out when the rows of `parts` are added up in these orders.

    An experiment: `parts` is float32 (G, D). Each of `orders` is a list of row numbers; begin with the first of them
    and add one row after another, as atomic additions would happen to arrive. Return an int.
    """
    results = set()
    for order in orders:
        total = parts[order[0]]
        for row in order[1:]:
            total = total + parts[row]
        results.add(tuple(total.tolist()))
    return len(results)


def _order_cases():
    three = torch.tensor([[1.0], [2.0**24], [-(2.0**24)]])
    orders = [[0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 1, 2], [1, 0, 2]]
    many = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    shuffled = [
        torch.randperm(8, generator=torch.Generator().manual_seed(seed)).tolist() for seed in (*range(6), *range(2))
    ]
    whole = torch.arange(8.0).reshape(4, 2)
    cancelling = torch.cat([three, -three], 1)  # each vector of sums has total 0
    few = torch.tensor([[3.3, 1.1], [10.1, 0.9], [0.5, 0.1], [7.7, 0.7], [-0.1, 1.3]])
    ways = [[3, 2, 1, 0, 4], [2, 4, 1, 3, 0], [4, 3, 2, 1, 0], [1, 3, 0, 4, 2], [4, 1, 2, 3, 0], [3, 2, 1, 0, 4]]
    vast = torch.tensor([[1.0], [2.0**60], [-(2.0**60)]])  # too much for float64 too
    return [
        (three, orders),
        (vast, orders),
        (cancelling, orders),
        (few, ways),
        (whole, [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]),
        (many, shuffled),
    ]


def _results(parts, orders, add):
    return {tuple(add(parts, order).tolist()) for order in orders}


def _in_turn(parts, order):
    total = parts[order[0]]
    for row in order[1:]:
        total = total + parts[row]
    return total


def _each(parts, orders):
    return [_in_turn(parts, order).tolist() for order in orders]


def _unlike_the_first(parts, orders):
    results = _each(parts, orders)
    return sum(result != results[0] for result in results)


def _changes(parts, orders):
    results = _each(parts, orders)
    return 1 + sum(a != b for a, b in pairwise(results))


ORDERS = Exercise(
    id="6.7",
    title=N_("an experiment: does the order of additions matter?"),
    claims=("F6",),
    solve=distinct_results,
    cases=_order_cases,
    misconceptions=(
        Misconception(
            "in exact arithmetic",
            lambda parts, orders: len(_results(parts.double(), orders, _in_turn)),
            N_("Are the sums taken in float64, as in torch.cumsum? The gradient's additions are float32."),
        ),
        Misconception(
            "orders counted",
            lambda parts, orders: len(orders),
            N_("Are orders counted? Two orders may well give the same bits."),
        ),
        Misconception(
            "distinct orders",
            lambda parts, orders: len({tuple(order) for order in orders}),
            N_("Are distinct orders counted? Two of them may well give the same bits."),
        ),
        Misconception(
            "the mathematician's answer",
            lambda parts, orders: 1,
            N_("Is it always 1? Rounded additions do not associate: does each order count, and is each result kept?"),
        ),
        Misconception(
            "close ones merged",
            lambda parts, orders: len({tuple(round(v, 3) for v in r) for r in _results(parts, orders, _in_turn)}),
            N_("Are results rounded before they are compared? Bit for bit means exactly equal."),
        ),
        Misconception(
            "feature by feature",
            lambda parts, orders: len({v for r in _results(parts, orders, _in_turn) for v in r}),
            N_("Are single features counted? One result is the whole vector of D sums."),
        ),
        Misconception(
            "other than the first",
            lambda parts, orders: len(_results(parts, orders, _in_turn) - _results(parts, orders[:1], _in_turn)),
            N_("Is the first result left out of the count? It is one of them."),
        ),
        Misconception(
            "total of the vector",
            lambda parts, orders: len({_in_turn(parts, order).sum().item() for order in orders}),
            N_("Are the D sums added up to one number? Vectors may differ and have the same total."),
        ),
        Misconception(
            "first feature",
            lambda parts, orders: len({r[0] for r in _results(parts, orders, _in_turn)}),
            N_("Is only the first feature compared? One result is the whole vector of D sums."),
        ),
        Misconception(
            "torch.sum",
            lambda parts, orders: len(_results(parts, orders, lambda p, order: p[order].sum(0))),
            N_("Is it torch.sum that adds? It chooses an order of its own: add one row after another."),
        ),
        Misconception(
            "backwards",
            lambda parts, orders: len(_results(parts, orders, lambda p, order: _in_turn(p, order[::-1]))),
            N_("Are the rows added from the last to the first? Begin with the first of each order."),
        ),
        Misconception(
            "first row twice",
            lambda parts, orders: len(_results(parts, orders, lambda p, order: _in_turn(p, [order[0], *order]))),
            N_("Is the first row added twice? The total begins with it, so go on from the second."),
        ),
        Misconception(
            "last row left out",
            lambda parts, orders: len(_results(parts, orders, lambda p, order: _in_turn(p, order[:-1]))),
            N_("Is the last row of each order left out? All rows are added."),
        ),
        Misconception(
            "total never set back",
            lambda parts, orders: len(
                {tuple(_in_turn(parts, [*chain(*orders[: i + 1])]).tolist()) for i in range(len(orders))}
            ),
            N_("Does the total go on from the order before? Each order begins anew."),
        ),
        Misconception(
            "unlike the first, each",
            _unlike_the_first,
            N_("Are all orders counted that differ from the first? Equal results count once, and the first too."),
        ),
        Misconception(
            "changes counted",
            _changes,
            N_("Are neighbouring results compared? A result may come back later: keep all that have been seen."),
        ),
    ),
    hints=(
        N_("Add the rows in a loop; torch.sum chooses an order of its own."),
        N_("tuple(total.tolist()) can be put into a set; the set's length is the answer."),
    ),
)

EXERCISES = (BYTES, TILE, MASK, BACKWARD, MERGE, PARTIAL, ORDERS)
