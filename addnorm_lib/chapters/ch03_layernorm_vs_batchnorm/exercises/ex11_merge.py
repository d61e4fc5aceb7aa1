"""3.11: merge the statistics of two halves without losing digits."""

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.exercises.common import FLOAT32, floats, normal
from addnorm_lib.course.exercises.define import exercise


def merge(count_a, mean_a, var_a, count_b, mean_b, var_b):
    """Return (count, mean, var) of two sets put together, from those of the parts a and b; variances are biased.

    Counts are ints; means and variances are float32 tensors (D,), a feature each. Keep the digits where the means are
    near 10⁴ and the variances near 1: mean(x²) − μ² loses them. (Kernels merge partial statistics so.)
    """
    count = count_a + count_b
    delta = mean_b - mean_a
    mean = (count_a * mean_a + count_b * mean_b) / count
    var = (count_a * var_a + count_b * var_b) / count + delta**2 * count_a * count_b / count**2
    return count, mean, var


def _cases():
    # Powers of two where the means are large: one pass then loses the same digits in whatever order it is written,
    # and the merged mean is exact, so that an answer may use it.
    return [
        (1, floats(0.0), floats(0.0), 1, floats(4.0), floats(0.0)),
        (2, floats(1.0, 0.0), floats(1.0, 2.0), 6, floats(5.0, 0.0), floats(2.0, 6.0)),
        (4, floats(8192.0, 8200.0), floats(1.0, 0.5), 4, floats(8192.0, 8184.0), floats(1.5, 2.0)),
        (7, normal(5), normal(5, seed=1).abs(), 4, normal(5, seed=2), normal(5, seed=3).abs()),
    ]


MISTAKES = """
one pass: (count_a * var_a + count_b * var_b) / count + delta**2 * count_a * count_b / count**2 →
        (count_a * (var_a + mean_a**2) + count_b * (var_b + mean_b**2)) / count - mean**2
    Is this mean(x²) − μ²? Near 10⁴ both are near 10⁸, where float32 numbers are 8 apart.
the parts' variances only: + delta**2 * count_a * count_b / count**2 →
    Do the parts' own variances suffice? Where their means differ, that adds to the variance as well.
square forgotten: delta**2 → delta
    Is the difference of the means squared? A variance is made of squares.
n for n²: count**2 → count
    Is the means' part divided by n once? n_a·n_b/n · δ² is a sum of squares: divide by n again.
a quarter: delta**2 * count_a * count_b / count**2 → delta**2 / 4
    Is that δ²/4? It holds for halves of equal size; in general the factor is n_a·n_b/n².
minus: + delta**2 → - delta**2
    Is the means' part subtracted? Two sets with different means vary more together, not less.
unbiased: mean, var → mean, var * count / (count - 1)
    Is the variance divided by n − 1? Biased ones go in, and a biased one comes out.
sum of squares: mean, var → mean, var * count
    Is this the sum of squared deviations? Divide by n.
mean of the means: (count_a * mean_a + count_b * mean_b) / count → (mean_a + mean_b) / 2
    Is the mean weighted by the counts? A larger part pulls it more.
nothing weighted: (count_a * mean_a + count_b * mean_b) / count → (mean_a + mean_b) / 2;
        (count_a * var_a + count_b * var_b) / count → (var_a + var_b) / 2;
        delta**2 * count_a * count_b / count**2 → delta**2 / 4
    Are the two parts weighted alike? Their counts differ.
shares swapped: count_a * mean_a + count_b * mean_b → count_b * mean_a + count_a * mean_b
    Is each mean weighted by the other part's count? The larger part pulls more.
variances added: (count_a * var_a + count_b * var_b) / count + delta**2 * count_a * count_b / count**2 → var_a + var_b
    Are the two variances added? They are averaged, by the counts, and the means' distance comes on top.
plain averages: (count_a * mean_a + count_b * mean_b) / count → (mean_a + mean_b) / 2;
        (count_a * var_a + count_b * var_b) / count + delta**2 * count_a * count_b / count**2 → (var_a + var_b) / 2
    Are means and variances plainly averaged? Weight them; and means that differ add to the variance.
distance for its square: delta**2 → delta.abs()
    Is the difference of the means squared? A variance is a mean of squares, not of distances.
no share: * count_a * count_b / count**2 →
    Is δ² added as it is? Weight it: n_a·n_b/n².
about a's mean: count_a * count_b / count**2 → count_b / count
    Is b measured from a's mean? Measure both parts from the mean of the whole.
deviation: mean, var → mean, var.sqrt()
    Is that a root? A variance is wanted.
variances' shares swapped: count_a * var_a + count_b * var_b → count_b * var_a + count_a * var_b
    Is each variance weighted by the other part's count? The larger part pulls more.
parts unbiased: count_a * var_a + count_b * var_b → (count_a - 1) * var_a + (count_b - 1) * var_b
    Are the parts' variances taken for unbiased ones? Biased: n_a·var_a is a's sum of squares.
"""

HINTS = """
The whole's mean is m = (n_a·m_a + n_b·m_b)/n. How far is each part's mean from it?
Each part adds its variance plus (m_a − m)², weighted by its count; together: n_a·n_b/n²·(m_b − m_a)².
"""

EXERCISE = exercise(__doc__, merge, _cases, MISTAKES, HINTS, claims="C2", **FLOAT32)
