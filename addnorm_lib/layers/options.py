"""The keyword arguments that layers and stacks have in common, each listed once: of making them and of calling them."""

from typing import TypedDict

from torch import Tensor

from addnorm_lib.fused import Backend
from addnorm_lib.layers.feed_forward import Activation
from addnorm_lib.layers.kv_cache import KVCache
from addnorm_lib.layers.placement import Placement


class LayerOptions(TypedDict, total=False):
    """The keyword arguments of `EncoderLayer` and `DecoderLayer`; their docstrings explain them."""

    placement: Placement
    norm: str
    dropout: float
    alpha: float
    eps: float
    activation: Activation
    bias: bool
    causal: bool
    backend: Backend


class Masks(TypedDict, total=False):
    """What self-attention is told at each call, the same in every layer: see `MultiHeadAttention.forward`."""

    key_padding_mask: Tensor | None
    attn_mask: Tensor | None
    cache: KVCache | None


class DecoderMasks(Masks, total=False):
    """The same, and the two masks of the attention to the memory."""

    memory_key_padding_mask: Tensor | None
    memory_mask: Tensor | None
