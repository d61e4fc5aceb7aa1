"""6.5: merge two parts' mean and variance."""

from addnorm_lib.course.exercises.define import exercise


def merge(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
    """Return (n, mean, m2) of two parts put together: three numbers.

    n counts elements, m2 is the sum of their squared distances from their own mean. (Chan et al. 1983)
    """
    n = n_a + n_b
    delta = mean_b - mean_a
    mean = mean_a + delta * n_b / n
    m2 = m2_a + m2_b + delta * delta * n_a * n_b / n
    return n, mean, m2


def _cases():
    return [
        (2, 1.0, 2.0, 2, 5.0, 2.0),  # (0, 2) and (4, 6)
        (1, 3.0, 0.0, 3, 7.0, 6.0),
        (4, -2.0, 5.0, 2, 4.5, 0.5),
        (3, 2.0, 1.5, 5, 2.0, 2.5),
    ]


MISTAKES = """
the parts' m2 added: + delta * delta * n_a * n_b / n →
    Is m2 only the two parts' sum? Their means differ, and that distance is spread too.
means averaged: mean_a + delta * n_b / n → (mean_a + mean_b) / 2
    Are the means averaged without weights? The larger part counts for more.
weights swapped: mean_a + delta * n_b → mean_a + delta * n_a
    Are the weights swapped? From mean_a it is delta · n_b / n.
delta not squared: delta * delta → delta
    Is delta not squared? m2 has the unit of a square.
divided by n²: n_a * n_b / n → n_a * n_b / n**2
    Is the last term divided by n²? m2 is a sum, not a mean: n_a · n_b / n.
not divided by n: n_a * n_b / n → n_a * n_b
    Is the division by n missing in the last term? It is delta² · n_a · n_b / n.
variance: mean, m2 → mean, m2 / n
    Is this the variance? m2 is wanted, the sum of squares before the division by n.
only b's weight: delta * n_a * n_b / n → delta * n_b
    Is the last term weighted by n_b alone? Both parts lie off the common mean: n_a · n_b / n.
delta² alone: * n_a * n_b / n →
    Is delta² added once? It is weighted by n_a · n_b / n.
n_b / n: n_a * n_b / n → n_b / n
    Is delta² weighted by n_b / n? A factor n_a is missing.
n_a / n: n_a * n_b / n → n_a / n
    Is delta² weighted by n_a / n? A factor n_b is missing.
a's distance alone: n_a * n_b / n → n_a * n_b**2 / n**2
    Is only part a's distance from the common mean counted? Part b is off it as well.
b's distance alone: n_a * n_b / n → n_a**2 * n_b / n**2
    Is only part b's distance from the common mean counted? Part a is off it as well.
minus: + delta * delta → - delta * delta
    Is the last term taken off? Two means apart spread the whole wider.
m2 averaged: m2_a + m2_b → (n_a * m2_a + n_b * m2_b) / n
    Are m2_a and m2_b averaged? They are sums: add them.
m2 averaged, no delta: m2_a + m2_b + delta * delta * n_a * n_b / n → (n_a * m2_a + n_b * m2_b) / n
    Is m2 an average of the two? They are sums: add them, and delta²'s term.
variances taken: m2_a + m2_b → n_a * m2_a + n_b * m2_b
    Are m2_a and m2_b taken for variances? They are sums of squares already.
unbiased variance: mean, m2 → mean, m2 / (n - 1)
    Is m2 divided by n − 1? m2 is wanted, the sum of squares before any division.
delta backwards: mean_a + delta → mean_a - delta
    Does the mean move away from mean_b? delta is mean_b − mean_a.
one element's step: delta * n_b / n → delta / n
    Does the mean move by delta / n? That is for one new element; here there are n_b.
means not divided: mean_a + delta * n_b / n → n_a * mean_a + n_b * mean_b
    Is the mean a sum? Divide n_a · mean_a + n_b · mean_b by n.
means added: mean_a + delta * n_b / n → mean_a + mean_b
    Are the two means added? The common one lies between them.
m2 before mean: n, mean, m2 → n, m2, mean
    Is m2 returned before mean? The order is n, mean, m2.
n at the end: n, mean, m2 → mean, m2, n
    Is n returned last? The order is n, mean, m2.
floor division: n_a * n_b / n → n_a * n_b // n
    Is there a // in m2? It drops the fraction: divide by /.
"""

HINTS = """
The common mean lies between the two, nearer to the larger part.
m2 = m2_a + m2_b + delta² · n_a · n_b / n.
"""

EXERCISE = exercise(__doc__, merge, _cases, MISTAKES, HINTS, claims="F10")
