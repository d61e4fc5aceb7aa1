"""Numbers as readers see them: few characters, a real minus sign, never −0."""

import re


def typeset(number: str) -> str:
    """Return a formatted number with a real minus sign and no padding in its exponent: 1e−5 for 1e-05."""
    return re.sub(r"e([+-])0*", lambda found: "e" + found[1].replace("+", ""), number).replace("-", "−")


def short(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits: 1.34, −0.0841, 1.6e−5, 0."""
    return typeset(f"{value + 0.0:.{digits}g}")


def fixed(value: float, digits: int = 2) -> str:
    """Return a number with `digits` decimals: 1.30, −0.08, 0.00."""
    return typeset(f"{round(float(value), digits) + 0.0:.{digits}f}")
