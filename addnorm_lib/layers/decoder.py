"""The decoder: causal self-attention, attention to the encoder's output and feed-forward, each with its Add & Norm."""

from typing import Self, Unpack

from torch import Tensor, nn

from addnorm_lib.fused import Backend
from addnorm_lib.layers import from_torch
from addnorm_lib.layers.add_norm import AddNorm
from addnorm_lib.layers.attention import MultiHeadAttention
from addnorm_lib.layers.checks import check_flag, check_tensor
from addnorm_lib.layers.feed_forward import Activation, FeedForward
from addnorm_lib.layers.kv_cache import KVCache
from addnorm_lib.layers.options import DecoderMasks
from addnorm_lib.layers.placement import Placement
from addnorm_lib.layers.stack import LayerStack
from addnorm_lib.layers.stream import Stream, through


class DecoderLayer(nn.Module):
    """Three sublayers, each inside an `AddNorm`: causal self-attention, attention to `memory`, feed-forward.

    Vaswani et al. 2017, section 3.1 and figure 1 (right half). The memory, an encoder's output, is not normalised here.

    Args: as in `EncoderLayer`; `causal` is about the self-attention, and True unless told otherwise.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        placement: Placement = "post",
        norm: str = "layer",
        dropout: float = 0.0,
        alpha: float = 1.0,
        eps: float = 1e-5,
        activation: Activation = "relu",
        bias: bool = True,
        causal: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_flag("causal", causal)
        self.causal = causal
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.add_norm1, self.add_norm2, self.add_norm3 = (
            AddNorm(d_model, placement, norm, dropout, alpha, eps, bias=bias, backend=backend) for _ in range(3)
        )

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        return f"causal={self.causal}"

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer, *, causal: bool = True) -> Self:
        """Return a layer with copies of `layer`'s weights: see `EncoderLayer.from_torch`."""
        made = cls(**from_torch.layer_arguments(layer, nn.TransformerDecoderLayer), causal=causal)
        return from_torch.copy_layer(layer, made)

    def forward(self, x: Tensor, memory: Tensor, **masks: Unpack[DecoderMasks]) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model) and memory (B, S, d_model).

        `key_padding_mask` and `attn_mask` are the self-attention's, `memory_key_padding_mask` and `memory_mask` are for
        the attention to the memory; masks and `cache` as in `MultiHeadAttention.forward`.
        """
        return self.on_stream(Stream(x), memory, **masks).sum()

    def on_stream(
        self,
        stream: Stream,
        memory: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Stream:
        """Do the same on a stream whose last sum is open."""
        # Without a memory the attention to it would be self-attention that sees the future.
        check_tensor("memory", memory)

        def attend(z: Tensor) -> Tensor:
            return self.self_attention(
                z, key_padding_mask=key_padding_mask, attn_mask=attn_mask, causal=self.causal, cache=cache
            )

        def attend_to_memory(z: Tensor) -> Tensor:
            return self.cross_attention(
                z, memory, key_padding_mask=memory_key_padding_mask, attn_mask=memory_mask, cache=cache
            )

        stream = through(self.add_norm1, stream, attend)
        stream = through(self.add_norm2, stream, attend_to_memory)
        return through(self.add_norm3, stream, self.feed_forward)


class Decoder(LayerStack):
    """A stack of `DecoderLayer`s, each with initial weights of its own, and a final norm where it is told so.

    Args: as in `Encoder`, with the keyword arguments of `DecoderLayer`.
    """

    layer_class = DecoderLayer
    torch_classes = nn.TransformerDecoder, nn.TransformerDecoderLayer

    @classmethod
    def from_torch(cls, stack: nn.TransformerDecoder, *, causal: bool = True) -> Self:
        """Return a stack with copies of `stack`'s layers and of its final norm, if it has one: see `Encoder`'s."""
        return cls._from_torch(stack, causal)

    def forward(self, x: Tensor, memory: Tensor, **masks: Unpack[DecoderMasks]) -> Tensor:
        """Return y (B, T, d_model): see `DecoderLayer.forward`."""
        return self._through_layers(x, memory, **masks)
