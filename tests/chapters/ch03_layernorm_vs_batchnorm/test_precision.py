"""Short floating-point numbers: what they do to statistics."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.precision import layer_norm_in_own_dtype, variances


def test_a_large_mean_ruins_the_one_pass_variance_alone():
    torch.manual_seed(0)
    x = 1e4 + torch.randn(200, 64)
    measured = variances(x)
    # Float32 numbers near 1e8 are 8 apart, and so is every difference of two of them.
    assert (measured.one_pass % 8 == 0).all() and (measured.one_pass < 0).any()
    torch.testing.assert_close(measured.two_pass.double(), measured.exact, rtol=1e-3, atol=0)


@given(arrays(np.float64, (3, 8), elements=st.floats(-100, 100)))
def test_both_formulas_are_the_variance(x):
    measured = variances(torch.from_numpy(x))
    for value in measured:
        np.testing.assert_allclose(value, x.var(axis=-1), atol=1e-9)


def test_eps_must_survive_the_dtype():
    token = torch.full((4,), 3.0, dtype=torch.float16)
    assert layer_norm_in_own_dtype(token, 1e-12).isnan().all()
    assert torch.equal(layer_norm_in_own_dtype(token, 1e-5), torch.zeros_like(token))
    # From 256 on the square leaves float16, and the token vanishes.
    large = torch.tensor([512.0, -512.0], dtype=torch.float16)
    assert not layer_norm_in_own_dtype(large).any()
    torch.testing.assert_close(layer_norm_in_own_dtype(large / 4), torch.tensor([1.0, -1.0], dtype=torch.float16))


def test_in_float64_it_is_layer_norm():
    x = torch.randn(5, 7, dtype=torch.float64)
    np.testing.assert_allclose(layer_norm_in_own_dtype(x, 1e-3), reference.layer_norm(x, eps=1e-3), rtol=1e-12)
