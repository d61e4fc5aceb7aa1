"""The claims of the chapters, and `claim`, which checks one against a measurement.

A chapter states nothing that it does not run: its cells end in `claim(...)`, which prints what was measured beside what
was asserted, and raises where the two do not fit. The measured digits differ from machine to machine; where an executed
notebook is compared with the committed one, tools/nbval.cfg masks them, and nothing else of the line.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from addnorm_lib.messages import N_, _

STATEMENTS: dict[str, str] = {
    "A2": N_("F(x) has the shape of x, or a projection aligns the two"),
    "B1": N_("y = x + F(x): with F = 0 the block is exactly the identity"),
    "B2": N_("learning F ≈ 0 is easier than learning the identity with a stack of nonlinear layers"),
    "B3": N_("a deeper net can copy the shallower one exactly, so it need never be worse"),
    "B4": N_("deeper plain nets have a higher training error too: degradation is not overfitting"),
    "B5": N_("a plain stack multiplies Jacobians: the gradient vanishes or explodes with the gain"),
    "B6": N_("with a residual the factor is I + J, and near I only while L·s² is small"),
    "B7": N_("a residual relieves vanishing gradients, it does not abolish vanishing or explosion"),
    "B8": N_("plain stacks lose early information, residual stacks keep what no branch erases"),
    "B9": N_("at initialisation the branch's share of the variance is 1/(l + 1)"),
    "B10": N_(
        "a residual is the sum, not a copy: it gives a direct path at constant width, a detached copy gives none"
    ),
    "B11": N_("a residual does not make depth unlimited: scale, norm and learning rate still matter"),
    "B12": N_("all else equal, the residual stack is easier to optimise"),
    "B13": N_("gradients reach early layers by short paths"),
    "C1": N_("batch, layer, instance and group norm and RMSNorm differ in the numbers that share one statistic"),
    "C2": N_("layer norm divides by the biased deviation: [1, 2, 3, 4] becomes [−1.34, −0.45, 0.45, 1.34]"),
    "C3": N_("normalised values have mean 0 and variance σ²/(σ² + ε); nothing confines them to [0, 1]"),
    "C4": N_("layer norm brings large and small vectors to one scale while σ² is far above ε"),
    "C5": N_("on (B, T, D) layer norm takes one mean and one variance a token; tokens never mix"),
    "C6": N_("γ and β scale and shift each feature, alike for all tokens: they cannot undo a token's own μ and σ"),
    "C7": N_("layer norm removes exactly two degrees of freedom of a token: its mean and its length"),
    "C8": N_("ε keeps a constant token from dividing by zero"),
    "C9": N_("a very large scale saturates softmax and a very small one flattens it; behind a norm the scale is gone"),
    "C10": N_("batch norm lowers the sensitivity to the learning rate, and makes a sample depend on its batch"),
    "C11": N_("small batches make batch norm's statistics noisy: the mean's deviation falls as 1/√B"),
    "C12": N_("at B = 1, T = 1 batch norm refuses in training mode and uses running statistics in evaluation mode"),
    "C13": N_("padding moves batch norm's outputs for real tokens, and layer norm's not"),
    "C14": N_("layer norm gives a token the same output alone or in a batch, in training or evaluation mode"),
    "C15": N_("layer norm suits generation token by token; batch norm in training mode leaks the future"),
    "C16": N_("the tokens of real text differ in their statistics, and a batch of neighbours says less than strangers"),
    "C17": N_("group norm stands between layer norm (one group) and instance norm (one channel a group)"),
    "C18": N_("layer norm speeds up convergence and widens the range of learning rates in deep stacks"),
    "D1": N_("Post-LN is LN(x + F(x)), Pre-LN is x + F(LN(x)), and a Pre-LN stack wants a final norm"),
    "D2": N_("the order changes gradients and hidden states at initialisation, not only the style"),
    "D3": N_("Pre-LN trains deep stacks without the warm-up that Post-LN needs"),
    "D4": N_("Post-LN is not worthless, and Pre-LN has its price: the outcome depends on depth and schedule"),
    "D6": N_("residual and norm solve different problems: at depth only both together train"),
    "F1": N_("the fused forward moves 3 tensors' bytes, 4 where the sum is kept"),
    "F2": N_("eager mode's two lines move 5, for the sum is written and read again; Pre-LN's backward 6, fused 4"),
    "F3": N_("Add & Norm does so little arithmetic a byte that memory alone decides its time"),
    "F4": N_("two passes over the rounded sum give what eager mode gives on x + residual"),
    "F5": N_("backward needs two numbers a row, c1 and c2, and no more"),
    "F6": N_("the gradients of γ and β are partial sums in a fixed order: the same bits in every run"),
    "F7": N_("block shapes depend on D and dtype alone, so a row has the same bits alone and in any batch"),
    "F8": N_("small shapes are bound by the call, not by the bytes"),
    "F9": N_("masked lanes let a tile of a power of two hold any D, if they are masked twice"),
    "F10": N_("mean and variance of two parts merge exactly into the whole's"),
    "F11": N_("the layers compute each sum together with the norm that follows it, even in the next layer"),
}

CHAPTERS: dict[int, tuple[str, ...]] = {
    1: ("A2", "B1", "B2", "B5", "B6", "B7", "B8", "B9", "B10", "B13"),
    2: ("B3", "B4", "B7", "B11", "B12"),
    3: tuple(f"C{number}" for number in range(1, 19)),
    4: ("D1", "D2", "D3", "D4", "D6"),
    6: tuple(f"F{number}" for number in range(1, 12)),
}


class ClaimError(AssertionError):
    """A measurement that contradicts the claim it was meant to show."""


@dataclass(frozen=True)
class Assertion:
    """What one `claim` asserts of a measurement, and whether it holds.

    measured: every number that was measured, flat, float64; empty where a boolean was asserted. low, high: the bounds
    of each number, the same shape; a strict bound where `strict`, otherwise the bound itself still holds.
    """

    text: str
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


def _number(value: float) -> str:
    """Write a bound: whole numbers in full, others with three significant digits."""
    if not np.isfinite(value):
        return str(float(value))
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else _tidy(f"{value:.3g}")


def _measurement(value: float) -> str:
    """Write a measured number: two significant digits, whole numbers in full."""
    if not np.isfinite(value) or (float(value).is_integer() and abs(value) < 1e6):
        return _number(value)
    rounded = float(f"{value:.2g}")
    if 1e-3 <= abs(rounded) < 1e6:
        return f"{rounded:.0f}" if abs(rounded) >= 100 else f"{rounded:#.2g}".rstrip(".")
    return _tidy(f"{value:.2g}")


def _tidy(number: str) -> str:
    mantissa, e, power = number.partition("e")
    return f"{mantissa}e{int(power)}" if e else number


def _range(values: np.ndarray) -> str:
    ends = [_measurement(values.min()), _measurement(values.max())]
    return ends[0] if ends[0] == ends[1] else " … ".join(ends)


def _array(measured: Any) -> np.ndarray:
    if hasattr(measured, "detach"):
        measured = measured.detach().cpu().double()
    return np.asarray(measured, dtype=np.float64)


def _within(got: np.ndarray, expected: Any, rtol: float, atol: float) -> Assertion:
    want = _array(expected)
    if want.shape not in ((), got.shape):
        raise ValueError(f"expected: shape {got.shape} of the measurement wanted, got {want.shape}")
    values = np.broadcast_to(want, got.shape).ravel()
    same = np.all(values == values[0])
    shown = _number(values[0]) if same else ", ".join(map(_number, values[:6]))
    shown += "" if same or len(values) <= 6 else ", …"
    tolerance = " + ".join([f"{100 * rtol:.3g} %"] * (rtol > 0) + [_number(atol)] * (atol > 0))
    if tolerance:
        text = _("expected {expected} ± {tolerance}").format(expected=shown, tolerance=tolerance)
    else:
        text = _("expected exactly {expected}").format(expected=shown)
    room = atol + rtol * np.abs(values)
    return Assertion(text, got.ravel(), values - room, values + room, strict=False)


def _between(got: np.ndarray, above: float | None, below: float | None) -> Assertion:
    if above is None:
        text = _("below {bound}").format(bound=_number(below))
    elif below is None:
        text = _("above {bound}").format(bound=_number(above))
    else:
        text = _("between {low} and {high}").format(low=_number(above), high=_number(below))
    low, high = -math.inf if above is None else above, math.inf if below is None else below
    return Assertion(text, got.ravel(), np.full(got.size, low), np.full(got.size, high), strict=True)


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
        return Assertion("", nothing, nothing, nothing, strict=True, truth=bool(measured))
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
    if claim_id not in STATEMENTS:
        raise ValueError(f"claim_id: one of {', '.join(STATEMENTS)} wanted, got {claim_id!r}")
    statement = says if says is not None else _(STATEMENTS[claim_id])
    asserted = assertion(measured, expected, rtol=rtol, atol=atol, above=above, below=below)
    if not asserted.measured.size:
        if not asserted.truth:
            raise ClaimError(f"✗ {claim_id}  {statement}")
        print(f"✓ {claim_id}  {statement}")
        return
    if not asserted.holds.all():
        wrong = ", ".join(map(_measurement, asserted.measured[~asserted.holds][:4]))
        raise ClaimError(f"✗ {claim_id}  {statement}: {wrong}, {asserted.text}")
    print(f"✓ {claim_id}  {statement}: {_range(asserted.measured)}, {asserted.text}")


def claims(*wanted: str | int) -> None:
    """Print claims as sentences: `claims("C6")` one of them, `claims(3)` a chapter's, `claims()` all.

    Raises ValueError for an id or a chapter that there is not.
    """
    for one in wanted or CHAPTERS:
        ids = CHAPTERS.get(one, (one,) if one in STATEMENTS else ()) if isinstance(one, str | int) else ()
        if not ids:
            raise ValueError(
                f"wanted: a chapter ({', '.join(map(str, CHAPTERS))}) or one of {', '.join(STATEMENTS)}, got {one!r}"
            )
        for claim_id in ids:
            print(f"{claim_id:<4} {_(STATEMENTS[claim_id])}")
