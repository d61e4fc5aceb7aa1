"""The figure of a variance's rounding errors tells how large they get."""

import pytest
import torch

from addnorm_lib.course.figures.rounding import variance_errors
from addnorm_lib.course.figures.style import Picture


@pytest.mark.parametrize(
    ("errors", "words"),
    [([1e-7, 1e-6], "one pass below 1 %"), ([1e-7, 0.5], "one pass below 100 %"), ([0.0, 3.0], "one pass above 100 %")],
)
def test_the_worst_error_is_told(errors, words):
    picture = variance_errors((1.0, 10.0), {"one pass": torch.tensor(errors, dtype=torch.float64)})
    assert isinstance(picture, Picture) and words in picture.description and "means up to 10" in picture.description
