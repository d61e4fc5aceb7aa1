"""Multi-head attention: the sublayer that mixes positions."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.layers.checks import check_count, check_flag, check_mask, check_probability, check_tensor
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
        check_flag("bias", bias)
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

        Raises TypeError for what is no tensor or no cache. Raises ValueError for a wrong shape or mask, for `causal`
        with a memory, and for a cache that belongs to another model or batch, is full, or is used without `causal`,
        where new tokens would have changed earlier outputs.
        """
        self._check_input("x", x)
        check_flag("causal", causal)
        if cache is not None and not isinstance(cache, KVCache):
            raise TypeError(f"cache: a KVCache wanted, got {type(cache).__name__}")
        if memory is not None:
            self._check_input("memory", memory)
            if len(memory) != len(x):
                raise ValueError(f"memory: the batch size of x, {len(x)}, wanted, got {len(memory)}")
            if causal:
                raise ValueError("causal: False wanted, since the memory's positions are not those of x, got True")
        elif cache is not None and not causal:
            raise ValueError("cache: a causal attention wanted, got causal=False: later tokens would change the past")

        source = x if memory is None else memory
        earlier = cache.held(self) if cache is not None and memory is None else 0
        q = self._heads(self.query(x))
        # torch's own causal mask counts both from 0: right where there are no earlier keys, and quicker than a tensor.
        plain_causal = causal and not earlier and key_padding_mask is None and attn_mask is None
        # Before the cache takes anything: a call refused for its mask leaves it as it was.
        if plain_causal:
            mask = None
        else:
            mask = self._mask(q, earlier + source.shape[1], key_padding_mask, attn_mask, causal, memory is not None)
        if cache is None:
            k, v = self._keys_and_values(source)
        elif memory is None:
            k, v = cache.append(self, *self._keys_and_values(x))
        else:
            k, v = cache.remember(self, memory, lambda: self._keys_and_values(memory))

        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=plain_causal)
        return self.output(heads.transpose(1, 2).flatten(2))

    def _check_input(self, name: str, value: Tensor) -> None:
        check_tensor(name, value)
        if value.ndim != 3 or value.shape[2] != self.d_model:
            raise ValueError(f"{name}: shape (batch, length, {self.d_model}) wanted, got {tuple(value.shape)}")

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def _keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self._heads(self.key(source)), self._heads(self.value(source))

    def _mask(
        self,
        q: Tensor,
        n_keys: int,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        causal: bool,
        of_memory: bool,
    ) -> Tensor | None:
        """Return what `scaled_dot_product_attention` takes: bool, True for the pairs that count, or floating, added."""
        batch, _, n_queries, _ = q.shape
        allowed = added = None
        if attn_mask is not None:
            name = "attn_mask (memory_mask in a decoder)" if of_memory else "attn_mask"
            pairs = n_queries, n_keys
            check_mask(name, attn_mask, q, [pairs, (batch, *pairs), (batch, self.n_heads, *pairs)], floating=True)
            attn_mask = attn_mask.unsqueeze(1) if attn_mask.ndim == 3 else attn_mask
            if attn_mask.is_floating_point():
                added = attn_mask.to(q.dtype)
            else:
                allowed = ~attn_mask
        if key_padding_mask is not None:
            name = "key_padding_mask (memory_key_padding_mask in a decoder)" if of_memory else "key_padding_mask"
            check_mask(name, key_padding_mask, q, [(batch, n_keys)])
            unpadded = ~key_padding_mask[:, None, None, :]
            allowed = unpadded if allowed is None else allowed & unpadded
        if causal and n_queries > 1:
            past = torch.ones(n_queries, n_keys, dtype=torch.bool, device=q.device).tril(n_keys - n_queries)
            allowed = past if allowed is None else allowed & past
        if added is None:
            return allowed
        return added if allowed is None else added.masked_fill(~allowed, -math.inf)
