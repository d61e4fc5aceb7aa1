"""Numbers as readers see them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from addnorm_lib.course.figures.numbers import between, fixed, short


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (1.3416, "1.34"), (-0.08411, "−0.0841"), (1.25e16, "1.25e16"), (6.67e-5, "6.67e−5")],
)
def test_short_numbers(value, text):
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-0.004, 2, "0.00"), (-0.006, 2, "−0.01"), (1.3, 2, "1.30"), (-14.6, 0, "−15"), (np.float32(-0.25), 1, "−0.2")],
)
def test_fixed_numbers(value, digits, text):
    assert fixed(value, digits) == text


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_a_fixed_number_is_the_value_with_a_real_minus_sign(value, digits):
    text = fixed(value, digits)
    assert "-" not in text
    assert float(text.replace("−", "-")) == round(value, digits)


@pytest.mark.parametrize(
    ("value", "text"),
    [(-2.0, "below −1"), (-0.3, "between −1 and 0.5"), (0.6, "above 0.5"), (np.inf, "above 0.5")],
)
def test_a_number_between_edges(value, text):
    assert between(value, -1, 0.5) == text
