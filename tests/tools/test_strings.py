"""The translators' template: it has every string of the source and of the exercises, and it can be read back."""

import io
import sys

import pytest
from babel.messages.pofile import read_po

from tools import strings

SOURCE = """
print(_("plain"), _(name), N_("joined " "up"), other("no"))
text = _("{one} of {two}").format(one=1, two=2)
"""


def test_literals_are_found_where_they_stand():
    assert sorted(strings.literals(SOURCE)) == [(2, "joined up"), (2, "plain"), (3, "{one} of {two}")]


@pytest.mark.parametrize("source", ['_(f"{x} is wrong")', '_("a" + b)'])
def test_a_text_that_no_catalogue_can_hold_is_refused(source):
    with pytest.raises(ValueError, match="put together"):
        list(strings.literals(source))


def test_the_template_can_be_read_back(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["strings", str(tmp_path / "addnorm_lib.pot")])
    strings.main()
    catalog = read_po(io.BytesIO((tmp_path / "addnorm_lib.pot").read_bytes()))
    assert {message.id for message in catalog} == {message.id for message in strings.template()}
    question = catalog.get(
        "Is the variance divided by D − 1? var() and std() do so unless told; layer norm divides by D."
    )
    assert "exercise 3.1, question about 'unbiased'" in question.auto_comments
    assert catalog.get("not attempted yet").locations
