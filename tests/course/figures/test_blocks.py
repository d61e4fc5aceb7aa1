"""Block diagrams: the trace is what the block computes, and leaves the block as it was."""

import pytest
import torch
from torch import nn

from addnorm_lib.course.figures.blocks import Step, block_diagram, trace
from addnorm_lib.layers import AddNorm, EncoderLayer

FORMULAS = {
    "post": "LN(x + F(x))",
    "pre": "x + F(LN(x))",
    "sandwich": "x + LN(F(LN(x)))",
    "branch": "x + LN(F(x))",
}


@pytest.mark.parametrize("placement", FORMULAS)
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_a_trace_is_the_formula_of_the_placement(placement, norm, alpha):
    block = AddNorm(4, placement, norm, dropout=0.5, alpha=alpha)
    assert str(trace(block)) == FORMULAS[placement].replace("LN", "LN" if norm == "layer" else "RMS")


def test_a_layer_shows_attention_and_feed_forward_as_one_step_each():
    assert trace(EncoderLayer(4, 2, 8, placement="pre")) == (
        Step("x", ()),
        Step("LN", (0,)),
        Step("A", (1,)),
        Step("+", (0, 2)),
        Step("LN", (3,)),
        Step("M", (4,)),
        Step("+", (3, 5)),
    )


def test_a_norm_that_was_moved_by_hand_shows_in_the_trace():
    block = AddNorm(4, "pre")
    block.norm = nn.Identity()
    assert str(trace(block)) == "x + F(x)"


@pytest.mark.parametrize("training", [True, False])
def test_tracing_leaves_the_block_as_it_was(training):
    layer = EncoderLayer(4, 2, 8, placement="post", backend="auto").train(training)
    x = torch.arange(8.0).view(1, 2, 4)
    before = layer(x)
    trace(layer)
    assert torch.equal(layer(x), before)
    assert layer.training is layer.self_attention.training is training
    assert layer.add_norm1.backend == layer.add_norm2.backend == "auto"
    assert not layer.self_attention._forward_hooks and not layer.feed_forward._forward_pre_hooks


def test_another_class_is_refused():
    with pytest.raises(TypeError, match="AddNorm or an EncoderLayer wanted, got LayerNorm"):
        trace(nn.LayerNorm(4))


def test_a_diagram_says_the_formulas_that_it_draws():
    one = block_diagram({"post": AddNorm(4, "post"), "pre": AddNorm(4, "pre")})
    assert "post: y = LN(x + F(x)); pre: y = x + F(LN(x))" in one.description
    layers = block_diagram({"pre": EncoderLayer(4, 2, 8, placement="pre")})
    assert "x + A(LN(x)) + M(LN(x + A(LN(x))))" in layers.description and "attention" in layers.description
    drawn = {text.get_text() for ax in layers.figure.axes for text in ax.texts}
    assert {"x", "y", "+", "LN", "attention", "feed-forward"} <= drawn
