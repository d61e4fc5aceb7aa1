"""The encoder: self-attention and feed-forward, each with its Add & Norm, N times. Causal, it is a GPT."""

from typing import Self, Unpack

from torch import Tensor, nn

from addnorm_lib.fused import Backend
from addnorm_lib.layers import from_torch
from addnorm_lib.layers.add_norm import AddNorm
from addnorm_lib.layers.attention import MultiHeadAttention
from addnorm_lib.layers.checks import check_flag
from addnorm_lib.layers.feed_forward import Activation, FeedForward
from addnorm_lib.layers.options import Masks
from addnorm_lib.layers.placement import Placement
from addnorm_lib.layers.stack import LayerStack
from addnorm_lib.layers.stream import Stream, through


class EncoderLayer(nn.Module):
    """Two sublayers, each inside an `AddNorm`: self-attention, then feed-forward.

    Vaswani et al. 2017, section 3.1 and figure 1 (left half).

    Args:
        d_model: the size of the last axis.
        n_heads: the number of attention heads, a divisor of d_model.
        d_ff: the size of the feed-forward's hidden layer.
        placement: where the norms stand: see `AddNorm`.
        norm: "layer" or "rms": see `AddNorm`.
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
        norm: str = "layer",
        dropout: float = 0.0,
        alpha: float = 1.0,
        eps: float = 1e-5,
        activation: Activation = "relu",
        bias: bool = True,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_flag("causal", causal)
        self.causal = causal
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.add_norm1, self.add_norm2 = (
            AddNorm(d_model, placement, norm, dropout, alpha, eps, bias=bias, backend=backend) for _ in range(2)
        )

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        return f"causal={self.causal}"

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer, *, causal: bool = False) -> Self:
        """Return a layer with copies of `layer`'s weights, and its dtype, device, mode, order and dropout.

        It takes and returns (batch, length, d_model) whatever `layer.batch_first` says. PyTorch's layers are told at
        each call whether they are causal; ours when they are made.

        Raises TypeError for another class and ValueError for what has no counterpart here.
        """
        made = cls(**from_torch.layer_arguments(layer, nn.TransformerEncoderLayer), causal=causal)
        return from_torch.copy_layer(layer, made)

    def forward(self, x: Tensor, **masks: Unpack[Masks]) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model).

        `key_padding_mask`, `attn_mask` and `cache` as in `MultiHeadAttention.forward`.
        """
        return self.on_stream(Stream(x), **masks).sum()

    def on_stream(self, stream: Stream, **masks: Unpack[Masks]) -> Stream:
        """Do the same on a stream whose last sum is open."""

        def attend(z: Tensor) -> Tensor:
            return self.self_attention(z, causal=self.causal, **masks)

        stream = through(self.add_norm1, stream, attend)
        return through(self.add_norm2, stream, self.feed_forward)


class Encoder(LayerStack):
    """A stack of `EncoderLayer`s, each with initial weights of its own, and a final norm where it is told so.

    A Pre-LN stack hands on a sum that nothing has normalised, and so needs the final norm (Xiong et al. 2020, section
    3.1); so do sandwich and branch. A Post-LN stack ends with a norm already. There is no default: PyTorch's is none.

    Args:
        n_layers: the number of layers.
        d_model, n_heads, d_ff: as in `EncoderLayer`.
        final_norm: whether a norm follows the last layer.
        options: the keyword arguments of `EncoderLayer`. With `causal=True` this is a decoder-only model's stack.
    """

    layer_class = EncoderLayer
    torch_classes = nn.TransformerEncoder, nn.TransformerEncoderLayer

    @classmethod
    def from_torch(cls, stack: nn.TransformerEncoder, *, causal: bool = False) -> Self:
        """Return a stack with copies of `stack`'s layers and of its final norm, if it has one.

        As `EncoderLayer.from_torch`. Raises TypeError for another class and ValueError for what has no counterpart.
        """
        return cls._from_torch(stack, causal)

    def forward(self, x: Tensor, **masks: Unpack[Masks]) -> Tensor:
        """Return y (B, T, d_model) for x (B, T, d_model): see `EncoderLayer.forward`."""
        return self._through_layers(x, **masks)
