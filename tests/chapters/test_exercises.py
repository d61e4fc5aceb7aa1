"""Every exercise of every chapter: its solution passes, every mistake it knows is named, and no mutant passes."""

import ast
import copy
import math

import pytest
import torch

from addnorm_lib.course import check, hint, mistakes, solution
from addnorm_lib.course.assertions import chapter_claims
from addnorm_lib.course.exercises import session
from addnorm_lib.course.exercises.define import Exercise, FunctionExercise, exercise_number
from addnorm_lib.course.exercises.judging import judge
from addnorm_lib.course.exercises.registry import chapter, numbers
from addnorm_lib.microscope import tiles

ALL = [(number, exercise) for number in numbers() for exercise in chapter(number)]
EACH = pytest.mark.parametrize("exercise", [exercise for _n, exercise in ALL], ids=lambda exercise: exercise.id)
EACH_FUNCTION = pytest.mark.parametrize(
    "exercise",
    [exercise for _n, exercise in ALL if isinstance(exercise, FunctionExercise)],
    ids=lambda exercise: exercise.id,
)
MISTAKES = [
    pytest.param(exercise, known, id=f"{exercise.id}-{known.name}")
    for _number, exercise in ALL
    for known in exercise.misconceptions
]

pytestmark = pytest.mark.usefixtures("translatable")

# Mutants that compute the same as the solution, with the reason: {(id, mutated source of the body's line): reason}.
EQUIVALENT: dict[tuple[str, str], str] = {}


def answer_from(exercise: Exercise, source: str):
    namespace = {"torch": torch, "math": math, "tl": tiles}
    exec(compile(source, "<answer>", "exec"), namespace)
    return namespace[exercise.name]


@pytest.fixture(autouse=True)
def _fresh_session(monkeypatch):
    monkeypatch.setattr(session, "_states", {})
    monkeypatch.setattr(session, "_hints_given", {})


@pytest.mark.parametrize("number", numbers())
def test_ids_are_unique_in_order_and_of_their_chapter(number):
    ids = [exercise_number(exercise.id) for exercise in chapter(number)]
    assert ids == [(number, i) for i in range(1, len(ids) + 1)]


@pytest.mark.parametrize(("number", "exercise"), ALL, ids=lambda value: getattr(value, "id", None))
def test_every_exercise_serves_claims_of_its_chapter_and_has_hints(number, exercise):
    assert exercise.claims
    assert set(exercise.claims) <= set(chapter_claims(number))
    assert 2 <= len(exercise.hints) <= 3
    names = [known.name for known in exercise.misconceptions]
    messages = [known.message for known in exercise.misconceptions]
    assert len(set(names)) == len(names) >= 1
    assert len(set(messages)) == len(messages)
    assert all("?" in message for message in messages)


@EACH
def test_the_solution_and_its_shown_source_pass(exercise, capsys):
    assert judge(exercise, exercise.solve).state == "solved"
    assert judge(exercise, answer_from(exercise, exercise.solution_source)).state == "solved"
    check(exercise.id, exercise.solve)
    assert capsys.readouterr().out == f"✓ {exercise.id} {exercise.title}\n"
    assert repr(solution(exercise.id)) == exercise.solution_source


@pytest.mark.parametrize(("exercise", "known"), MISTAKES)
def test_every_misconception_is_caught_by_its_own_name_and_message(exercise, known, monkeypatch, capsys):
    verdicts = []
    monkeypatch.setattr(session, "judge", lambda *asked: verdicts.append(judge(*asked)) or verdicts[-1])
    check(exercise.id, known.wrong)
    (verdict,) = verdicts
    assert (verdict.state, verdict.misconception) == ("wrong", known.name)
    printed = capsys.readouterr().out
    assert printed.startswith(f"✗ {exercise.id} {known.message}")
    assert len(printed) <= 350
    assert printed.count("\n") == 1


@EACH
def test_hints_and_mistakes_are_printed(exercise, capsys):
    for text in exercise.hints:
        hint(exercise.id)
        assert capsys.readouterr().out.endswith(f": {text}\n")
    mistakes(exercise.id)
    printed = capsys.readouterr().out
    for known in exercise.misconceptions:
        assert f"\n{known.name}: {known.edit}\n" in printed
        assert f"\n    {known.message}\n" in printed


@EACH
def test_a_stub_and_a_starter_are_open(exercise, capsys):
    stub = answer_from(exercise, exercise.stub)
    assert judge(exercise, stub).state == "open"
    check(exercise.id, stub)
    assert capsys.readouterr().out.startswith(f"○ {exercise.id} not attempted yet")
    if getattr(exercise, "starter", None):
        assert judge(exercise, exercise.starter).state == "open"


@EACH_FUNCTION
def test_a_stub_keeps_the_signature_and_the_docstring(exercise):
    stub, solution = (ast.parse(source).body[0] for source in (exercise.stub, exercise.solution_source))
    assert ast.dump(stub.args) == ast.dump(solution.args)
    assert ast.get_docstring(stub) == ast.get_docstring(solution)


def _replacements(node: ast.AST):
    """Yield what each mutation makes of one node."""
    swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
    if isinstance(node, ast.BinOp) and type(node.op) in swaps:
        yield ast.BinOp(node.left, swaps[type(node.op)](), node.right)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value


class _Replace(ast.NodeTransformer):
    def __init__(self, index: int, new: ast.AST) -> None:
        self.index, self.new, self.seen = index, new, -1

    def visit(self, node):
        self.seen += 1
        return self.new if self.seen == self.index else self.generic_visit(node)


class _Count(ast.NodeVisitor):
    """Collect the nodes in the order in which _Replace meets them."""

    def __init__(self) -> None:
        self.nodes: list[ast.AST] = []

    def visit(self, node):
        self.nodes.append(node)
        self.generic_visit(node)


def mutants(source: str):
    tree = ast.parse(source)
    counter = _Count()
    counter.visit(tree)
    for index, node in enumerate(counter.nodes):
        for new in _replacements(node):
            mutant = ast.fix_missing_locations(_Replace(index, copy.deepcopy(new)).visit(copy.deepcopy(tree)))
            yield ast.unparse(mutant)


@EACH_FUNCTION
def test_no_mutant_of_the_solution_passes(exercise):
    made = list(mutants(exercise.solution_source))
    assert made
    original = ast.unparse(ast.parse(exercise.solution_source)).splitlines()
    for source in made:
        changed = [line for line, old in zip(source.splitlines(), original, strict=True) if line != old]
        assert len(changed) == 1
        passes = judge(exercise, answer_from(exercise, source)).state == "solved"
        assert passes == ((exercise.id, changed[0].strip()) in EQUIVALENT), changed[0]
