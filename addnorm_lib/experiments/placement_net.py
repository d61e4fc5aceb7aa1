"""Transformers that differ in nothing but where the norm stands.

The layers are the library's (`addnorm_lib.layers`); only the forward pass of many seeds at once is written out here.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.experiments.network_stack import Note
from addnorm_lib.experiments.per_seed import State, linear, normalised
from addnorm_lib.layers import NORMS, PLACEMENTS, Encoder, deepnorm, deepnorm_init_, residual_block

_ORDERS = {**{name: name for name in PLACEMENTS}, "scaled": "pre", "deepnorm": "post"}  # where each puts the norms


class PlacementNet(nn.Module):
    """Tokens (B, T) → embedding + position → `depth` encoder layers → logits (B, T, vocabulary).

    Args:
        placement: "post", "pre", "sandwich" or "branch" as in `addnorm_lib.layers.AddNorm`; "scaled": Pre-LN whose
            norms' outputs are multiplied by 1/√l in layer l = 1…L (LayerNorm scaling, Sun et al. 2025, section 4);
            "deepnorm": Post-LN with the shortcut times (2L)^¼ and initial weights times (8L)^−¼ (Wang et al. 2022).
        depth: the number of layers L, each with two sublayers.
        d_model, n_heads, d_ff: as in `addnorm_lib.layers.EncoderLayer`.
        norm: a name in `layers.NORMS`, or None for no norm at all.
        final_norm: whether a norm follows the last layer; None means where the stack does not end with one.
        alpha: scales the shortcuts; "deepnorm" brings its own.
        residual: whether there are shortcuts; without them post is LN(F(x)) and pre is F(LN(x)).
        init: "xavier", the library's, or "simplified", the network of Xiong et al. 2020, section 3.2: W_Q = W_K = 0, so
            that attention takes the mean, W_O = I, all other weights N(0, 2/(fan in + fan out)). It wants n_heads = 1.
        causal: whether a position sees only itself and earlier ones.
        n_tokens: the longest sequence; vocabulary: the number of tokens.

    Embeddings and positions are N(0, ½), so that their sum has variance 1. Raises ValueError for what no network fits.
    """

    def __init__(
        self,
        placement: str = "post",
        depth: int = 6,
        d_model: int = 32,
        n_heads: int = 2,
        d_ff: int = 32,
        *,
        norm: str | None = "layer",
        final_norm: bool | None = None,
        alpha: float = 1.0,
        residual: bool = True,
        init: Literal["xavier", "simplified"] = "xavier",
        causal: bool = False,
        n_tokens: int = 6,
        vocabulary: int = 8,
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("placement", placement, tuple(_ORDERS)),
            ("norm", norm, (*NORMS, None)),
            ("init", init, ("xavier", "simplified")),
        ):
            if value not in choices:
                raise ValueError(f"{name}: one of {', '.join(map(repr, choices))} wanted, got {value!r}")
        if placement == "deepnorm" and (alpha != 1 or init != "xavier" or not residual):
            raise ValueError("placement: 'deepnorm' brings its own alpha and initialisation, and scales a shortcut")
        if init == "simplified" and n_heads != 1:
            raise ValueError(f"n_heads: 1 wanted with init='simplified', got {n_heads}")
        if norm is None and final_norm:
            raise ValueError("final_norm: False or None wanted with norm=None, got True")
        self.placement = placement
        self.norm_name, self.n_heads, self.causal = norm, n_heads, causal
        self.alpha = (deepnorm(depth).alpha if placement == "deepnorm" else alpha) if residual else 0.0
        self.order = place = _ORDERS[placement]
        self.encoder = Encoder(
            depth,
            d_model,
            n_heads,
            d_ff,
            placement=place,
            norm=norm or "layer",
            alpha=self.alpha,
            causal=causal,
            final_norm=norm is not None and (not PLACEMENTS[place].after_sum if final_norm is None else final_norm),
        )
        if placement == "deepnorm":
            deepnorm_init_(self.encoder, deepnorm(depth).beta)
        for layer in self.encoder.layers:
            if norm is None:
                layer.add_norm1.norm = layer.add_norm2.norm = nn.Identity()
                layer.add_norm1.outer_norm = layer.add_norm2.outer_norm = None
            if init == "simplified":
                attention = layer.self_attention
                nn.init.zeros_(attention.query.weight)
                nn.init.zeros_(attention.key.weight)
                nn.init.eye_(attention.output.weight)
                for linear in (attention.value, layer.feed_forward.linear1, layer.feed_forward.linear2):
                    nn.init.xavier_normal_(linear.weight)
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.position = nn.Parameter(torch.randn(n_tokens, d_model) / math.sqrt(2))
        self.readout = nn.Linear(d_model, vocabulary)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, T, vocabulary) of the tokens x (B, T)."""
        state = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        return self.forward_stacked(state, x.unsqueeze(0), lambda _name, _value: None)[0]

    def forward_stacked(self, state: State, x: Tensor, note: Note) -> Tensor:
        """Return the logits (S, B, T, vocabulary) of S networks with stacked weights (`training`'s protocol)."""
        h = self.layers_stacked(state, self.embed_stacked(state, x), note)
        return linear(state, "readout", h.flatten(1, 2)).unflatten(1, h.shape[1:3])

    def embed_stacked(self, state: State, x: Tensor) -> Tensor:
        """Return the inputs of the first layers (S, B, T, d_model) for the tokens x (S, B, T)."""
        embedded = [F.embedding(tokens, table) for tokens, table in zip(x, state["embedding.weight"], strict=True)]
        return torch.stack(embedded) + state["position"][:, None, : x.shape[2]]

    def layers_stacked(self, state: State, x: Tensor, note: Note) -> Tensor:
        """Return what S stacks of layers, final norm included, make of x (S, B, T, d_model).

        Noted are every sublayer's update, every sum ("….add_norm1.sum") and what is handed on ("….add_norm1").
        """
        shape = x.shape
        h = x.flatten(1, 2)  # (S, B·T, d_model)

        def norm(name: str) -> Callable[[Tensor], Tensor]:
            return lambda a: normalised(self.norm_name, state, name, a)

        def heads(name: str, a: Tensor) -> Tensor:
            return linear(state, name, a).view(-1, shape[2], self.n_heads, shape[3] // self.n_heads).transpose(1, 2)

        def self_attention(name: str, a: Tensor) -> Tensor:
            q, k, v = (heads(f"{name}.{part}", a) for part in ("query", "key", "value"))  # (S·B, heads, T, d_head)
            joined = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)
            return linear(state, f"{name}.output", joined.reshape(h.shape))

        def feed_forward(name: str, a: Tensor) -> Tensor:
            hidden = torch.relu(linear(state, f"{name}.linear1", a))
            note(f"{name}.hidden", hidden)
            return linear(state, f"{name}.linear2", hidden)

        two_norms = sum(PLACEMENTS[self.order]) == 2
        for l in range(len(self.encoder.layers)):
            layer = f"encoder.layers.{l}"
            for number, sublayer in enumerate((self_attention, feed_forward), 1):
                block, branch = f"{layer}.add_norm{number}", f"{layer}.{sublayer.__name__}"

                def run(z: Tensor, sublayer=sublayer, branch: str = branch, scale: float = math.sqrt(l + 1)) -> Tensor:
                    return sublayer(branch, z / scale if self.placement == "scaled" else z)

                def add(x: Tensor, update: Tensor, block: str = block, branch: str = branch) -> Tensor:
                    note(branch, update)
                    total = torch.add(update, x, alpha=self.alpha) if self.alpha else update
                    note(f"{block}.sum", total)
                    return total

                outer = norm(f"{block}.outer_norm") if two_norms else None
                h = residual_block(self.order, h, run, norm(f"{block}.norm"), outer_norm=outer, add=add)
                note(block, h)
        return (h if self.encoder.final_norm is None else norm("encoder.final_norm")(h)).view(shape)
