"""The feed-forward sublayer against its formula, its dropout, and bad input."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from addnorm_lib.layers import FeedForward

ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    torch.sin: torch.sin,
}


@given(st.sampled_from(list(ACTIVATIONS)), st.booleans(), st.lists(st.integers(1, 3), max_size=3), st.integers(1, 5))
def test_it_is_its_formula_at_every_position(activation, bias, leading, d_ff):
    module = FeedForward(4, d_ff, activation=activation, bias=bias).double()
    x = torch.randn(*leading, 4, dtype=torch.float64)
    b1, b2 = (module.linear1.bias.data.normal_(), module.linear2.bias.data.normal_()) if bias else (0, 0)
    want = ACTIVATIONS[activation](x @ module.linear1.weight.T + b1) @ module.linear2.weight.T + b2
    torch.testing.assert_close(module(x), want, rtol=1e-10, atol=1e-10)


def test_dropout_acts_on_the_hidden_layer_in_training_only():
    module = FeedForward(4, 8, dropout=1.0)
    x = torch.randn(3, 4)
    assert torch.equal(module(x), module.linear2.bias.expand(3, 4))
    assert module.eval()(x).abs().max() > 0
    assert "dropout=1.0" in repr(module)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FeedForward(0, 4), "d_model: a whole number of at least 1 wanted, got 0"),
        (lambda: FeedForward(4, -1), "d_ff: a whole number of at least 1 wanted, got -1"),
        (lambda: FeedForward(4, 4, activation="tanh"), "activation: one of relu, gelu wanted, got 'tanh'"),
        (lambda: FeedForward(4, 4, activation=None), "activation: one of relu, gelu wanted, got None"),
        (lambda: FeedForward(4, 4, dropout=-0.1), "dropout: a probability from 0 to 1 wanted, got -0.1"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
