"""Multi-head attention: the sublayer that mixes positions."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.layers.checks import check_count, check_probability
from addnorm_lib.layers.kv_cache import KVCache


class MultiHeadAttention(nn.Module):
    """Every query's mean of the values, weighted by how well the query matches the keys, in `n_heads` subspaces.

    For each head, with q = x·W_q, k = m·W_k, v = m·W_v, where m is x itself or the `memory` of an encoder::

        head = softmax(q kᵀ / √d_head) v,   y = concat(heads)·W_o,   d_head = d_model / n_heads

    Vaswani et al. 2017, section 3.2. Weights start Xavier-uniform, W_q, W_k and W_v with the bound √(6/4d_model) of one
    packed (3·d_model, d_model) matrix, as in `torch.nn.MultiheadAttention`; biases start at zero.

    Args:
        d_model: the size of the last axis of x, memory and y.
        n_heads: the number of heads, a divisor of d_model.
        dropout: the probability that an attention weight is dropped, in training mode.
        bias: whether the four linear maps have one.
    """

    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_count("n_heads", n_heads)
        check_probability("dropout", dropout)
        if d_model % n_heads:
            raise ValueError(f"n_heads: a divisor of d_model, {d_model}, wanted, got {n_heads}")
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight, gain=1.0 if linear is self.output else math.sqrt(0.5))
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        return f"n_heads={self.n_heads}, dropout={self.dropout}"

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Return y (B, T, d_model).

        Args:
            x: (B, T, d_model), where the queries come from.
            memory: (B, S, d_model), where keys and values come from; x (so S = T) where it is None.
            key_padding_mask: bool (B, S), True for the keys to ignore. As in PyTorch.
            attn_mask: bool, True for the pairs to ignore, or floating, added to q kᵀ / √d_head; (T, S), (B, T, S) or
                (B, n_heads, T, S).
            causal: let each position see itself and earlier ones only. Self-attention only.
            cache: what earlier calls have computed. In self-attention x holds the new tokens only, and S counts the
                cached ones too, in both masks as well.

        A query that may see no key at all gets zero from every head, so that y is `output.bias` there, never NaN.
        (`torch.nn.MultiheadAttention` of torch 2.13 agrees, except where it returns weights too and on the fast path of
        evaluation, which give NaN.)

        Raises ValueError for a wrong shape or mask, for `causal` with a memory, and for a cache that belongs to another
        model or batch, is full, or is used without `causal`, where new tokens would have changed earlier outputs.
        """
        self._check_input("x", x)
        if memory is not None:
            self._check_input("memory", memory)
            if len(memory) != len(x):
                raise ValueError(f"memory: the batch size of x, {len(x)}, wanted, got {len(memory)}")
            if causal:
                raise ValueError("causal: False wanted, since the memory's positions are not those of x, got True")
        elif cache is not None and not causal:
            raise ValueError("cache: a causal attention wanted, got causal=False: later tokens would change the past")

        source = x if memory is None else memory
        q = self._heads(self.query(x))
        if cache is not None and memory is not None:
            k, v = cache.remember(self, memory, lambda: self._keys_and_values(memory))
        else:
            k, v = self._keys_and_values(source)
            if cache is not None:
                k, v = cache.append(self, k, v)

        n_queries, n_keys = q.shape[2], k.shape[2]
        # torch's own causal mask counts both from 0: right where there are no earlier keys, and quicker than a tensor.
        plain_causal = causal and n_queries == n_keys and key_padding_mask is None and attn_mask is None
        mask = None if plain_causal else self._mask(q, k, key_padding_mask, attn_mask, causal)
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=plain_causal)
        return self.output(heads.transpose(1, 2).flatten(2))

    def _check_input(self, name: str, value: Tensor) -> None:
        if value.ndim != 3 or value.shape[2] != self.d_model:
            raise ValueError(f"{name}: shape (batch, length, {self.d_model}) wanted, got {tuple(value.shape)}")

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def _keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads(self.key(source)), self._heads(self.value(source))

    def _mask(
        self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, causal: bool
    ) -> Tensor | None:
        """Return what `scaled_dot_product_attention` takes: bool, True for the pairs that count, or floating, added."""
        (batch, _, n_queries, _), n_keys = q.shape, k.shape[2]
        allowed = added = None
        if attn_mask is not None:
            shapes = {
                2: (n_queries, n_keys),
                3: (batch, n_queries, n_keys),
                4: (batch, self.n_heads, n_queries, n_keys),
            }
            floating = attn_mask.is_floating_point()
            if attn_mask.shape != shapes.get(attn_mask.ndim) or not (floating or attn_mask.dtype == torch.bool):
                wanted = " or ".join(map(str, shapes.values()))
                raise ValueError(
                    f"attn_mask: bool or floating, shape {wanted}, wanted, got {attn_mask.dtype}, "
                    f"{tuple(attn_mask.shape)}"
                )
            attn_mask = attn_mask.unsqueeze(1) if attn_mask.ndim == 3 else attn_mask
            allowed, added = (None, attn_mask.to(q.dtype)) if floating else (~attn_mask, None)
        if key_padding_mask is not None:
            if key_padding_mask.shape != (batch, n_keys) or key_padding_mask.dtype != torch.bool:
                raise ValueError(
                    f"key_padding_mask: bool, shape {(batch, n_keys)}, one a key and True to ignore it, wanted, "
                    f"got {key_padding_mask.dtype}, {tuple(key_padding_mask.shape)}"
                )
            unpadded = ~key_padding_mask[:, None, None, :]
            allowed = unpadded if allowed is None else allowed & unpadded
        if causal and n_queries > 1:
            past = torch.ones(n_queries, n_keys, dtype=torch.bool, device=q.device).tril(n_keys - n_queries)
            allowed = past if allowed is None else allowed & past
        if added is None:
            return allowed
        return added if allowed is None else added.masked_fill(~allowed, -math.inf)
