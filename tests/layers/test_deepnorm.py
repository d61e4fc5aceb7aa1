"""DeepNorm's constants and its initialisation."""

import math

import pytest
import torch

from addnorm_lib.layers import AddNorm, Decoder, EncoderLayer, deepnorm, deepnorm_init_, deepnorm_pair


def test_the_constants_are_the_papers():
    # Wang et al. 2022, figure 2, worked out by hand for 200 layers and for 100 with 100.
    assert deepnorm(200) == pytest.approx((20**0.5, 40**-0.5))
    encoder, decoder = deepnorm_pair(100, 100)
    assert encoder == pytest.approx((0.81 * 10 ** (10 / 16), 0.87 * 10 ** (-10 / 16)))
    assert decoder == pytest.approx((300**0.25, 1200**-0.25))


def test_weights_start_normal_with_their_gains():
    layer, beta = EncoderLayer(128, 4, 256), 0.25
    deepnorm_init_(layer, beta)
    attention, feed_forward = layer.self_attention, layer.feed_forward
    wide, square = math.sqrt(2 / (128 + 256)), math.sqrt(1 / 128)
    wanted = {
        attention.query: square,
        attention.key: square,
        attention.value: beta * square,
        attention.output: beta * square,
        feed_forward.linear1: beta * wide,
        feed_forward.linear2: beta * wide,
    }
    for linear, std in wanted.items():
        # At least 16 384 numbers: the standard error of their standard deviation is 0.6 %.
        assert linear.weight.std().item() == pytest.approx(std, rel=0.03)
        assert linear.weight.abs().max() > 3 * std  # a uniform distribution ends at 1.7
        assert not linear.bias.any()
    assert torch.equal(layer.add_norm1.norm.weight, torch.ones(128))


def test_a_decoder_has_both_attentions_initialised():
    decoder = Decoder(2, 8, 2, 12, final_norm=False, bias=False)
    deepnorm_init_(decoder, 1e-6)
    for layer in decoder.layers:
        for attention in (layer.self_attention, layer.cross_attention):
            assert attention.value.weight.abs().max() < 1e-4 < attention.query.weight.abs().max()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: deepnorm(0), "n_layers: a whole number of at least 1 wanted, got 0"),
        (lambda: deepnorm_pair(6, 0), "n_decoder: a whole number of at least 1 wanted, got 0"),
        (lambda: deepnorm_pair(1.5, 6), "n_encoder: .* got 1.5"),
        (lambda: deepnorm_init_(AddNorm(4), 0.5), "module: one with attention or feed-forward wanted, got AddNorm"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
