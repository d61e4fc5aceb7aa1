"""`claim`, which checks one of the chapters' claims against a measurement, and `claims`, which says what they are.

A chapter states nothing that it does not run: its cells end in `claim(...)`, which prints what was measured beside what
was asserted, and raises where the two do not fit. The measured digits differ from machine to machine; where an executed
notebook is compared with the committed one, tools/nbval.cfg masks them, and nothing else of the line.
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from addnorm_lib.course import contents
from addnorm_lib.messages import _


@cache
def _chapters() -> dict[int, dict[str, str]]:
    """Return every chapter's claims with their sentences, as the chapters' own folders list them."""
    found = {number: import_module(f"{package}.claims") for number, package in contents.chapters().items()}
    stated = {claim_id: text for module in found.values() for claim_id, text in module.STATEMENTS.items()}
    proven = {number: [*module.STATEMENTS, *getattr(module, "AGAIN", ())] for number, module in found.items()}
    return {number: {i: stated[i] for i in sorted(ids, key=_in_order)} for number, ids in proven.items()}


def _in_order(claim_id: str) -> tuple[str, int]:
    return claim_id[0], int(claim_id[1:])


def statements() -> dict[str, str]:
    """Return every claim's sentence, by its id."""
    return {claim_id: text for ids in _chapters().values() for claim_id, text in ids.items()}


def chapter_claims(number: int) -> tuple[str, ...]:
    """Return the ids of the claims that a chapter proves. Raises ValueError for a chapter that there is not."""
    if number not in _chapters():
        raise ValueError(f"number: one of {', '.join(map(str, _chapters()))} wanted, got {number!r}")
    return tuple(_chapters()[number])


class ClaimError(AssertionError):
    """A measurement that contradicts the claim it was meant to show."""


@dataclass(frozen=True)
class Assertion:
    """What one `claim` asserts of a measurement, and whether it holds.

    text, told: the bound and the measurement in words. measured: every number that was measured, flat, float64; empty
    where a boolean was asserted. low, high: the bounds of each number, the same shape; a strict bound where `strict`,
    otherwise the bound itself still holds.
    """

    text: str
    told: str
    measured: np.ndarray
    low: np.ndarray
    high: np.ndarray
    strict: bool
    truth: bool = True

    @property
    def holds(self) -> np.ndarray:
        """Which of the numbers are within their bounds; NaN never is."""
        if self.strict:
            return (self.measured > self.low) & (self.measured < self.high)
        return (self.measured >= self.low) & (self.measured <= self.high)


def _digits(value: float, room: float, least: int) -> str:
    """Write a number with at least so many significant digits, and with more where its `room` is smaller than that."""
    if not np.isfinite(value):
        return _typeset(str(float(value)))
    if float(value).is_integer() and abs(value) < 1e6:
        return _typeset(str(int(value)))
    resolved = math.floor(math.log10(abs(value))) + 1 + math.ceil(-math.log10(room)) if room > 0 else 0
    significant = min(max(least, resolved), 7)
    rounded = float(f"{value:.{significant}g}")
    if not 1e-3 <= abs(rounded) < 1e6:
        return _typeset(f"{rounded:.{significant - 1}e}")
    return _typeset(f"{rounded:.{max(0, significant - 1 - math.floor(math.log10(abs(rounded))))}f}")


def _typeset(number: str) -> str:
    mantissa, e, power = number.partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if e else mantissa
    return (f"{mantissa}e{int(power)}" if e else mantissa).replace("-", "−")


def _bound(value: float, room: float = 0.0) -> str:
    """Write what was asserted: three significant digits, without zeros at the end, or as many as the room asks for."""
    digits = _digits(value, room, 3)
    return digits.rstrip("0").rstrip(".") if "." in digits and "e" not in digits else digits


_LISTED = 8  # so many numbers, each with an expectation of its own, are all shown


def _told(values: np.ndarray, room: np.ndarray, each: bool = False) -> str:
    """Write what was measured: each number, or the range of all."""
    shown = [_digits(value, left, 2) for value, left in zip(values, room, strict=True)]
    if each and len(values) <= _LISTED:
        return ", ".join(shown)
    ends = [shown[values.argmin()], shown[values.argmax()]]
    same = float(ends[0].replace("−", "-")) == float(ends[1].replace("−", "-"))
    return min(ends, key=len) if same else " … ".join(ends)


def _array(measured: Any) -> np.ndarray:
    if hasattr(measured, "detach"):
        measured = measured.detach().cpu().double()
    return np.asarray(measured, dtype=np.float64)


def _within(got: np.ndarray, expected: Any, rtol: float, atol: float) -> Assertion:
    want = _array(expected)
    if want.shape not in ((), got.shape):
        raise ValueError(f"expected: shape {got.shape} of the measurement wanted, got {want.shape}")
    values = np.broadcast_to(want, got.shape).ravel()
    room = atol + rtol * np.abs(values)
    same = bool(np.all(values == values[0]))
    listed = values[:1] if same else values[:_LISTED]
    shown = ", ".join(map(_bound, listed, room)) + ", …" * (not same and len(values) > _LISTED)
    tolerance = " + ".join([_typeset(f"{100 * rtol:.3g}") + " %"] * (rtol > 0) + [_bound(atol)] * (atol > 0))
    if tolerance:
        text = _("expected {expected} ± {tolerance}").format(expected=shown, tolerance=tolerance)
    else:
        text = _("expected exactly {expected}").format(expected=shown)
    return Assertion(text, _told(got.ravel(), room, not same), got.ravel(), values - room, values + room, strict=False)


def _between(got: np.ndarray, above: float | None, below: float | None) -> Assertion:
    if above is None:
        text = _("below {bound}").format(bound=_bound(below))
    elif below is None:
        text = _("above {bound}").format(bound=_bound(above))
    else:
        text = _("between {low} and {high}").format(low=_bound(above), high=_bound(below))
    low, high = -math.inf if above is None else above, math.inf if below is None else below
    told = _told(got.ravel(), np.zeros(got.size))
    return Assertion(text, told, got.ravel(), np.full(got.size, low), np.full(got.size, high), strict=True)


def assertion(
    measured: Any, expected: Any = None, *, rtol: float = 0.0, atol: float = 0.0, above: Any = None, below: Any = None
) -> Assertion:
    """Return what `claim`, called with these arguments, asserts. Raises ValueError on arguments that do not fit."""
    bounded = above is not None or below is not None
    if expected is not None and bounded:
        raise ValueError("expected: either an expected value or bounds (above, below) wanted, got both")
    if expected is None and not bounded:
        if not isinstance(measured, (bool, np.bool_)):
            raise ValueError(f"measured: a boolean wanted where nothing is expected, got {type(measured).__name__}")
        nothing = np.empty(0)
        return Assertion("", "", nothing, nothing, nothing, strict=True, truth=bool(measured))
    got = _array(measured)
    if got.size == 0:
        raise ValueError("measured: at least one number wanted, got none")
    return _between(got, above, below) if bounded else _within(got, expected, rtol, atol)


def claim(
    claim_id: str,
    measured: Any,
    expected: Any = None,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    above: float | None = None,
    below: float | None = None,
    says: str | None = None,
) -> None:
    """Check a measurement against what the claim predicts, and print one line: what was measured, what was asserted.

    `claim(id, truth)` wants a true boolean; `claim(id, measured, expected, rtol=…, atol=…)` wants every element within
    `atol + rtol·|expected|`; `claim(id, measured, above=…, below=…)` wants every element strictly between the bounds.
    `says` replaces the claim's general statement by what this cell shows. Numbers, arrays and tensors are accepted; of
    an array the line shows the range.

    Raises ClaimError, with the measured value, when the claim does not hold, and ValueError for an unknown id or
    arguments that do not fit.
    """
    if claim_id not in statements():
        raise ValueError(f"claim_id: one of {', '.join(statements())} wanted, got {claim_id!r}")
    statement = says if says is not None else _(statements()[claim_id])
    asserted = assertion(measured, expected, rtol=rtol, atol=atol, above=above, below=below)
    if not asserted.measured.size:
        if not asserted.truth:
            raise ClaimError(f"✗ {claim_id}  {statement}")
        print(f"✓ {claim_id}  {statement}")
        return
    if not asserted.holds.all():
        wrong = ", ".join(_digits(value, 0.0, 3) for value in asserted.measured[~asserted.holds][:4])
        raise ClaimError(f"✗ {claim_id}  {statement}: {wrong}, {asserted.text}")
    print(f"✓ {claim_id}  {statement}: {asserted.told}, {asserted.text}")


def claims(*wanted: str | int) -> None:
    """Print claims as sentences: `claims("C6")` one of them, `claims(3)` a chapter's, `claims()` all.

    Raises ValueError for an id or a chapter that there is not.
    """
    for one in wanted or _chapters():
        known = {claim_id: {claim_id: text} for claim_id, text in statements().items()} | _chapters()
        if not isinstance(one, str | int) or one not in known:
            chapters, ids = (", ".join(map(str, some)) for some in (_chapters(), statements()))
            raise ValueError(f"wanted: a chapter ({chapters}) or one of {ids}, got {one!r}")
        for claim_id, text in known[one].items():
            print(f"{claim_id:<4} {_(text)}")
