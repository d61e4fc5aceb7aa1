"""The keys and values that attention has computed already, for decoding token by token."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from addnorm_lib.layers.checks import check_count


class KVCache:
    """The keys and values of one batch of sequences in all attentions of one model.

    Give the same cache to every call of a causal `Encoder`, a `Decoder` or one of their layers, each time with the new
    tokens only. Self-attention appends their keys and values; attention to the encoder's output (`memory`) keeps those
    of the first call. The outputs are those of one call with all tokens. New sequences need a new cache, and so does
    a call after one that failed midway. Layers are told apart by their attention modules: two that share one cannot be
    cached.

    It grows by concatenation, so that gradients pass through it; decode under `torch.no_grad()` where none are wanted.

    Args:
        max_length: the number of positions that it may hold.
    """

    def __init__(self, max_length: int) -> None:
        check_count("max_length", max_length)
        self.max_length = max_length
        self._own: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._memory: dict[nn.Module, tuple[Tensor, Tensor, Tensor]] = {}

    @property
    def length(self) -> int:
        """The number of positions held: the position of the next token, counted from 0."""
        return max((k.shape[2] for k, _ in self._own.values()), default=0)

    def __repr__(self) -> str:
        """Say how full it is."""
        return f"KVCache(max_length={self.max_length}, length={self.length})"

    def held(self, attention: nn.Module) -> int:
        """Return the number of positions held of `attention`."""
        return self._own[attention][0].shape[2] if attention in self._own else 0

    def append(self, attention: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return all keys and values (B, n_heads, S, d_head) of `attention`: those held, then k and v, now held too.

        Raises ValueError for another batch size, for more positions than `max_length`, and where attentions are not
        called in turn, each with the same tokens: another model's, or one layer by itself.
        """
        new, order = k.shape[2], list(self._own)
        turn, before = len(order), self.held(attention)
        if attention in self._own:
            old_k, old_v = self._own[attention]
            if len(old_k) != len(k):
                raise ValueError(f"cache: the batch size that it holds, {len(old_k)}, wanted, got {len(k)}")
            turn = order.index(attention)
            k, v = torch.cat((old_k, k), dim=2), torch.cat((old_v, v), dim=2)
        if before + new > self.max_length:
            raise ValueError(f"cache: at most {self.max_length} positions (max_length) wanted, got {before + new}")
        lengths = [keys.shape[2] for keys, _ in self._own.values()]
        if lengths != [before + new] * turn + [before] * (len(order) - turn):
            raise ValueError(
                f"cache: one filled by whole calls of this model wanted; this layer's {before} positions and {new} new "
                f"ones do not go with the {max(lengths)} that other layers hold; use a new KVCache"
            )
        self._own[attention] = k, v
        return k, v

    def remember(
        self, attention: nn.Module, memory: Tensor, compute: Callable[[], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return `attention`'s keys and values of `memory`, computed at the first call only.

        Raises ValueError where they are those of another tensor.
        """
        if attention not in self._memory:
            self._memory[attention] = memory, *compute()
        held, k, v = self._memory[attention]
        if held is not memory:
            raise ValueError("memory: the tensor of the cache's first call wanted, got another; use a new KVCache")
        return k, v
