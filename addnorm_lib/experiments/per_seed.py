"""Layers of many networks at once, each seed with its own weights: every weight is stacked to (S, …)."""

import torch
from torch import Tensor

from addnorm_lib.layers import NORMS

State = dict[str, Tensor]
EPS = 1e-5


def linear(state: State, name: str, a: Tensor) -> Tensor:
    """Return the linear map called `name`, with its bias if it has one: (S, N, in) to (S, N, out)."""
    weight, bias = state[f"{name}.weight"].transpose(1, 2), state.get(f"{name}.bias")
    return torch.bmm(a, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), a, weight)


def normalised(norm: str | None, state: State, name: str, a: Tensor) -> Tensor:
    """Return a (S, N, D) behind the norm called `name`, of the kind `norm`; a itself where that is None."""
    if norm is None:
        return a
    y = NORMS[norm].function(a, EPS)
    weight, bias = (state.get(f"{name}.{part}") for part in ("weight", "bias"))
    if weight is None:
        return y
    return y * weight.unsqueeze(1) if bias is None else torch.addcmul(bias.unsqueeze(1), y, weight.unsqueeze(1))
