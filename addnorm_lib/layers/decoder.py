"""The decoder: causal self-attention, attention to the encoder's output and feed-forward, each with its Add & Norm."""

import copy
from typing import Self, Unpack

from torch import Tensor, nn

from addnorm_lib.fused import Backend, Norm
from addnorm_lib.layers import from_torch
from addnorm_lib.layers.add_norm import AddNorm, Placement
from addnorm_lib.layers.attention import MultiHeadAttention
from addnorm_lib.layers.checks import check_count, check_flag
from addnorm_lib.layers.feed_forward import Activation, FeedForward
from addnorm_lib.layers.kv_cache import KVCache
from addnorm_lib.layers.options import LayerOptions
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
        norm: Norm = "layer",
        dropout: float = 0.0,
        alpha: float = 1.0,
        eps: float = 1e-5,
        activation: Activation = "relu",
        bias: bool = True,
        causal: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.causal = causal
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.add_norm1, self.add_norm2, self.add_norm3 = (
            AddNorm(d_model, placement, norm, dropout, alpha, eps, bias=bias, backend=backend) for _ in range(3)
        )

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer, *, causal: bool = True) -> Self:
        """Return a layer with copies of `layer`'s weights: see `EncoderLayer.from_torch`."""
        made = cls(**from_torch.layer_arguments(layer, nn.TransformerDecoderLayer), causal=causal)
        return from_torch.copy_layer(layer, made)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model) and memory (B, S, d_model).

        The first two masks are the self-attention's, the other two the attention to the memory's; masks and cache as in
        `MultiHeadAttention`.
        """
        return self.on_stream(
            Stream(x),
            memory,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            memory_mask=memory_mask,
            cache=cache,
        ).sum()

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


class Decoder(nn.Module):
    """A stack of `DecoderLayer`s, each with initial weights of its own, and a final norm where it is told so.

    Args: as in `Encoder`, with the keyword arguments of `DecoderLayer`.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        final_norm: bool,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        check_count("n_layers", n_layers)
        check_flag("final_norm", final_norm)
        self.layers = nn.ModuleList(DecoderLayer(d_model, n_heads, d_ff, **options) for _ in range(n_layers))
        block = self.layers[-1].add_norm1
        self.final_norm = copy.deepcopy(block.norm) if final_norm else None
        self.backend = block.backend

    @classmethod
    def from_torch(cls, stack: nn.TransformerDecoder, *, causal: bool = True) -> Self:
        """Return a stack with copies of `stack`'s layers and of its final norm, if it has one: see `Encoder`'s."""
        arguments = from_torch.stack_arguments(stack, nn.TransformerDecoder, nn.TransformerDecoderLayer)
        return from_torch.copy_stack(stack, cls(**arguments, causal=causal))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return y (B, T, d_model): see `DecoderLayer.forward`."""
        stream = Stream(x)
        for layer in self.layers:
            stream = through(
                layer,
                stream,
                memory,
                key_padding_mask=key_padding_mask,
                attn_mask=attn_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                memory_mask=memory_mask,
                cache=cache,
            )
        return stream.sum() if self.final_norm is None else stream.norm(self.final_norm, self.backend)
