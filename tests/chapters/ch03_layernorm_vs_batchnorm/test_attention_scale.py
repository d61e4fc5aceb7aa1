"""Attention against the scale of its inputs: the limits that can be computed by hand, and what a norm changes."""

import math

import numpy as np
import pytest

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.attention_scale import attention_against_scale


def test_small_inputs_make_attention_uniform_and_starve_the_queries():
    measured = attention_against_scale((1e-4, 1e-3), tokens=16)
    np.testing.assert_allclose(measured.entropy, 1, atol=1e-6)
    # diag(1/T) − 1/T² has T − 1 eigenvalues 1/T: softmax's own gradient does not fade …
    np.testing.assert_allclose(measured.softmax_gradient, math.sqrt(15) / 16, rtol=1e-5)
    # … but W_Q's does, as the square of the scale: once for the tokens, once for the keys.
    np.testing.assert_allclose(measured.query_gradient[:, 1] / measured.query_gradient[:, 0], 100, rtol=1e-3)


def test_large_inputs_saturate_softmax():
    measured = attention_against_scale((1.0, 100.0))
    assert (measured.entropy[:, 0] > 0.8).all() and (measured.entropy[:, 1] < 0.01).all()
    assert (measured.softmax_gradient[:, 1] < 0.05 * measured.softmax_gradient[:, 0]).all()


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_behind_a_norm_the_scale_is_gone_until_eps_takes_over(norm):
    flat = attention_against_scale((1e-1, 1.0, 1e2), norm)
    for curve in flat:
        np.testing.assert_allclose(curve, np.broadcast_to(curve[:, 1:2], curve.shape), rtol=0.01)
    eps = 1e-4
    half = attention_against_scale((math.sqrt(eps), 1.0), norm, eps=eps)
    # σ² = ε halves the tokens' variance, so the logits' standard deviation too.
    np.testing.assert_allclose(half.logit_std[:, 0] / half.logit_std[:, 1], 0.5, rtol=0.05)


def test_bad_questions_are_named():
    for call, message in (
        (lambda: attention_against_scale(norm="batch"), "norm: one of None, 'layer', 'rms'"),
        (lambda: attention_against_scale((1.0, 0.0)), "scales: positive"),
        (lambda: attention_against_scale((1.0,), seeds=()), "seeds"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
