"""reference.py against torch in float64 (1e-12), against finite differences, and on bad input."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.nn import functional as F

from addnorm_lib import reference

TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}
EPS = st.sampled_from([1e-12, 1e-5, 0.1])


def arrays(min_dims: int, max_dims: int, min_side: int = 1):
    # Multiples of 1/64 keep a row's variance away from the rounding noise of its mean: there no two
    # formulations agree to 1e-12.
    shapes = hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=6)
    return shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(-640, 640))).map(
        lambda a: a / 64
    )


def affine(features: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=features), rng.normal(size=features)


def t(a):
    return torch.from_numpy(np.asarray(a, dtype=np.float64))


@given(arrays(1, 4), EPS)
def test_layer_norm_is_torchs(x, eps):
    weight, bias = affine(x.shape[-1])
    got = reference.layer_norm(x, weight, bias, eps)
    want = F.layer_norm(t(x), x.shape[-1:], t(weight), t(bias), eps)
    # A constant row has rounding noise for a variance; at eps = 1e-12 it is amplified 1e6 times.
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 if eps > 1e-6 else 1e-8)


@given(arrays(1, 4), EPS)
def test_rms_norm_is_torchs(x, eps):
    weight, _ = affine(x.shape[-1])
    np.testing.assert_allclose(
        reference.rms_norm(x, weight, eps=eps), F.rms_norm(t(x), x.shape[-1:], t(weight), eps), **TOLERANCE
    )


@given(arrays(2, 4, min_side=2))
def test_batch_norm_training_is_torchs_with_running_statistics(x):
    weight, bias = affine(x.shape[1])
    mean, var = t(np.zeros(x.shape[1])), t(np.ones(x.shape[1]))
    want = F.batch_norm(t(x), mean, var, t(weight), t(bias), training=True, momentum=0.3)
    got = reference.batch_norm_training(x, weight, bias, momentum=0.3)
    np.testing.assert_allclose(got.y, want, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(got.running_mean, mean, **TOLERANCE)
    np.testing.assert_allclose(got.running_var, var, **TOLERANCE)


def test_running_variance_is_unbiased_while_the_output_uses_the_biased_one():
    got = reference.batch_norm_training(np.array([[0.0], [1], [2], [3]]), eps=0.0)
    assert got.running_var == pytest.approx(0.9 + 0.1 * 5 / 3)
    assert got.y.var() == pytest.approx(1.0)


@given(arrays(2, 4))
def test_batch_norm_inference_is_torchs(x):
    weight, bias = affine(x.shape[1])
    mean, var = affine(x.shape[1], 1)[0], np.exp(affine(x.shape[1], 2)[0])
    want = F.batch_norm(t(x), t(mean), t(var), t(weight), t(bias), training=False)
    np.testing.assert_allclose(reference.batch_norm_inference(x, mean, var, weight, bias), want, **TOLERANCE)


@given(arrays(3, 4, min_side=2), st.data())
def test_group_and_instance_norm_are_torchs(x, data):
    channels = x.shape[1]
    n_groups = data.draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    weight, bias = affine(channels)
    want = F.group_norm(t(x), n_groups, t(weight), t(bias))
    np.testing.assert_allclose(reference.group_norm(x, n_groups, weight, bias), want, rtol=1e-12, atol=1e-11)
    want = F.instance_norm(t(x), weight=t(weight), bias=t(bias))
    np.testing.assert_allclose(reference.instance_norm(x, weight, bias), want, rtol=1e-12, atol=1e-11)


@given(arrays(2, 3, min_side=2))
def test_layer_norm_backward_is_torchs(x):
    weight, bias = affine(x.shape[-1])
    grad = np.random.default_rng(3).normal(size=x.shape)
    inputs = [v.requires_grad_() for v in (t(x), t(weight), t(bias))]
    F.layer_norm(inputs[0], x.shape[-1:], inputs[1], inputs[2], 0.1).backward(t(grad))
    got = reference.layer_norm_backward(grad, x, weight, 0.1)
    for mine, leaf in zip(got, inputs, strict=True):
        np.testing.assert_allclose(mine, leaf.grad, **TOLERANCE)


def test_layer_norm_backward_is_the_finite_difference():
    rng = np.random.default_rng(0)
    x, grad, weight = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), rng.normal(size=5)
    numeric = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        up, down = reference.layer_norm(x + step, weight), reference.layer_norm(x - step, weight)
        numeric[index] = (grad * (up - down)).sum() / 2e-6
    np.testing.assert_allclose(reference.layer_norm_backward(grad, x, weight).x, numeric, rtol=1e-7, atol=1e-8)


def test_residual_sum_refuses_to_broadcast():
    np.testing.assert_array_equal(reference.residual_sum([1, 2], [10, 20], alpha=3), [13, 26])
    with pytest.raises(ValueError, match=r"update: the shape of x, \(2, 3, 4\), wanted, got \(2, 1, 4\)"):
        reference.residual_sum(np.ones((2, 3, 4)), np.ones((2, 1, 4)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: reference.layer_norm(np.ones(3), weight=np.ones(2)), ValueError, r"weight: shape \(3,\) wanted"),
        (lambda: reference.layer_norm(["a"]), TypeError, "x: real numbers wanted"),
        (lambda: reference.group_norm(np.ones((2, 6)), 4), ValueError, "n_groups: a divisor of the 6 channels"),
        (lambda: reference.instance_norm(np.ones((2, 6))), ValueError, "x: a spatial axis"),
        (lambda: reference.batch_norm_training(np.ones((1, 6))), ValueError, "more than one value a channel"),
        (lambda: reference.batch_norm_training(np.ones(6)), ValueError, r"shape \(N, C, ...\) wanted, got \(6,\)"),
        (lambda: reference.layer_norm_backward(np.ones(3), np.ones(4)), ValueError, r"grad: the shape of x, \(4,\)"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
