"""Encoder and decoder against their unfused formulas, their norms counted, what they may see, and bad input."""

import itertools
from typing import get_args

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train
from addnorm_lib.layers import AddNorm, Decoder, DecoderLayer, Encoder, EncoderLayer, Norm, Placement, deepnorm
from addnorm_lib.layers import stream as streams

PLACEMENTS, NORMS = get_args(Placement), get_args(Norm)
EACH = pytest.mark.parametrize(("placement", "norm"), list(itertools.product(PLACEMENTS, NORMS)))
D, SIZES = 8, (8, 2, 12)


def stack(part, n_layers=2, final_norm=True, **options):
    """Return a float64 stack whose norms have parameters of their own."""
    model = (Encoder if part == "encoder" else Decoder)(n_layers, *SIZES, final_norm=final_norm, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def tensors(part, dtype=torch.float64, length=5):
    shapes = [(2, length, D)] if part == "encoder" else [(2, length, D), (2, 4, D)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def unfused(model, x, memory=None):
    """Return what the papers write: every sum and every norm by itself."""

    def block(add_norm, x, sublayer):
        norm, alpha = add_norm.norm, add_norm.alpha
        if add_norm.placement == "post":
            return norm(alpha * x + sublayer(x))
        if add_norm.placement == "pre":
            return alpha * x + sublayer(norm(x))
        if add_norm.placement == "sandwich":
            return alpha * x + add_norm.outer_norm(sublayer(norm(x)))
        return alpha * x + norm(sublayer(x))

    for layer in model.layers:
        x = block(layer.add_norm1, x, lambda z, layer=layer: layer.self_attention(z, causal=layer.causal))
        if memory is None:
            x = block(layer.add_norm2, x, layer.feed_forward)
        else:
            x = block(layer.add_norm2, x, lambda z, layer=layer: layer.cross_attention(z, memory))
            x = block(layer.add_norm3, x, layer.feed_forward)
    return x if model.final_norm is None else model.final_norm(x)


@EACH
@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_a_stack_is_its_unfused_formula(part, placement, norm, final_norm, alpha):
    model = stack(part, final_norm=final_norm, placement=placement, norm=norm, alpha=alpha, eps=1e-3)
    inputs = tensors(part)
    got, want = model(*inputs), unfused(model, *inputs)
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)
    upstream = torch.randn_like(want)
    wanting = [*inputs, *model.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(got, wanting, upstream), torch.autograd.grad(want, wanting, upstream), rtol=1e-9, atol=1e-9
    )


class CountNorms(TorchFunctionMode):
    """Counts the calls of layer_norm and rms_norm."""

    def __enter__(self):
        self.count = 0
        return super().__enter__()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.count += function in (nn.functional.layer_norm, nn.functional.rms_norm)
        return function(*args, **kwargs or {})


@EACH
@pytest.mark.parametrize(("part", "sublayers"), [("encoder", 2), ("decoder", 3)])
def test_norms_counted_as_they_run(part, sublayers, placement, norm):
    """A3 and A4: an encoder layer has two Add & Norm, a decoder layer three."""
    model = stack(part, 1, final_norm=False, placement=placement, norm=norm)
    assert sum(isinstance(m, AddNorm) for m in model.modules()) == sublayers
    with CountNorms() as norms:
        model(*tensors(part))
    assert norms.count == sublayers * (2 if placement == "sandwich" else 1)
    with CountNorms() as norms:
        stack(part, 3, placement=placement, norm=norm)(*tensors(part))
    assert norms.count == 3 * sublayers * (2 if placement == "sandwich" else 1) + 1


@pytest.mark.parametrize(("placement", "alone"), [("post", 1), ("pre", 1), ("sandwich", 7), ("branch", 6)])
def test_norms_that_follow_a_sum_are_computed_with_it(placement, alone, monkeypatch):
    """Across sublayers, across layers and with the final norm, only norms that no sum precedes run by themselves."""
    fused = []

    def counted(*args, **options):
        fused.append(options.get("return_sum", False))
        return add_norm(*args, **options)

    add_norm = streams.add_norm
    monkeypatch.setattr(streams, "add_norm", counted)
    model = stack("encoder", 3, placement=placement)
    with CountNorms() as norms:
        model(*tensors("encoder"))
    assert norms.count - len(fused) == alone
    # The sum is kept where it goes on as a shortcut: not in Post-LN, and not by the final norm.
    assert sum(fused) == (5 if placement in ("pre", "sandwich") else 0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_hooks_see_tensors_and_change_no_number(placement):
    model = stack("encoder", placement=placement)
    inputs, seen = tensors("encoder"), {}
    before = model(*inputs)
    for name, module in model.named_modules():
        if isinstance(module, (AddNorm, EncoderLayer)):
            module.register_forward_hook(lambda _m, _i, output, name=name: seen.update({name: output}))
    after = model(*inputs)
    assert len(seen) == 6 and all(isinstance(output, torch.Tensor) for output in seen.values())
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.layers[0](*inputs), seen["layers.0"], rtol=1e-12, atol=1e-12)


@EACH
def test_dropout_of_everything_leaves_the_shortcuts(placement, norm):
    model = stack("encoder", placement=placement, norm=norm, dropout=1.0, final_norm=False, alpha=2.0)
    (x,) = tensors("encoder")
    y = x
    for layer in model.layers:
        for block in (layer.add_norm1, layer.add_norm2):
            y = block.norm(2 * y) if placement == "post" else 2 * y
    torch.testing.assert_close(model(x), y, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(model.eval()(x), y)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_causal_stack_does_not_see_the_future_bit_for_bit(part, placement):
    model = stack(part, placement=placement, causal=True).float()
    inputs = tensors(part, torch.float32, length=6)
    before = model(*inputs)
    for j in range(6):
        changed = inputs[0].detach().clone()
        changed[:, j] += torch.arange(D)
        after = model(changed, *inputs[1:])
        assert torch.equal(after[:, :j], before[:, :j])
        assert (after[:, j:] != before[:, j:]).any(dim=2).all()


def test_a_decoder_is_causal_and_an_encoder_is_not_unless_told():
    x, changed, memory = (
        torch.zeros(1, 2, D),
        torch.tensor([0.0, 1.0])[:, None] * torch.arange(D)[None],
        torch.ones(1, 1, D),
    )
    for layer, rest, sees in (
        (EncoderLayer(*SIZES), [], True),
        (EncoderLayer(*SIZES, causal=True), [], False),
        (DecoderLayer(*SIZES), [memory], False),
        (DecoderLayer(*SIZES, causal=False), [memory], True),
    ):
        assert torch.equal(layer(x, *rest)[:, 0], layer(changed[None], *rest)[:, 0]) is not sees


@pytest.mark.slow
@pytest.mark.parametrize(("part", "placement"), [*(("encoder", p) for p in PLACEMENTS), ("decoder", "pre")])
def test_compiled_without_a_graph_break(part, placement):
    model = stack(part, placement=placement, causal=True)
    inputs = tensors(part)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    got, want = compiled(*inputs), model(*inputs)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    upstream = torch.randn_like(want)
    gradients = [torch.autograd.grad(y, [*inputs, *model.parameters()], upstream) for y in (got, want)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@EACH
def test_autocast_computes_in_bfloat16(placement, norm):
    model = stack("decoder", placement=placement, norm=norm).float()
    inputs = tensors("decoder", torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = model(*inputs)
    want = model(*inputs)
    # bfloat16 has 8 bits; the errors of six sublayers add.
    torch.testing.assert_close(got.float(), want, rtol=0.0, atol=0.1)
    assert not torch.equal(got.float(), want)
    got.sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_stacked_seeds_are_the_seeds_one_by_one(placement):
    models = [stack("encoder", placement=placement, causal=True) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.randn(3, 2, 5, D, dtype=torch.float64)

    def run(parameters, buffers, x):
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        got = torch.vmap(run)(parameters, buffers, x)
    want = torch.stack([model(part) for model, part in zip(models, x, strict=True)])
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def reverser(placement):
    blocks = Encoder(1, 16, 2, 32, placement=placement, final_norm=placement != "post")
    return nn.Sequential(nn.Embedding(16, 16), blocks, nn.Linear(16, 16))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_encoder_trains_in_the_training_engine(placement):
    run = Run(
        lambda: reverser(placement), data="copy", seeds=(0, 1), steps=60, batch_size=32, optimiser="adam", lr=1e-2,
        activations="1.layers.*",
    )  # fmt: skip
    record = train(run, progress=False)[0]
    assert (record.loss[:, -10:].mean(1) < 0.5 * record.loss[:, 0]).all()
    assert record.activation_std.shape[2] == 1 and (record.activation_std > 0).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Encoder(0, *SIZES, final_norm=True), ValueError, "n_layers: a whole number of at least 1 want"),
        (lambda: Decoder(2, *SIZES), TypeError, "final_norm"),
        (lambda: Encoder(2, *SIZES), TypeError, "final_norm"),
        (lambda: Encoder(2, *SIZES, final_norm="layer"), ValueError, "final_norm: True or False wanted, got 'layer'"),
        (lambda: Decoder(2, *SIZES, final_norm=None), ValueError, "final_norm: True or False wanted, got None"),
        (lambda: Encoder(2, *SIZES, final_norm=True, placement="before"), ValueError, "placement: one of post, pre, "),
        (lambda: EncoderLayer(*SIZES, norm="batch"), ValueError, "norm: one of layer, rms wanted, got 'batch'"),
        (lambda: EncoderLayer(*SIZES, backend="cuda"), ValueError, "backend: one of auto, triton, eager wanted"),
        (lambda: DecoderLayer(8, 3, 12), ValueError, "n_heads: a divisor of d_model, 8, wanted, got 3"),
        (lambda: EncoderLayer(*SIZES)(torch.zeros(2, 3, 7)), ValueError, r"x: shape \(\.\.\., 8\) wanted, got \(2, "),
        (lambda: EncoderLayer(*SIZES)(torch.zeros(3, 8)), ValueError, r"x: shape \(batch, length, 8\) wanted"),
        (
            lambda: DecoderLayer(*SIZES)(torch.zeros(2, 3, 8), torch.zeros(2, 3, 6)),
            ValueError,
            r"memory: shape \(batch, length, 8\) wanted, got \(2, 3, 6\)",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_options_reach_every_part():
    model = Decoder(
        2, 8, 2, 12, final_norm=True, placement="post", norm="rms", dropout=0.1, alpha=deepnorm(2).alpha, eps=1e-3,
        bias=False, backend="eager",
    )  # fmt: skip
    blocks = [m for m in model.modules() if isinstance(m, AddNorm)]
    assert {(b.placement, b.norm_kind, b.dropout, b.alpha, b.eps, b.backend) for b in blocks} == {
        ("post", "rms", 0.1, 2**0.5, 1e-3, "eager")
    }
    assert not [name for name, _parameter in model.named_parameters() if "bias" in name]
    assert isinstance(model.final_norm, nn.RMSNorm) and model.final_norm.eps == 1e-3
    assert not [n for n, _p in Encoder(1, *SIZES, final_norm=True, bias=False).named_parameters() if "bias" in n]
