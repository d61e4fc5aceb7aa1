"""Chapter 3's exercises: what they hold to be right is what PyTorch does, and right answers in other words pass."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.suspects import SUSPECTS, show_suspects
from addnorm_lib.course.exercises.judging import judge
from addnorm_lib.course.exercises.registry import chapter

EXERCISE = {exercise.id: exercise for exercise in chapter(3)}
REDUCED = EXERCISE["3.3"].solve
PREDICTIONS = EXERCISE["3.13"].solve


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32)


def axes_poked(module: nn.Module, *shape: int) -> set[int]:
    """Return the axes along which outputs move when one input moves: those that share its mean."""
    x = normal(*shape)
    poked = x.clone()
    poked[(0,) * x.ndim] += 1
    moved = (module(x) - module(poked)).abs() > 1e-4
    return {axis for axis in range(x.ndim) if len(moved.nonzero()[:, axis].unique()) > 1}


MODULES = {
    "LayerNorm(D) on (B, T, D)": (nn.LayerNorm(5), 3, 4, 5),
    "BatchNorm1d(D) on (B, D)": (nn.BatchNorm1d(5), 3, 5),
    "BatchNorm2d(C) on (B, C, H, W)": (nn.BatchNorm2d(4), 3, 4, 5, 6),
    "InstanceNorm2d(C) on (B, C, H, W)": (nn.InstanceNorm2d(4), 3, 4, 5, 6),
    "GroupNorm(1, C) on (B, C, T)": (nn.GroupNorm(1, 4), 3, 4, 5),
    "InstanceNorm1d(T) on (B, T, D)": (nn.InstanceNorm1d(4), 3, 4, 5),
    "BatchNorm1d(4) on (B, T, D), T = D = 4": (nn.BatchNorm1d(4), 3, 4, 4),
}


def test_the_axes_of_3_3_are_those_that_a_poke_moves():
    assert MODULES.keys() == REDUCED.keys()
    for key, (module, *shape) in MODULES.items():
        assert axes_poked(module, *shape) == set(REDUCED[key].axes), key


def answer_3_3(**changes):
    return {key: changes.get(key.split("(")[0], value.axes) for key, value in REDUCED.items()}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"LayerNorm": 2},
        {"LayerNorm": [-1]},
        {"LayerNorm": torch.tensor([2])},
        {"LayerNorm": np.int64(2)},
        {"BatchNorm2d": (3, 0, 2)},
        {"BatchNorm2d": {0, 2, 3}},
        {"InstanceNorm2d": (-1, -2)},
    ],
)
def test_axes_may_be_written_in_any_form(change):
    assert judge(EXERCISE["3.3"], answer_3_3(**change)).state == "solved"


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ((0, 1, 2), "look again at {key}"),
        ((), "look again at {key}"),
        (5, "{key}: there is no axis 5; they are 0 to 2"),
        ((-4,), "{key}: there is no axis -4; they are 0 to 2"),
        ((2, -1), "{key}: an axis is named twice"),
        (True, "{key}: axes are wanted, numbers as in (0, 2)"),
        ("D", "{key}: axes are wanted, numbers as in (0, 2)"),
        (2.5, "{key}: axes are wanted, numbers as in (0, 2)"),
        ({"dim": 2}, "{key}: axes are wanted, numbers as in (0, 2)"),
        (..., "still to be filled in: {key}"),
        (None, "still to be filled in: {key}"),
    ],
)
def test_what_is_no_right_axis_is_told_so(axes, text):
    verdict = judge(EXERCISE["3.3"], answer_3_3(LayerNorm=axes))
    assert verdict.state == "wrong"
    assert verdict.text == text.format(key="LayerNorm(D) on (B, T, D)")


def test_the_predictions_of_3_13_come_true():
    x = normal(8)

    def layer(*values):
        return F.layer_norm(torch.tensor(values), (len(values),))

    def ln(x):
        return F.layer_norm(x, x.shape)

    rows = torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]])
    outcomes = {
        "LN([5, 5, 5])": layer(5.0, 5.0, 5.0),
        "RMSNorm([5, 5, 5])": F.rms_norm(torch.full((3,), 5.0), (3,), eps=1e-5),
        "LN([7])": layer(7.0),
        "LN([3, 800])": layer(3.0, 800.0),
        "LN([1, 2, 4])": layer(1.0, 2.0, 4.0),
        "LN(LN(x))": ln(ln(x)),
        "LN(-2 * x)": ln(-2 * x),
        "LN(1e-6 * x)": ln(1e-6 * x),
        "GroupNorm(3, 3)([[1, 2, 4], [3, 5, 9]])": nn.GroupNorm(3, 3)(rows),
        "256 + 0.5 - 256 in bfloat16": (torch.tensor([256.0]).bfloat16() + 0.5 - 256).float(),
    }
    assert outcomes.keys() == PREDICTIONS.keys()
    for key, outcome in outcomes.items():
        candidates = {
            "zeros": torch.zeros(()),
            "ones": torch.ones(()),
            "[-1, 1]": torch.tensor([-1.0, 1.0]),
            "LN(x)": ln(x),
            "-LN(x)": -ln(x),
        }
        true = [
            word
            for word, value in candidates.items()
            if value.shape in ((), outcome.shape) and bool(((outcome - value).abs() < 0.005).all())
        ]
        assert true == ([] if PREDICTIONS[key] == "something else" else [PREDICTIONS[key]]), key


@pytest.mark.parametrize(
    ("exercise_id", "key", "word"),
    [
        ("3.9", "D", "Fine."),
        ("3.9", "A", " one pass variance"),
        ("3.9", "C", "γ per token"),
        ("3.9", "E", "ε outside the root"),
        ("3.13", "LN([3, 800])", "[-1,1]"),
        ("3.13", "LN(-2 * x)", "−LN( x )"),
    ],
)
def test_words_may_be_spelt_freely(exercise_id, key, word):
    exercise = EXERCISE[exercise_id]
    assert judge(exercise, {**exercise.solve, key: word}).state == "solved"


def test_words_are_not_spelt_so_freely_that_a_sign_is_lost():
    assert judge(EXERCISE["3.13"], {**PREDICTIONS, "LN(-2 * x)": "LN(x)"}).misconception == "the sign is lost"
    assert "one of" in judge(EXERCISE["3.9"], {**EXERCISE["3.9"].solve, "B": "biased variance"}).text


def test_one_of_two_mistakes_gets_its_question():
    text = judge(EXERCISE["3.9"], {**EXERCISE["3.9"].solve, "F": "fine", "B": "changes x"}).text
    assert text.startswith("Is F fine?") and text.endswith("Look again at B, too.")


def differs(letter: str, x: torch.Tensor, *, plain: bool) -> bool:
    """Whether the suspect's result is not layer norm's (an error counts); `plain` is γ = 1, β = 0."""
    features = x.shape[-1]
    weight, bias = (
        (torch.ones(features), torch.zeros(features)) if plain else (1 + normal(features).abs(), normal(features))
    )
    want = reference.layer_norm(x.numpy(), weight.numpy(), bias.numpy())
    try:
        got = SUSPECTS[letter](x.clone(), weight, bias, 1e-5).numpy()
    except RuntimeError:
        return True
    return not np.allclose(got, want, rtol=1e-3, atol=1e-3)


TRIALS = {  # inputs, whether γ = 1 and β = 0, and whom they betray
    "rows": (normal(3, 5), False, "BC"),
    "a square": (normal(4, 4), False, "BC"),
    "a square, γ = 1, β = 0": (normal(4, 4), True, "B"),
    "(B, T, D)": (normal(2, 3, 4), False, "BCF"),
    "tiny": (1e-3 * normal(5, 5), True, "BE"),
    "a large mean": (8192 + normal(5, 5).round(), True, "AB"),
}


@pytest.mark.parametrize("name", TRIALS)
def test_each_trial_betrays_the_suspects_that_it_should(name):
    x, plain, betrayed = TRIALS[name]
    assert "".join(letter for letter in SUSPECTS if differs(letter, x, plain=plain)) == betrayed


def test_only_g_changes_its_input():
    changed = set()
    for letter, suspect in SUSPECTS.items():
        x = normal(4, 4)
        suspect(x, torch.ones(4), torch.zeros(4), 1e-5)
        if not torch.equal(x, normal(4, 4)):
            changed.add(letter)
    assert changed == {"G"}


def test_the_suspects_are_shown_as_they_run():
    shown = show_suspects()
    namespace = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(repr(shown), "<suspects>", "exec"), namespace)
    for letter, suspect in SUSPECTS.items():
        x, weight, bias = normal(4, 4), normal(4), normal(4)
        mine = namespace[f"suspect_{letter.lower()}"](x.clone(), weight, bias, 1e-5)
        assert torch.equal(mine, suspect(x.clone(), weight, bias, 1e-5))
    assert repr(shown) in shown._repr_markdown_()


def with_layer_norm_module(x, weight, bias, eps):
    norm = nn.LayerNorm(x.shape[-1], eps=eps)
    norm.weight.data, norm.bias.data = weight, bias
    return norm(x)


def with_batch_norm_function(x, running_mean, running_var, training, momentum, eps):
    mean, var = running_mean.clone(), running_var.clone()
    return F.batch_norm(x, mean, var, training=training, momentum=momentum, eps=eps), mean, var


def with_batch_norm_module(x, running_mean, running_var, training, momentum, eps):
    norm = nn.BatchNorm1d(x.shape[1], eps=eps, momentum=momentum, affine=False).train(training)
    norm.running_mean, norm.running_var = running_mean.clone(), running_var.clone()
    return [norm(x), norm.running_mean, norm.running_var]


def with_autograd(grad, x, weight, eps):
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, torch.zeros_like(weight))]
    return torch.autograd.grad(F.layer_norm(leaves[0], x.shape[-1:], *leaves[1:], eps), leaves, grad)


def with_deviations_from_the_mean(count_a, mean_a, var_a, count_b, mean_b, var_b):
    count = count_a + count_b
    mean = mean_a + (mean_b - mean_a) * count_b / count
    var = (count_a * (var_a + (mean_a - mean) ** 2) + count_b * (var_b + (mean_b - mean) ** 2)) / count
    return count, mean, var


def with_boolean_indexing(x, mask, eps):
    y = torch.zeros_like(x)
    y[mask] = nn.BatchNorm1d(x.shape[-1], eps=eps)(x[mask])
    return y


RIGHT = {
    "layer norm as a function": ("3.1", lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps)),
    "layer norm as a module": ("3.1", with_layer_norm_module),
    "RMSNorm as a function": ("3.2", lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w, eps)),
    "batch norm as a function": ("3.4", with_batch_norm_function),
    "batch norm as a module": ("3.4", with_batch_norm_module),
    "group norm as a function": ("3.5", lambda x, groups, eps: F.group_norm(x, groups, eps=eps)),
    "group norm as a module": ("3.5", lambda x, groups, eps: nn.GroupNorm(groups, x.shape[1], eps=eps)(x)),
    "autograd": ("3.8", with_autograd),
    "merging by deviations": ("3.11", with_deviations_from_the_mean),
    "boolean indexing": ("3.12", with_boolean_indexing),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_in_other_words_passes(name):
    exercise_id, answer = RIGHT[name]
    verdict = judge(EXERCISE[exercise_id], answer)
    assert verdict.state == "solved", verdict.text


def one_pass_variants():
    def expanded(na, a, va, nb, b, vb):
        n = na + nb
        m = a + (b - a) * nb / n
        return n, m, (na * va + nb * vb + na * a**2 + nb * b**2) / n - m**2

    def by_shares(na, a, va, nb, b, vb):
        share = na / (na + nb)
        m = share * a + (1 - share) * b
        return na + nb, m, share * (va + a * a) + (1 - share) * (vb + b * b) - m * m

    return [expanded, by_shares]


@pytest.mark.parametrize("answer", one_pass_variants())
def test_one_pass_is_recognised_in_whatever_order_it_is_written(answer):
    assert judge(EXERCISE["3.11"], answer).misconception == "one pass"


def test_batch_norm_that_moves_the_given_statistics_is_told_so():
    def in_place(x, running_mean, running_var, training, momentum, eps):
        y = F.batch_norm(x, running_mean, running_var, training=training, momentum=momentum, eps=eps)
        return y, running_mean, running_var

    assert "changes running_mean in place" in judge(EXERCISE["3.4"], in_place).text


@pytest.mark.parametrize("answer", [lambda s, eps: 0.0, lambda s, eps: 1.0], ids=["0", "1"])
def test_a_number_at_the_limit_of_3_7_is_not_called_infinite(answer):
    def wrong(output_std, eps):
        return EXERCISE["3.7"].solve(output_std, eps) if output_std < 1 else answer(output_std, eps)

    assert judge(EXERCISE["3.7"], wrong).misconception is None
