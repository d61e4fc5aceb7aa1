"""A short vector is read as people write it, and what is none is named."""

import pytest

from addnorm_lib.course.panels.vector import parse_numbers


@pytest.mark.parametrize(
    ("text", "want"),
    [("1,2, 3 ,4", (1, 2, 3, 4)), ("[.2 −.1 .3]", (0.2, -0.1, 0.3)), ("(1e-4)", (1e-4,)), ("-0", (0,))],
)
def test_numbers_are_read_as_people_write_them(text, want):
    assert parse_numbers(text) == want


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1 to 4 numbers, such as 1, 2, 3, 4, wanted, got 0"),
        ("1 2 3 4 5", "got 5"),
        ("1, 2; 3", "got '2;'"),
        ("nan", "numbers from -5e8 to 5e8 wanted, got nan"),
        ("1, 1e400", "got 1e400"),
        ("-6e8", "got -6e8"),
        ("__import__('os')", "got \"__import__\\\\('os'\""),
    ],
)
def test_what_is_no_short_vector_is_named(text, words):
    with pytest.raises(ValueError, match=words.replace("\\\\(", "[(]")):
        parse_numbers(text)
