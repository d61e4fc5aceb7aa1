"""Where the norm stands in a residual block: the one table that layers, networks, panels and exercises read."""

import operator
from collections.abc import Callable
from typing import Literal, NamedTuple

from torch import Tensor

Placement = Literal["post", "pre", "sandwich", "branch"]
Map = Callable[[Tensor], Tensor]


class Places(NamedTuple):
    """Whether a norm stands before the sublayer, behind it, and behind the sum."""

    before: bool = False
    behind: bool = False
    after_sum: bool = False


PLACEMENTS: dict[Placement, Places] = {
    "post": Places(after_sum=True),
    "pre": Places(before=True),
    "sandwich": Places(before=True, behind=True),
    "branch": Places(behind=True),
}
"""post: Vaswani et al. 2017, section 3.1. pre: Xiong et al. 2020, section 3.1. sandwich: Ding et al. 2021, section 2.3.
branch: as in OLMo 2."""


def residual_block(
    placement: Placement,
    x: Tensor,
    sublayer: Map,
    norm: Map,
    *,
    outer_norm: Map | None = None,
    add: Callable[[Tensor, Tensor], Tensor] = operator.add,
) -> Tensor:
    """Return one residual block's output, of the shape of x (..., D), in plain operators.

    With N the norm and F the sublayer::

        post      y = N(x + F(x))
        pre       y = x + F(N(x))
        sandwich  y = x + N'(F(N(x)))
        branch    y = x + N(F(x))

    `outer_norm` is N', else N again; `add(x, update)` is the sum. `AddNorm` is the same on an open sum, where the sum
    and the norm that follows it are one pass over memory. Raises KeyError for an unknown placement.
    """
    places = PLACEMENTS[placement]
    update = sublayer(norm(x) if places.before else x)
    if places.behind:
        update = (outer_norm or norm)(update)
    total = add(x, update)
    return norm(total) if places.after_sum else total
