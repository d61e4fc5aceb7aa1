"""Multi-head attention against its formula in float64, its masks, what it may see, and bad input."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from addnorm_lib.layers import KVCache, MultiHeadAttention


def attention(d_model=6, n_heads=2, **options):
    module = MultiHeadAttention(d_model, n_heads, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return module


def formula(module, x, memory, allowed, added):
    """Return y head by head, query by query; `allowed` and `added` (B, n_heads, T, S)."""

    def linear(layer, z):
        y = z @ layer.weight.detach().numpy().T
        return y if layer.bias is None else y + layer.bias.detach().numpy()

    q, k, v = linear(module.query, x), linear(module.key, memory), linear(module.value, memory)
    heads, size = np.zeros_like(q), q.shape[-1] // module.n_heads
    for b, h, t in np.ndindex(len(x), module.n_heads, x.shape[1]):
        columns, seen = slice(h * size, (h + 1) * size), allowed[b, h, t]
        if seen.any():
            scores = k[b, seen, columns] @ q[b, t, columns] / math.sqrt(size) + added[b, h, t, seen]
            weights = np.exp(scores - scores.max())
            heads[b, t, columns] = weights / weights.sum() @ v[b, seen, columns]
    return linear(module.output, heads)


@st.composite
def cases(draw):
    batch, n_heads, length = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3])), draw(st.integers(1, 5))
    cross = draw(st.booleans())
    return {
        "sizes": (batch, n_heads, length, draw(st.integers(1, 5)) if cross else length),
        "cross": cross,
        "causal": not cross and draw(st.booleans()),
        "padding": draw(st.booleans()),
        "pairs": draw(st.sampled_from([None, "bool", "float"])),
        "axes": draw(st.sampled_from([2, 3, 4])),
        "bias": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**31)),
    }


@settings(max_examples=150)
@given(cases())
def test_attention_is_its_formula(case):
    """With every mix of masks, rows that may see nothing included."""
    torch.manual_seed(case["seed"])
    batch, n_heads, t, s = case["sizes"]
    module = attention(6, n_heads, bias=case["bias"])
    x = torch.randn(batch, t, 6, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(batch, s, 6, dtype=torch.float64) if case["cross"] else None
    allowed, added = torch.ones(batch, n_heads, t, s, dtype=torch.bool), torch.zeros(batch, n_heads, t, s).double()
    masks = {}
    if case["padding"]:
        masks["key_padding_mask"] = torch.rand(batch, s) < 0.4
        allowed = allowed & ~masks["key_padding_mask"][:, None, None]
    if case["pairs"]:
        shape = (batch, n_heads, t, s)[-2:] if case["axes"] == 2 else (batch, *(n_heads,) * (case["axes"] == 4), t, s)
        mask = torch.rand(shape) < 0.4 if case["pairs"] == "bool" else torch.randn(shape, dtype=torch.float64)
        masks["attn_mask"] = mask
        spread = mask[:, None] if case["axes"] == 3 else mask
        allowed, added = (allowed & ~spread, added) if case["pairs"] == "bool" else (allowed, added + spread)
    if case["causal"]:
        allowed = allowed & torch.ones(t, s, dtype=torch.bool).tril()
    y = module(x, memory, causal=case["causal"], **masks)
    source = x if memory is None else memory
    want = formula(module, *(z.detach().numpy() for z in (x, source, allowed, added)))
    np.testing.assert_allclose(y.detach(), want, rtol=1e-10, atol=1e-10)
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_a_query_without_keys_gets_the_output_bias():
    module = attention()
    y = module(torch.randn(2, 3, 6).double(), key_padding_mask=torch.tensor([[True] * 3, [False] * 3]))
    assert torch.equal(y[0], module.output.bias.expand(3, 6))
    assert y[1].isfinite().all()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_causal_output_does_not_change_with_the_future_bit_for_bit(padded, dtype):
    module, x = attention(16, 4).to(dtype), torch.randn(2, 9, 16, dtype=dtype)
    masks = {"key_padding_mask": torch.zeros(2, 9, dtype=torch.bool)} if padded else {}
    before = module(x, causal=True, **masks)
    for j in range(9):
        changed = x.clone()
        changed[:, j] += 1
        after = module(changed, causal=True, **masks)
        assert torch.equal(after[:, :j], before[:, :j])
        assert (after[:, j:] != before[:, j:]).any(dim=2).all()


def test_dropout_drops_attention_weights_in_training_only():
    module = attention(dropout=0.5)
    with torch.no_grad():
        for linear in (module.value, module.output):
            linear.weight.copy_(torch.eye(6))
            linear.bias.zero_()
        module.query.weight.zero_(), module.query.bias.zero_()
    x = torch.eye(6).double().expand(2000, 6, 6)
    y = module(x)  # the weights themselves: each is 1/6, dropped or doubled
    assert set((y * 6).round(decimals=9).unique().tolist()) == {0.0, 2.0}
    # 72 000 weights: the standard error of the rate is 0.002, and five of them are allowed.
    assert (y == 0).double().mean().item() == pytest.approx(0.5, abs=0.01)
    torch.testing.assert_close(module.eval()(x), torch.full_like(x, 1 / 6))


def test_weights_start_as_pytorchs():
    ours, theirs = MultiHeadAttention(64, 4), torch.nn.MultiheadAttention(64, 4)
    for linear in (ours.query, ours.key, ours.value):
        assert linear.weight.abs().max().item() == pytest.approx(theirs.in_proj_weight.abs().max().item(), rel=0.01)
    assert ours.output.weight.abs().max().item() == pytest.approx(math.sqrt(6 / 128), rel=0.01)
    assert not any(p.any() for p in ours.parameters() if p.ndim == 1)


X = torch.zeros(2, 3, 6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: MultiHeadAttention(6, 4), "n_heads: a divisor of d_model, 6, wanted, got 4"),
        (lambda m: MultiHeadAttention(6, 0), "n_heads: a whole number of at least 1 wanted, got 0"),
        (lambda m: MultiHeadAttention(6.0, 2), r"d_model: .* got 6\.0"),
        (lambda m: MultiHeadAttention(6, 2, dropout=2.0), "dropout: a probability from 0 to 1 wanted, got 2.0"),
        (lambda m: m(X[0]), r"x: shape \(batch, length, 6\) wanted, got \(3, 6\)"),
        (lambda m: m(X[..., :5]), r"x: shape .* got \(2, 3, 5\)"),
        (lambda m: m(X, X[..., :5]), r"memory: shape .* got \(2, 3, 5\)"),
        (lambda m: m(X, X[:1]), "memory: the batch size of x, 2, wanted, got 1"),
        (lambda m: m(X, X, causal=True), "causal: False wanted"),
        (lambda m: m(X, cache=KVCache(4)), "cache: a causal attention wanted, got causal=False"),
        (
            lambda m: m(X, key_padding_mask=torch.zeros(3, 2, dtype=torch.bool)),
            r"key_padding_mask: bool, shape \(2, 3\), .* got torch.bool, \(3, 2\)",
        ),
        (lambda m: m(X, key_padding_mask=torch.zeros(2, 3)), r"key_padding_mask: bool, .* got torch.float32, \(2, 3\)"),
        (
            lambda m: m(X, attn_mask=torch.zeros(2, 3)),
            r"attn_mask: .* \(3, 3\) or \(2, 3, 3\) or \(2, 2, 3, 3\), wanted, got torch.float32, \(2, 3\)",
        ),
        (lambda m: m(X, attn_mask=torch.zeros(3)), r"attn_mask: .* got torch.float32, \(3,\)"),
        (lambda m: m(X, attn_mask=torch.zeros(3, 3, dtype=torch.int64)), r"attn_mask: .* got torch.int64"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(MultiHeadAttention(6, 2))
