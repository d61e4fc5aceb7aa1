"""Decoding with a cache gives what one call with all tokens gives; a mistaken cache is refused."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from addnorm_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, KVCache, Norm, Placement

D, SIZES = 8, (8, 2, 12)
PLACEMENTS, NORMS = get_args(Placement), get_args(Norm)


@st.composite
def cases(draw):
    return {
        "part": draw(st.sampled_from(["encoder", "decoder"])),
        "layers": draw(st.integers(1, 3)),
        "placement": draw(st.sampled_from(PLACEMENTS)),
        "norm": draw(st.sampled_from(NORMS)),
        "final_norm": draw(st.booleans()),
        "batch": draw(st.integers(1, 3)),
        "pieces": draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)),
        "padding": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**31)),
    }


@settings(max_examples=120)
@given(cases())
def test_pieces_through_the_cache_give_what_one_call_gives(case):
    """A prompt, then tokens one by one or several at once; the gradients too."""
    torch.manual_seed(case["seed"])
    make = Encoder if case["part"] == "encoder" else Decoder
    options = {name: case[name] for name in ("placement", "norm", "final_norm")}
    model = make(case["layers"], *SIZES, causal=True, **options).double()
    batch, length = case["batch"], sum(case["pieces"])
    x = torch.randn(batch, length, D, dtype=torch.float64, requires_grad=True)
    memory = [torch.randn(batch, 3, D, dtype=torch.float64)] if case["part"] == "decoder" else []
    masks = {}
    padding = torch.rand(batch, length) < 0.3
    if case["padding"]:
        masks["memory_key_padding_mask"] = torch.rand(batch, 3) < 0.3
    masks = masks if memory else {}
    whole = model(x, *memory, key_padding_mask=padding if case["padding"] else None, **masks)
    cache, got = KVCache(length), []
    for piece in x.split(case["pieces"], dim=1):
        end = cache.length + piece.shape[1]
        seen = padding[:, :end] if case["padding"] else None
        got.append(model(piece, *memory, key_padding_mask=seen, cache=cache, **masks))
        assert cache.length == end
    got = torch.cat(got, dim=1)
    torch.testing.assert_close(got, whole, rtol=1e-10, atol=1e-10)
    upstream = torch.randn_like(whole)
    gradients = [torch.autograd.grad(y, [x, *model.parameters()], upstream) for y in (got, whole)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_decoding_token_by_token(placement):
    decoder = Decoder(2, *SIZES, placement=placement, final_norm=True).double().eval()
    x, memory, cache = torch.randn(2, 6, D).double(), torch.randn(2, 4, D).double(), KVCache(6)
    whole = decoder(x, memory)
    for t in range(6):
        token = decoder(x[:, t : t + 1], memory, cache=cache)
        torch.testing.assert_close(token, whole[:, t : t + 1], rtol=1e-10, atol=1e-10)


def test_the_memory_is_projected_once():
    layer = DecoderLayer(*SIZES)
    calls = []
    layer.cross_attention.key.register_forward_hook(lambda *_: calls.append(1))
    cache, memory = KVCache(3), torch.randn(2, 4, D)
    for _ in range(3):
        layer(torch.randn(2, 1, D), memory, cache=cache)
    assert len(calls) == 1


def filled(model, length=2, max_length=4, **options):
    cache = KVCache(max_length)
    model(torch.zeros(2, length, D), cache=cache, **options)
    return cache


def use(model, batch=2, length=1, **options):
    return lambda cache: model(torch.zeros(batch, length, D), cache=cache, **options)


GPT, OTHER = (Encoder(2, *SIZES, causal=True, final_norm=False) for _ in range(2))
MEMORY = torch.zeros(2, 3, D)
DECODER = DecoderLayer(*SIZES)


@pytest.mark.parametrize(
    ("model", "call", "words"),
    [
        (GPT, use(GPT, batch=3), "cache: the batch size that it holds, 2, wanted, got 3"),
        (GPT, use(GPT, length=3), r"cache: at most 4 positions \(max_length\) wanted, got 5"),
        (
            GPT,
            use(OTHER),
            "cache: one filled by whole calls of this model .* 0 positions and 1 new ones .* 2 that other",
        ),
        (GPT, use(GPT.layers[1]), "cache: one filled by whole calls of this model wanted"),
        (GPT, use(EncoderLayer(*SIZES)), "cache: a causal attention wanted, got causal=False"),
        (DECODER, use(DECODER, memory=MEMORY.clone()), "memory: the tensor of the cache's first call wanted"),
        (
            GPT,
            use(GPT, key_padding_mask=torch.zeros(2, 1, dtype=torch.bool)),
            r"key_padding_mask: bool, shape \(2, 3\), .* got torch.bool, \(2, 1\)",
        ),
    ],
)
def test_a_mistaken_use_is_refused(model, call, words):
    cache = filled(model, memory=MEMORY) if model is DECODER else filled(model)
    with pytest.raises(ValueError, match=words):
        call(cache)


def test_a_layer_used_by_itself_is_noticed_at_the_next_call():
    cache = filled(GPT)
    use(GPT.layers[0])(cache)
    with pytest.raises(ValueError, match="cache: one filled by whole calls of this model wanted"):
        use(GPT)(cache)


@pytest.mark.parametrize("length", [0, -1, 2.0, True])
def test_the_length_is_a_number_of_positions(length):
    with pytest.raises(ValueError, match="max_length: a whole number of at least 1 wanted"):
        KVCache(length)
