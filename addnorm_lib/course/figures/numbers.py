"""Numbers as readers see them: few characters, a real minus sign, never −0.

A description is stored and compared on other machines, so a measured number enters it by `between`, with edges that
are far from it; digits are for numbers that every machine computes alike.
"""

import bisect
import re

from addnorm_lib.messages import _


def typeset(number: str) -> str:
    """Return a formatted number with a real minus sign and no padding in its exponent: 1e−5 for 1e-05."""
    return re.sub(r"e([+-])0*", lambda found: "e" + found[1].replace("+", ""), number).replace("-", "−")


def short(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits: 1.34, −0.0841, 1.6e−5, 0."""
    return typeset(f"{value + 0.0:.{digits}g}")


def between(value: float, *edges: float) -> str:
    """Return which of the rising `edges` a number lies between: “below 0.1”, “between 0.1 and 1”, “above 1”."""
    shown = [typeset(f"{edge:g}") for edge in edges]
    at = bisect.bisect(edges, value)
    if at == 0:
        return _("below {bound}").format(bound=shown[0])
    if at == len(edges):
        return _("above {bound}").format(bound=shown[-1])
    return _("between {low} and {high}").format(low=shown[at - 1], high=shown[at])


def fixed(value: float, digits: int = 2) -> str:
    """Return a number with `digits` decimals: 1.30, −0.08, 0.00."""
    return typeset(f"{round(float(value), digits) + 0.0:.{digits}f}")
