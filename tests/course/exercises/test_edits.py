"""A mistake told as an edit: what an edit makes of a solution, and which edits are refused when they are read."""

import inspect

import pytest

from addnorm_lib.course.exercises import edits
from addnorm_lib.course.exercises.define import exercise, table

TWO = 2


def solve(x, gain):
    """Return x + x · gain, or -x."""
    if gain is None:
        return -x
    scaled = x * gain
    total = x + scaled
    return total


def other_way(x, gain):
    return gain


def made(edit):
    return edits.edited(solve, edit, "<an edit>")


@pytest.mark.parametrize(
    ("edit", "result"),
    [
        ("x + scaled → x - scaled", 3 - 12),
        ("x * gain → x; x + scaled → scaled * scaled", 9),
        ("x * gain → x * TWO", 9),  # a name of the file
        ("x + →", 12),
        ("every total → whole", 15),
        ("scaled = x * gain ⏎ total = x + scaled → total = gain", 4),
        ("scaled = → x = 10 * x ⏎ scaled =", 150),
        ("return x * gain", 12),
        ("y = x ⏎ for _ in range(gain): y = y + 1 ⏎ return y", 7),
        ("def other_way", 4),
        ("x + scaled → solve(x, 1)", 6),  # the solution itself, not the edited function
    ],
)
def test_an_edit_is_made(edit, result):
    assert solve(3, 4) == 15
    assert made(edit)(3, 4) == result


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("x ** gain → x", "'x \\*\\* gain' is not in the solution"),
        ("scale → x", "'scale' is not in the solution"),  # part of a word
        ("or -x → x", "not in the solution"),  # in the docstring alone
        ("scaled → x", "'scaled' is in the solution 2 times"),
        ("every x + scaled → x", "'x \\+ scaled' is in the solution 1 times"),
        ("x * gain → x; gain ⏎ total → y", "edited twice"),
        ("x + scaled → x  +  scaled", "changes nothing"),
        ("x + scaled → x +", "makes no Python: invalid syntax"),
        ("x + scaled → x; total", "`old → new` wanted"),
        ("→ x", "`old → new` wanted"),
        ("def nobody", "'nobody' is no function defined above"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit, why):
    with pytest.raises(ValueError, match=why):
        made(edit)


def test_an_edited_function_has_its_source_and_its_docstring():
    function = made("x + scaled → x - scaled")
    assert inspect.getsource(function) == inspect.getsource(solve).replace("x + scaled", "x - scaled")
    assert function.__doc__ == solve.__doc__


BLOCK = """
minus: x + scaled → x - scaled
    Is it
    added?

long: x * gain →
        x; x + scaled → scaled
    Is it long?
whole:
        return x
    Is it whole?
"""


def test_a_block_is_read():
    assert edits.read(BLOCK) == [
        ("minus", "x + scaled → x - scaled", "Is it added?"),
        ("long", "x * gain → x; x + scaled → scaled", "Is it long?"),
        ("whole", "return x", "Is it whole?"),
    ]
    assert edits.paragraphs("\nOne.\nTwo is\n  long.\n") == ("One.", "Two is long.")


@pytest.mark.parametrize(
    "block",
    [
        "    A question?",
        "name: a → b",
        "name:\n    A question?",
        "name: a → b\n  A question?",
        "a: b → c\n    d?\n        e",
    ],
)
def test_a_block_that_says_no_mistake_is_refused(block):
    with pytest.raises(ValueError, match="block: "):
        edits.read(block)


def test_an_exercise_is_refused_where_one_of_its_mistakes_is_no_edit():
    with pytest.raises(ValueError, match=r"9.9, minus: 'x - scaled' is not in the solution"):
        exercise("9.9: one.", solve, lambda: [(3, 4)], "minus: x - scaled → x\n    Why?", "", claims="")


def test_a_starter_is_an_edit_too():
    asked = exercise("9.9: one.", solve, lambda: [(3, 4)], BLOCK, "Think.", claims="A1 A2", starter="x + → x -")
    assert asked.starter(3, 4) == -9
    assert asked.stub == asked.solution_source.replace("x + scaled", "x - scaled")
    assert asked.claims == ("A1", "A2")


COLOURS = {"the sky": "blue", "the sun": "yellow", "grass": "green"}
MISTAKES = """
swapped: the sky → yellow; the sun → blue
    Swapped?
grass: gr → blue
    Grass?
"""


def test_a_mistake_in_a_table_changes_its_entries():
    asked = table("9.8: one.", "colours", COLOURS, MISTAKES, "Look.", claims="A1", task="Which colour?\nSay.")
    assert [known.wrong for known in asked.misconceptions] == [
        {"the sky": "yellow", "the sun": "blue", "grass": "green"},
        {**COLOURS, "grass": "blue"},
    ]
    assert asked.stub.startswith('# Which colour?\n# Say.\ncolours = {\n    "the sky": ...,\n')
    assert asked.solution_source.splitlines()[1] == '    "the sky": "blue",'
    blank = table("9.8: one.", "colours", COLOURS, "", "", claims="A1", task="Which?", keys_given=False)
    assert blank.stub == "# Which?\ncolours = ..."
    assert blank.solution_source == 'colours = {"the sky": "blue", "the sun": "yellow", "grass": "green"}'


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("the → red", "9.8, a: 'the' begins 2 keys"),
        ("snow → white", "'snow' begins 0 keys"),
        ("grass → green", "'grass' is 'green' in the solution"),
    ],
)
def test_an_edit_of_a_table_that_does_not_fit_is_refused(edit, why):
    with pytest.raises(ValueError, match=why):
        table("9.8: one.", "colours", COLOURS, f"a: {edit}\n    Why?", "", claims="A1", task="")


@pytest.mark.parametrize("about", ["", "one", "9: one", "9.9 one"])
def test_an_exercise_without_a_heading_is_refused(about):
    with pytest.raises(ValueError, match=r"about: the file's docstring wanted"):
        exercise(about, solve, lambda: [(3, 4)], "", "", claims="")
