"""6.1: count the bytes."""

from addnorm_lib.course.exercises.define import exercise


def bytes_moved(rows, features, itemsize, fused, keep_sum):
    """Return the bytes that the forward pass of LayerNorm(x + residual) reads and writes, all together: an int.

    Each element has `itemsize` bytes. Not `fused`, an add kernel writes s and a norm kernel reads it. Fused, s stays on
    the chip, and is written only if `keep_sum`. Count tensors of rows × features elements; leave out weight, bias and
    the rows' statistics.
    """
    tensors = (4 if keep_sum else 3) if fused else 5
    return tensors * rows * features * itemsize


def _cases():
    return [
        (1, 4, 2, False, False),
        (1, 4, 2, False, True),
        (1, 4, 2, True, False),
        (1, 4, 2, True, True),
        (3, 1000, 4, False, True),
        (2, 8, 4, True, True),
    ]


MISTAKES = """
elements: * itemsize →
    Are these elements? Each has `itemsize` bytes.
bits: itemsize → 8 * itemsize
    Are these bits? `itemsize` is in bytes already.
the sum read for nothing: 5 → 4
    Does the norm kernel find s on the chip? The add kernel has ended; s is written, and then read again.
reads alone: (4 if keep_sum else 3) → 2; 5 → 3
    Are only reads counted? What is written crosses the same wires.
writes alone: 4 → 2; 3 → 1; 5 → 2
    Are only writes counted? What is read crosses the same wires.
kept sum left out: (4 if keep_sum else 3) → 3
    Is the kept sum left out? With keep_sum the fused kernel writes s as well as y.
always kept: (4 if keep_sum else 3) → 4
    Does the fused kernel always write s? Without keep_sum it never leaves the chip.
eager pays for keeping: 5 → (6 if keep_sum else 5)
    Does keep_sum cost eager mode something? There s is written anyway: keeping it is free.
one residual: 4 → 3; 3 → 2; 5 → 4
    Is one of x and residual left out? Both are read.
swapped: if fused → if not fused
    Are the two ways swapped? The fused kernel moves less.
eager keeps s on the chip: (4 if keep_sum else 3) → 3; 5 → 4
    Are there 4 tensors in eager mode? s crosses twice there: written by one kernel, read by the next.
eager writes s only if kept: 5 → (5 if keep_sum else 4)
    Does eager mode write s only with keep_sum? The norm kernel needs it in memory either way.
keep_sum upside down: if keep_sum → if not keep_sum
    Is keep_sum upside down? Keeping s costs one more write.
fused reads one tensor: 4 → 3; 3 → 2
    Does the fused kernel read one tensor? It reads x and residual.
s read twice: 5 → 6
    Is s read twice? The norm kernel reads each row once, and writes y.
kept s read back: 4 → 5
    Is the kept s read again? In forward it is only written; backward reads it.
weight and bias counted: return → return 2 * features * itemsize +
    Are weight and bias counted? They are left out here.
two bytes: itemsize → 2
    Has every element 2 bytes? It has `itemsize`.
four bytes: itemsize → 4
    Has every element 4 bytes? It has `itemsize`.
one row: rows * →
    Is this one row? A tensor has rows × features elements.
one column: * features →
    Is this one column? A tensor has rows × features elements.
rows plus features: rows * features → (rows + features)
    Are rows and features added? A tensor has rows × features elements.
"""

HINTS = """
Write down each kernel: what does it read, what does it write?
Eager: add reads 2 and writes 1, the norm reads 1 and writes 1. Fused: reads 2, writes 1, or 2 with s.
"""

EXERCISE = exercise(__doc__, bytes_moved, _cases, MISTAKES, HINTS, claims="F1 F2")
