"""The norms of (B, T, D) that chapter 3's panels compare: what PyTorch offers, traps included."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from addnorm_lib.layers import NORMS as TABLE
from addnorm_lib.messages import N_

EPS = 1e-5
BATCH, TOKENS, FEATURES = 2, 3, 4
Norm = Callable[[Tensor], Tensor]


def _channels_second(norm: Norm) -> Norm:
    """Return the norm of (B, T, D) that `norm`, made for (B, D, T), is."""
    return lambda x: norm(x.transpose(1, 2)).transpose(1, 2)


def running(features: int) -> tuple[Tensor, Tensor]:
    """Return running statistics of batch norm as they begin: mean 0, variance 1."""
    return torch.zeros(features, dtype=torch.float64), torch.ones(features, dtype=torch.float64)


NORMS: dict[str, tuple[str, Norm]] = {
    "layer": (N_("LayerNorm(D), the Transformer's"), functools.partial(TABLE["layer"].function, eps=EPS)),
    "rms": (N_("RMSNorm(D)"), functools.partial(TABLE["rms"].function, eps=EPS)),
    "batch": (
        N_("BatchNorm1d(D), training"),
        _channels_second(lambda x: F.batch_norm(x, None, None, training=True)),
    ),
    "batch, eval": (
        N_("BatchNorm1d(D), evaluation"),
        _channels_second(lambda x: F.batch_norm(x, *running(x.shape[1]))),
    ),
    "instance": (N_("InstanceNorm1d(D), over time"), _channels_second(F.instance_norm)),
    "group": (N_("GroupNorm(2, D), over time too"), _channels_second(lambda x: F.group_norm(x, 2))),
    "group of a token": (
        N_("GroupNorm(2, D), token by token"),
        lambda x: F.group_norm(x.flatten(0, 1), 2).unflatten(0, x.shape[:2]),
    ),
    "layer of a sequence": (N_("LayerNorm((T, D)), a trap"), lambda x: F.layer_norm(x, x.shape[1:])),
}
