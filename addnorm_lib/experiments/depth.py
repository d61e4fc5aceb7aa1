"""Plain and residual networks that differ in nothing but the sum.

The network is a stack of pre-activation blocks (He et al. 2016, section 3), as an MLP:

    F(h) = W · φ(norm(h))                    plain:     h ← F(h)
                                             residual:  h ← shortcut · h + branch · F(h)

between a linear layer from the inputs and norm, φ and a linear layer to the classes. Both kinds have the same weights,
so with one seed they start from the same numbers.
"""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from addnorm_lib.experiments.network_stack import Note
from addnorm_lib.experiments.per_seed import EPS, linear, normalised
from addnorm_lib.experiments.results import Run, split_settings
from addnorm_lib.layers import NORMS
from addnorm_lib.layers.norms import make_norm

Kind = Literal["plain", "residual"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "linear": lambda h: h}
_GAINS = {"he": math.sqrt(2), "lecun": 1.0, "orthogonal": 1.0}


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over x (B, D) whose statistics can be held constant in the backward pass."""

    detach_statistics = False

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input; with `detach_statistics`, mean and variance get no gradient."""
        if not self.detach_statistics:
            return super().forward(input)
        var, mean = torch.var_mean(input.detach(), dim=0, correction=0)
        return (input - mean) * (var + self.eps).rsqrt() * self.weight + self.bias


def _make_norm(norm: str | None, width: int) -> nn.Module:
    if norm is None:
        return nn.Identity()
    return BatchNorm(width, eps=EPS) if norm == "batch" else make_norm(width, norm, EPS)


class Branch(nn.Module):
    """F(h) = W · φ(norm(h)) on h (B, D)."""

    def __init__(self, width: int, norm: str | None, activation: str) -> None:
        super().__init__()
        self.norm = _make_norm(norm, width)
        self.linear = nn.Linear(width, width, bias=False)
        self.activation = _ACTIVATIONS[activation]

    def forward(self, h: Tensor) -> Tensor:
        """Return F(h), of the shape of h."""
        return self.linear(self.activation(self.norm(h)))


class Block(nn.Module):
    """`shortcut · h + branch_factor · F(h)`; a plain block has no shortcut."""

    def __init__(self, branch: Branch, shortcut: float | None, branch_factor: float) -> None:
        super().__init__()
        self.branch, self.shortcut, self.branch_factor = branch, shortcut, branch_factor

    def forward(self, h: Tensor) -> Tensor:
        """Return the block's output, of the shape of h."""
        update = self.branch(h)
        if self.branch_factor != 1:
            update = self.branch_factor * update
        return update if self.shortcut is None else self.shortcut * h + update


class DepthNet(nn.Module):
    """A stack of `depth` blocks of `width` features; x (B, n_inputs) to logits (B, n_classes).

    kind: "plain" or "residual". norm: "batch", None or a name in `layers.NORMS`: "layer", "rms". shortcut: its factor
    (He et al. 2016, 3.1). branch: factor on F(h), or "1/sqrt(L)" with L = depth (De & Smith 2020). activation:
    "relu", "tanh" or "linear". init: standard deviation of W, √(2/D) ("he", He et al. 2015b) or √(1/D) ("lecun"), or
    "orthogonal".

    Raises ValueError on an unknown kind, norm, activation, init or branch, on depth or width < 1, and on a shortcut
    other than 1 for a plain net.
    """

    def __init__(
        self,
        kind: Kind = "residual",
        depth: int = 8,
        width: int = 64,
        norm: str | None = "batch",
        shortcut: float = 1.0,
        branch: float | Literal["1/sqrt(L)"] = 1.0,
        activation: str = "relu",
        init: str = "he",
        n_inputs: int = 64,
        n_classes: int = 10,
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("kind", kind, ("plain", "residual")),
            ("norm", norm, ("batch", *NORMS, None)),
            ("activation", activation, tuple(_ACTIVATIONS)),
            ("init", init, tuple(_GAINS)),
        ):
            if value not in choices:
                raise ValueError(f"{name}: one of {', '.join(map(repr, choices))} wanted, got {value!r}")
        for name, size in {"depth": depth, "width": width, "n_inputs": n_inputs, "n_classes": n_classes}.items():
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}: a whole number of at least 1 wanted, got {size!r}")
        if isinstance(branch, str) and branch != "1/sqrt(L)":
            raise ValueError(f"branch: a number or '1/sqrt(L)' wanted, got {branch!r}")
        if kind == "plain" and shortcut != 1:
            raise ValueError(f"shortcut: a plain net has none to scale, got {shortcut!r}")
        factor = depth**-0.5 if branch == "1/sqrt(L)" else float(branch)
        self.kind, self.norm_name = kind, norm
        self.stem = nn.Linear(n_inputs, width, bias=False)
        self.blocks = nn.ModuleList(
            Block(Branch(width, norm, activation), shortcut if kind == "residual" else None, factor)
            for _ in range(depth)
        )
        self.norm = _make_norm(norm, width)
        self.activation = _ACTIVATIONS[activation]
        self.readout = nn.Linear(width, n_classes)
        nn.init.normal_(self.stem.weight, std=n_inputs**-0.5)
        for block in self.blocks:
            weight = block.branch.linear.weight
            if init == "orthogonal":
                nn.init.orthogonal_(weight)
            else:
                nn.init.normal_(weight, std=_GAINS[init] * width**-0.5)

    def forward(self, x: Tensor, without: Collection[int] = ()) -> Tensor:
        """Return the logits; the blocks numbered in `without` are left out (of a residual one the shortcut stays)."""
        h = self.stem(x)
        for i, block in enumerate(self.blocks):
            if i not in without:
                h = block(h)
            elif block.shortcut is not None:
                h = block.shortcut * h
        return self.readout(self.activation(self.norm(h)))

    def forward_stacked(self, state: dict[str, Tensor], x: Tensor, note: Note) -> Tensor:
        """Return the logits (S, B, n_classes) of S networks with stacked weights (`training`'s protocol), x (S, B, D).

        BN of all networks is one call on (B, S·D): the features of every network are channels of their own.
        """

        def behind_norm(name: str, h: Tensor) -> Tensor:
            if self.norm_name != "batch":
                return normalised(self.norm_name, state, name, h)
            weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
            mean, var = state[f"{name}.running_mean"].view(-1), state[f"{name}.running_var"].view(-1)
            channels = h.transpose(0, 1).reshape(h.shape[1], -1)
            y = F.batch_norm(channels, mean, var, weight.view(-1), bias.view(-1), self.training)
            return y.view(h.shape[1], *h.shape[::2]).transpose(0, 1)

        h = linear(state, "stem", x)
        for i, block in enumerate(self.blocks):
            name = f"blocks.{i}"
            update = linear(state, f"{name}.branch.linear", self.activation(behind_norm(f"{name}.branch.norm", h)))
            note(f"{name}.branch", update)
            if block.branch_factor != 1:
                update = block.branch_factor * update
            h = update if block.shortcut is None else torch.add(update, h, alpha=block.shortcut)
            note(name, h)
        top = self.activation(behind_norm("norm", h))
        # Not as one baddbmm, whose last bit may differ: a long training remembers it.
        return torch.bmm(top, state["readout.weight"].transpose(1, 2)) + state["readout.bias"].unsqueeze(1)


def depth_runs(
    kinds: Iterable[str] = ("plain", "residual"), depths: Iterable[int] = (4, 24), **settings: Any
) -> list[Run]:
    """Return one Run of `DepthNet` on the digits for every kind and depth.

    `settings` are fields of Run (`lr`, `steps`, `seeds`, ...) or, failing that, options of DepthNet (`norm`, ...).
    """
    options, fields = split_settings(settings)
    depths = list(depths)
    return [Run(DepthNet, {"kind": kind, "depth": depth, **options}, **fields) for kind in kinds for depth in depths]
