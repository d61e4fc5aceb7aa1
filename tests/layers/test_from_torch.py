"""Parity with PyTorch's layers and stacks: outputs and all gradients, to 1e-5 in float32 and 1e-10 in float64."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from addnorm_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer

B, T, S, D, HEADS, FF = 2, 5, 4, 8, 2, 12
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
ORDERS, MASKS = ["post", "pre"], ["none", "causal", "padding", "causal+padding", "pairs", "added"]


def leaky(x):
    return F.leaky_relu(x, 0.2)


ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "callable": leaky, "module": nn.PReLU()}


def torch_layer(part, order="post", activation="relu", bias=True, batch_first=True, dtype=torch.float64, **options):
    """Return PyTorch's layer, without dropout, with noise on all parameters (biases and norms start constant)."""
    make = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}[part]
    options = {"dropout": 0.0, "layer_norm_eps": 1e-4} | options
    return randomised(
        make(
            D,
            HEADS,
            FF,
            activation=copy.deepcopy(ACTIVATIONS.get(activation, activation)),
            norm_first=order == "pre",
            bias=bias,
            batch_first=batch_first,
            dtype=dtype,
            **options,
        ).to(dtype)
    )


def randomised(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return module


def masks(mask, dtype, part):
    """Return (keyword arguments of ours, of PyTorch's, whether it is causal)."""
    causal, ours, theirs = "causal" in mask, {}, {}
    own = "src" if part == "encoder" else "tgt"
    pairs = "src_mask" if part == "encoder" else "tgt_mask"
    if "padding" in mask:
        padding = torch.zeros(B, T, dtype=torch.bool)
        padding[0, 3:] = padding[1, 4:] = True
        ours["key_padding_mask"] = theirs[f"{own}_key_padding_mask"] = padding
        if part == "decoder":
            memory_padding = torch.zeros(B, S, dtype=torch.bool)
            memory_padding[1, :2] = True
            ours["memory_key_padding_mask"] = theirs["memory_key_padding_mask"] = memory_padding
    if causal:
        theirs[pairs] = torch.ones(T, T, dtype=torch.bool).triu(1)
    if mask in ("pairs", "added"):
        for name, columns, key in (("attn_mask", T, pairs), ("memory_mask", S, "memory_mask")):
            value = torch.rand(T, columns) < 0.3
            value[:, 0] = False
            value = torch.randn(T, columns, dtype=dtype) if mask == "added" else value
            if name == "attn_mask" or part == "decoder":
                ours[name] = theirs[key] = value
    return ours, theirs, causal


def inputs(part, dtype):
    shapes = [(B, T, D)] if part == "encoder" else [(B, T, D), (B, S, D)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def assert_close(got, want):
    """Compare to the tolerance times the largest element, or 1 where all are smaller."""
    tolerance = TOLERANCE[want.dtype] * max(1.0, want.abs().max().item())
    torch.testing.assert_close(got, want, rtol=0.0, atol=tolerance)


def assert_parity(ours, theirs, part, mask, dtype, batch_first=True, modes=(False, True), **causal):
    """Compare outputs and the gradients of inputs and parameters. Afterwards PyTorch's weights are gradients."""
    our_masks, their_masks, _ = masks(mask, dtype, part)
    if isinstance(theirs, nn.TransformerEncoder) and "src_mask" in their_masks:
        their_masks["mask"] = their_masks.pop("src_mask")
    tensors = inputs(part, dtype)
    for training in modes:
        ours.train(training), theirs.train(training)
        got = ours(*tensors, **our_masks)
        turned = tensors if batch_first else [t.transpose(0, 1) for t in tensors]
        want = theirs(*turned, **their_masks)
        want = want if batch_first else want.transpose(0, 1)
        assert_close(got, want)
    upstream = torch.randn_like(want)
    for gradient, wanted in zip(
        torch.autograd.grad(got, tensors, upstream, retain_graph=True),
        torch.autograd.grad(want, tensors, upstream, retain_graph=True),
        strict=True,
    ):
        assert_close(gradient, wanted)
    got.backward(upstream), want.backward(upstream)
    # The gradients of PyTorch's parameters, put where from_torch puts the parameters themselves.
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    gradients = type(ours).from_torch(theirs, **causal)
    for parameter, wanted in zip(ours.parameters(), gradients.parameters(), strict=True):
        assert_close(parameter.grad, wanted.data)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_layer_is_pytorchs(part, order, mask, activation, bias, dtype):
    causal = {"causal": "causal" in mask}
    for batch_first in (True, False):
        theirs = torch_layer(part, order, activation, bias, batch_first, dtype)
        ours = (EncoderLayer if part == "encoder" else DecoderLayer).from_torch(theirs, **causal)
        assert_parity(ours, theirs, part, mask, dtype, batch_first, **causal)


FINAL = {"no final norm": None, "layer norm": nn.LayerNorm(D, eps=1e-3), "rms norm": nn.RMSNorm(D, eps=1e-3)}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("final", FINAL)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_stack_is_pytorchs(part, order, mask, final, dtype):
    causal = {"causal": "causal" in mask}
    norm = copy.deepcopy(FINAL[final])
    layer = torch_layer(part, order, "gelu", dtype=dtype)
    if part == "encoder":
        theirs = nn.TransformerEncoder(layer, 3, norm, enable_nested_tensor=False)
    else:
        theirs = nn.TransformerDecoder(layer, 3, norm)
    theirs = randomised(theirs.to(dtype))
    ours = (Encoder if part == "encoder" else Decoder).from_torch(theirs, **causal)
    assert (ours.final_norm is None) == (norm is None)
    assert_parity(ours, theirs, part, mask, dtype, **causal)


@pytest.mark.parametrize("order", ORDERS)
def test_pytorchs_fast_path_gives_the_same_numbers(order):
    theirs = torch_layer("encoder", order, dtype=torch.float32).eval()
    ours, x = EncoderLayer.from_torch(theirs), torch.randn(B, T, D)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_copy_is_taken_with_dropout_mode_and_dtype(part):
    theirs = torch_layer(part, dropout=0.3).half().eval()
    before = {k: v.clone() for k, v in theirs.state_dict().items()}
    ours = (EncoderLayer if part == "encoder" else DecoderLayer).from_torch(theirs)
    probabilities = [m.dropout for m in ours.modules() if hasattr(m, "dropout")]
    assert probabilities and set(probabilities) == {0.3}
    assert not ours.training and not ours.add_norm1.training
    assert {p.dtype for p in ours.parameters()} == {torch.float16}
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all(torch.equal(v, before[k]) for k, v in theirs.state_dict().items())
    assert ours.causal == (part == "decoder")


def test_rms_norms_put_into_pytorchs_layer_are_taken_over():
    # In evaluation mode PyTorch's layer asks its norms for a bias, which an RMSNorm lacks.
    theirs = torch_layer("encoder", "pre")
    theirs.norm1, theirs.norm2 = (randomised(nn.RMSNorm(D, eps=1e-3).double()) for _ in range(2))
    assert_parity(EncoderLayer.from_torch(theirs), theirs, "encoder", "padding", torch.float64, modes=[True])


class Subclass(nn.TransformerEncoderLayer):
    """A layer that computes something else."""

    def forward(self, src):
        return src


def changed(part="encoder", **attributes):
    layer = torch_layer(part)
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: EncoderLayer.from_torch(nn.Linear(2, 2)), TypeError, "layer: a torch.nn.TransformerEncoderLayer want"),
        (lambda: EncoderLayer.from_torch(torch_layer("decoder")), TypeError, "got TransformerDecoderLayer"),
        (lambda: Encoder.from_torch(torch_layer("encoder")), TypeError, "stack: a torch.nn.TransformerEncoder wanted"),
        (lambda: EncoderLayer.from_torch(Subclass(D, HEADS)), ValueError, "own forward wanted, got Subclass"),
        (lambda: EncoderLayer.from_torch(changed(norm1=nn.BatchNorm1d(D))), ValueError, "norm: .* got BatchNorm1d"),
        (lambda: EncoderLayer.from_torch(changed(norm1=nn.RMSNorm(D, eps=1e-4))), ValueError, "norm: the same value"),
        (lambda: EncoderLayer.from_torch(changed(norm1=nn.LayerNorm(D))), ValueError, "eps: the same .* 1e-05, 0.0001"),
        (
            lambda: EncoderLayer.from_torch(changed(norm1=nn.LayerNorm(D, elementwise_affine=False))),
            ValueError,
            "norm: one over the last axis, with a weight",
        ),
        (lambda: EncoderLayer.from_torch(changed(norm1=nn.RMSNorm(D))), ValueError, "an eps of its own"),
        (lambda: EncoderLayer.from_torch(changed(dropout1=nn.Dropout(0.5))), ValueError, "dropout: the same value"),
        (lambda: EncoderLayer.from_torch(changed(linear1=nn.Linear(D, FF, bias=False))), ValueError, "bias: the same"),
        (
            lambda: DecoderLayer.from_torch(changed("decoder", multihead_attn=nn.MultiheadAttention(D, 4))),
            ValueError,
            "n_heads: the same value throughout wanted, got 2, 4",
        ),
        (
            lambda: EncoderLayer.from_torch(changed(self_attn=nn.MultiheadAttention(D, HEADS, add_bias_kv=True))),
            ValueError,
            "attention: one without kdim",
        ),
        (
            lambda: Decoder.from_torch(nn.TransformerDecoder(torch_layer("decoder"), 1, nn.Identity())),
            ValueError,
            "final norm: .* got Identity",
        ),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_layers_that_differ_are_refused():
    stack = nn.TransformerEncoder(torch_layer("encoder"), 2, enable_nested_tensor=False)
    stack.layers[1] = torch_layer("encoder", "pre")
    with pytest.raises(ValueError, match="placement: the same value throughout wanted, got 'post', 'pre'"):
        Encoder.from_torch(stack)


def test_pytorchs_layers_start_equal_and_ours_do_not():
    theirs = nn.TransformerEncoder(torch_layer("encoder"), 2, enable_nested_tensor=False).layers
    ours = Encoder(2, D, HEADS, FF, final_norm=False).layers
    for (name, first), second in zip(ours[0].named_parameters(), ours[1].parameters(), strict=True):
        assert first.ndim == 1 or not torch.equal(first, second), name
    for first, second in itertools.zip_longest(theirs[0].parameters(), theirs[1].parameters()):
        assert torch.equal(first, second)
