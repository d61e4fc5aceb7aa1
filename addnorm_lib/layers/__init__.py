"""The Transformer's layers and stacks, with every place that the norm has been put in, on the fused core."""

from addnorm_lib.fused import Norm
from addnorm_lib.layers.add_norm import AddNorm
from addnorm_lib.layers.attention import MultiHeadAttention
from addnorm_lib.layers.decoder import Decoder, DecoderLayer
from addnorm_lib.layers.deepnorm import deepnorm, deepnorm_init_, deepnorm_pair
from addnorm_lib.layers.encoder import Encoder, EncoderLayer
from addnorm_lib.layers.feed_forward import FeedForward
from addnorm_lib.layers.kv_cache import KVCache
from addnorm_lib.layers.norms import NORMS
from addnorm_lib.layers.placement import PLACEMENTS, Placement, residual_block
from addnorm_lib.layers.stream import Stream

__all__ = [
    "NORMS",
    "PLACEMENTS",
    "AddNorm",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KVCache",
    "MultiHeadAttention",
    "Norm",
    "Placement",
    "Stream",
    "deepnorm",
    "deepnorm_init_",
    "deepnorm_pair",
    "residual_block",
]
