"""Chapter 4's exercises: what they hand to the notebook, and right answers written another way."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.ex11_gradient_slope import gradient_slope
from addnorm_lib.chapters.ch04_postln_vs_preln.stack_loss import stack_loss
from addnorm_lib.course.exercises.judging import judge
from addnorm_lib.course.exercises.registry import chapter

BY_NAME = {exercise.name: exercise for exercise in chapter(4)}
DEPTHS = [2, 4, 8, 16, 32]


def post_with_a_module(x, sublayer, norm):
    return nn.LayerNorm(x.shape[-1])(x + sublayer(x))


def pre_with_the_function(x, sublayer, norm):
    return x + sublayer(F.layer_norm(x, (x.shape[-1],), eps=1e-5))


def variances_in_numpy(x, sublayers, norm):
    found = [np.var(x.numpy())]
    for sublayer in sublayers:
        x = x + sublayer(norm(x))
        found.append(np.var(x.numpy()))
    return tuple(found)


def a_layer_built_anew(layer):
    twin = nn.TransformerEncoderLayer(
        layer.self_attn.embed_dim,
        layer.self_attn.num_heads,
        layer.linear1.out_features,
        layer.dropout.p,
        layer.activation,
        layer.norm1.eps,
        layer.self_attn.batch_first,
        norm_first=True,
    )
    twin.load_state_dict(layer.state_dict())
    return twin


def rate_in_two_parts(step, d_model, warmup_steps):
    peak = 1 / np.sqrt(d_model * warmup_steps)
    return peak * step / warmup_steps if step < warmup_steps else peak * np.sqrt(warmup_steps / step)


def deepnorm_scaling_the_branch(x, weight, norm, n_layers):
    alpha, beta = (2 * n_layers) ** (1 / 4), (8 * n_layers) ** (-1 / 4)
    return norm(x * alpha + beta * F.linear(x, weight))


def slope_by_polyfit(loss_at, depths):
    norms = []
    for depth in depths:
        loss, weight = loss_at(depth)
        loss.backward()
        norms.append(float(torch.linalg.vector_norm(weight.grad)))
    return np.polyfit(np.log2(depths), np.log2(norms), 1)[0]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("post_ln", post_with_a_module),
        ("pre_ln", pre_with_the_function),
        ("stream_variances", variances_in_numpy),
        ("as_pre_ln", a_layer_built_anew),
        ("learning_rate", rate_in_two_parts),
        ("deepnorm_block", deepnorm_scaling_the_branch),
        ("gradient_slope", slope_by_polyfit),
    ],
)
def test_another_way_to_write_it_passes(name, answer):
    verdict = judge(BY_NAME[name], answer)
    assert verdict.state == "solved", verdict.text


def test_what_is_no_layer_is_refused_in_words():
    verdict = judge(BY_NAME["as_pre_ln"], lambda layer: 3)
    assert verdict.state == "wrong"
    assert "an nn.TransformerEncoderLayer wanted, got int" in verdict.text
    assert "return missing" in judge(BY_NAME["as_pre_ln"], lambda layer: None).text


def test_the_moved_layer_is_what_pytorch_computes_with_norm_first():
    (layer,) = BY_NAME["as_pre_ln"].cases()[0]
    twin, x = BY_NAME["as_pre_ln"].solve(copy.deepcopy(layer)), torch.randn(2, 3, 4)
    normed = twin.norm1(x)
    h = x + twin.self_attn(normed, normed, normed)[0]
    expected = h + twin.linear2(torch.relu(twin.linear1(twin.norm2(h))))
    torch.testing.assert_close(twin(x), expected)


@pytest.mark.parametrize(("placement", "low", "high"), [("post", -0.1, 0.1), ("pre", -0.6, -0.35)])
def test_the_stacks_gradients_depend_on_the_depth_as_xiong_says(placement, low, high):
    slopes = [gradient_slope(stack_loss(placement, seed=seed), DEPTHS) for seed in range(3)]
    assert all(low < slope < high for slope in slopes), slopes


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"nhead": 1}, "n_heads"),
        ({"dropout": 0.2}, "dropout"),
        ({"layer_norm_eps": 1e-3}, "layer_norm_eps"),
        ({"batch_first": False}, "batch_first"),
        ({"norm_first": False}, "norm_first"),
    ],
)
def test_every_option_of_the_moved_layer_is_compared(change, text):
    def rebuilt(layer):
        kept = {
            "nhead": layer.self_attn.num_heads,
            "dropout": layer.dropout.p,
            "layer_norm_eps": layer.norm1.eps,
            "batch_first": layer.self_attn.batch_first,
            "norm_first": True,
        }
        twin = nn.TransformerEncoderLayer(4, dim_feedforward=6, activation=layer.activation, **(kept | change))
        twin.load_state_dict(layer.state_dict())
        return twin

    verdict = judge(BY_NAME["as_pre_ln"], rebuilt)
    assert verdict.state == "wrong"
    assert f"expected {text} = " in verdict.text


@pytest.mark.parametrize("made", [nn.Dropout(), nn.Dropout(0.1), lambda z: F.dropout(z, p=0.5), F.dropout])
def test_a_dropout_of_ones_own_is_told_from_the_one_handed_in(made):
    verdict = judge(BY_NAME["pre_ln_with_dropout"], lambda x, sublayer, norm, dropout: x + made(sublayer(norm(x))))
    assert "Call the one that is handed in" in verdict.text


def test_a_slope_fitted_to_the_loss_is_named_without_an_absolute_value():
    def slope_of_the_loss(loss_at, depths):
        return np.polyfit(np.log(depths), [np.log(loss_at(depth)[0].item()) for depth in depths], 1)[0]

    assert judge(BY_NAME["gradient_slope"], slope_of_the_loss).misconception == "the loss"
