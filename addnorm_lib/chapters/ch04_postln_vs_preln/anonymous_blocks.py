"""Blocks without a name: their placement shows only in what they do."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from addnorm_lib.layers import residual_block

Sublayer = Callable[[Tensor], Tensor]


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


_PLACEMENTS = {"A": "branch", "B": "post", "C": "sandwich", "D": "pre"}


class AnonymousBlock:
    """One residual block with its LayerNorm (ε = 1e-5, no weight, no bias), called as `block(x, sublayer)`.

    It is one of `y = LN(x + F(x))` (post), `x + F(LN(x))` (pre), `x + LN(F(LN(x)))` (sandwich) and `x + LN(F(x))`
    (branch); which of them, it does not say.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"block {self.name}"

    def __call__(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Return y (..., D) for x (..., D); `sublayer` is F, any function that keeps the shape."""
        return residual_block(_PLACEMENTS[self.name], x, sublayer, _norm)


def anonymous_blocks() -> dict[str, AnonymousBlock]:
    """Return the four blocks by their letters, "A" to "D": one of each placement, in no telling order."""
    return {name: AnonymousBlock(name) for name in _PLACEMENTS}
