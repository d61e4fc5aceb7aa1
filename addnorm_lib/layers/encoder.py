"""The encoder: self-attention and feed-forward, each with its Add & Norm, N times. Causal, it is a GPT."""

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


class EncoderLayer(nn.Module):
    """Two sublayers, each inside an `AddNorm`: self-attention, then feed-forward.

    Vaswani et al. 2017, section 3.1 and figure 1 (left half).

    Args:
        d_model: the size of the last axis.
        n_heads: the number of attention heads, a divisor of d_model.
        d_ff: the size of the feed-forward's hidden layer.
        placement: where the norms stand: see `AddNorm`.
        norm: "layer" or "rms".
        dropout: the probability for what the branches add, for attention weights and inside the feed-forward.
        alpha: scales both shortcuts.
        eps: added to the norms' variances.
        activation: "relu", "gelu" or a function.
        bias: whether the linear maps and the LayerNorms have one.
        causal: whether a position sees only itself and earlier ones.
        backend: of `addnorm_lib.fused.add_norm`.
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
        causal: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.causal = causal
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.add_norm1, self.add_norm2 = (
            AddNorm(d_model, placement, norm, dropout, alpha, eps, bias=bias, backend=backend) for _ in range(2)
        )

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer, *, causal: bool = False) -> Self:
        """Return a layer with copies of `layer`'s weights, and its dtype, device, mode, order and dropout.

        It takes and returns (batch, length, d_model) whatever `layer.batch_first` says. PyTorch's layers are told at
        each call whether they are causal; ours when they are made.

        Raises TypeError for another class and ValueError for what has no counterpart here.
        """
        made = cls(**from_torch.layer_arguments(layer, nn.TransformerEncoderLayer), causal=causal)
        return from_torch.copy_layer(layer, made)

    def forward(
        self,
        x: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model); masks and cache as in `MultiHeadAttention`."""
        return self.on_stream(Stream(x), key_padding_mask=key_padding_mask, attn_mask=attn_mask, cache=cache).sum()

    def on_stream(
        self,
        stream: Stream,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Stream:
        """Do the same on a stream whose last sum is open."""

        def attend(z: Tensor) -> Tensor:
            return self.self_attention(
                z, key_padding_mask=key_padding_mask, attn_mask=attn_mask, causal=self.causal, cache=cache
            )

        stream = through(self.add_norm1, stream, attend)
        return through(self.add_norm2, stream, self.feed_forward)


class Encoder(nn.Module):
    """A stack of `EncoderLayer`s, each with initial weights of its own, and a final norm where it is told so.

    A Pre-LN stack hands on a sum that nothing has normalised, and so needs the final norm (Xiong et al. 2020, section
    3.1); so do sandwich and branch. A Post-LN stack ends with a norm already. There is no default: PyTorch's is none.

    Args:
        n_layers: the number of layers.
        d_model, n_heads, d_ff: as in `EncoderLayer`.
        final_norm: whether a norm follows the last layer.
        options: the keyword arguments of `EncoderLayer`. With `causal=True` this is a decoder-only model's stack.
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
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff, **options) for _ in range(n_layers))
        block = self.layers[-1].add_norm1
        self.final_norm = copy.deepcopy(block.norm) if final_norm else None
        self.backend = block.backend

    @classmethod
    def from_torch(cls, stack: nn.TransformerEncoder, *, causal: bool = False) -> Self:
        """Return a stack with copies of `stack`'s layers and of its final norm, if it has one.

        As `EncoderLayer.from_torch`. Raises TypeError for another class and ValueError for what has no counterpart.
        """
        arguments = from_torch.stack_arguments(stack, nn.TransformerEncoder, nn.TransformerEncoderLayer)
        return from_torch.copy_stack(stack, cls(**arguments, causal=causal))

    def forward(
        self,
        x: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model); masks and cache as in `MultiHeadAttention`."""
        stream = Stream(x)
        for layer in self.layers:
            stream = through(layer, stream, key_padding_mask=key_padding_mask, attn_mask=attn_mask, cache=cache)
        return stream.sum() if self.final_norm is None else stream.norm(self.final_norm, self.backend)
