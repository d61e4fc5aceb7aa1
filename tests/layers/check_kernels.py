"""The layers on the fused kernels and on plain torch: the same numbers. `test_kernels.py` starts this file."""

import copy
import itertools
import os
from typing import get_args

import pytest
import torch

from addnorm_lib.layers import AddNorm, Decoder, Encoder, KVCache, Norm, Placement

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
SIZES = (2, 8, 2, 12)
EACH = pytest.mark.parametrize(("placement", "norm"), list(itertools.product(get_args(Placement), get_args(Norm))))
# float64 shows that the formulas are the same ones; float32 is what runs.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def both(model):
    """Return the model on the kernels, and a copy on plain torch."""
    eager = copy.deepcopy(model)
    for module in eager.modules():
        if hasattr(module, "backend"):
            module.backend = "eager"
    return model, eager


def tensors(part, dtype):
    shapes = [(2, 3, 8)] if part == "encoder" else [(2, 3, 8), (2, 4, 8)]
    return [torch.randn(shape).to(DEVICE, dtype).requires_grad_() for shape in shapes]


def assert_same(got, want):
    tolerance = TOLERANCE[want.dtype] * max(1.0, want.abs().max().item())
    torch.testing.assert_close(got, want, rtol=0.0, atol=tolerance)


@EACH
@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize(("dtype", "dropout"), [(torch.float32, 0.0), (torch.float64, 0.3)])
def test_forward_and_backward(part, placement, norm, dtype, dropout):
    """With dropout too: one seed gives both backends the same masks."""
    make = Encoder if part == "encoder" else Decoder
    model = make(
        *SIZES, final_norm=True, placement=placement, norm=norm, alpha=1.2, dropout=dropout, backend="triton"
    ).to(DEVICE, dtype)
    inputs, results = tensors(part, dtype), []
    for each in both(model):
        torch.manual_seed(7)
        y = each(*inputs)
        results.append((y, *torch.autograd.grad(y.square().mean(), [*inputs, *each.parameters()])))
    for got, want in zip(*results, strict=True):
        assert_same(got, want)


@pytest.mark.parametrize("placement", get_args(Placement))
def test_decoding(placement):
    model = Decoder(*SIZES, final_norm=True, placement=placement, backend="triton").to(DEVICE).eval()
    (x, memory), cache = tensors("decoder", torch.float32), KVCache(3)
    with torch.no_grad():
        tokens = [model(x[:, t : t + 1], memory, cache=cache) for t in range(3)]
        assert_same(torch.cat(tokens, dim=1), both(model)[1](x, memory))


@EACH
def test_the_block_alone(placement, norm):
    block = AddNorm(8, placement, norm, alpha=1.2, backend="triton").to(DEVICE)
    (x,) = tensors("encoder", torch.float32)
    upstream = torch.randn_like(x)  # the sum of squares would not do: behind a norm it hardly depends on x
    got, want = (torch.autograd.grad(each(x, torch.tanh), x, upstream)[0] for each in both(block))
    assert_same(got, want)
