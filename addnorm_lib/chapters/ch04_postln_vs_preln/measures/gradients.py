"""How large the first step's gradients are, against the number of layers and from layer to layer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from addnorm_lib.experiments.per_seed import State, linear
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.stacked import Family, chunks, collect, normal
from addnorm_lib.experiments.statistics import Slope, slope
from addnorm_lib.experiments.training import one_thread

Array = NDArray[np.float64]


def checked_depths(depths: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of layers. Raises ValueError for fewer than two, and for what is none."""
    depths = tuple(depths)
    if len(depths) < 2 or min(depths) < 1:
        raise ValueError(f"depths: two or more numbers of layers wanted, got {depths!r}")
    return depths


@dataclass(frozen=True)
class Gradients:
    """Norms of the gradient of W₂ (the feed-forward's second matrix), one array (S, N) a placement.

    x (N,): what they are measured against, the number of layers L or the layer l, from 1.
    norm: of the loss's gradient. per_token: of the part that passes through one token, times the number of tokens, root
    mean square over the tokens; in the last layer that is the gradient of one token's own loss.
    similarity: mean cosine between the last layer's outputs of two tokens (1 for a lone token).
    """

    x: tuple[int, ...]
    norm: dict[str, Array]
    per_token: dict[str, Array]
    similarity: dict[str, Array]

    def slope(self, placement: str, of: Literal["norm", "per_token"] = "norm") -> Slope:
        """Return k of gradient ∝ x^k with its 95 % interval over the seeds."""
        return slope(np.log(self.x), np.log(getattr(self, of)[placement]))


def _w2_gradients(
    network: PlacementNet, state: State, seeds: Sequence[int], tokens: int, one_target: bool, layers: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Return the norm (S, N), the norm per token (S, N) and the tokens' similarity (S,) in `layers` (from 0)."""
    names = [f"encoder.layers.{l}.feed_forward" for l in layers]
    state = dict(state)
    for name in names:
        state[f"{name}.linear2.weight"] = state[f"{name}.linear2.weight"].clone().requires_grad_()
    width, classes = state["readout.weight"].shape[2], state["readout.weight"].shape[1]
    x = normal(seeds, 1, tokens, width, salt=1_000_003)
    top, notes = collect(network, state, x)
    logits = linear(state, "readout", top.flatten(1, 2))
    # Random targets: at initialisation the outputs know nothing of them anyway.
    targets = torch.stack(
        [torch.randint(classes, (tokens,), generator=torch.Generator().manual_seed(s)) for s in seeds]
    )
    if one_target:
        targets = targets[:, :1].expand(-1, tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / tokens
    weights = [state[f"{name}.linear2.weight"] for name in names]
    gradients = torch.autograd.grad(loss, [*weights, *(notes[name] for name in names)])
    norm = torch.stack([g.flatten(1).norm(dim=1) for g in gradients[: len(names)]], 1)
    # One token's gradient of W₂ is the outer product of the gradient at its update with its hidden features.
    outer = [
        tokens * u.norm(dim=2) * notes[f"{name}.hidden"].norm(dim=2)
        for name, u in zip(names, gradients[len(names) :], strict=True)
    ]
    per_token = torch.stack([o.square().mean(1).sqrt() for o in outer], 1)
    return norm.numpy().astype(float), per_token.detach().numpy().astype(float), _token_similarity(top)


def _token_similarity(x: Tensor) -> Array:
    """Return the mean cosine between different tokens of x (S, 1, T, D)."""
    unit, tokens = F.normalize(x.detach()[:, 0].double(), dim=2), x.shape[2]
    if tokens == 1:
        return np.ones(len(x))
    return ((unit.sum(1).square().sum(1) - tokens) / (tokens * (tokens - 1))).numpy()


def gradient_against_depth(
    placements: Sequence[str] = ("post", "pre"),
    depths: Iterable[int] = (2, 4, 8, 16, 32, 64),
    *,
    seeds: Iterable[int] = range(24),
    tokens: int = 1,
    one_target: bool = False,
    d_model: int = 64,
    final_norm: bool | None = None,
    **options: Any,
) -> Gradients:
    """Measure the gradient of the last layer's W₂ at initialisation, for stacks of different depths L.

    One sequence of standard normal tokens, cross-entropy with random targets (with `one_target`, the same for all
    tokens). Xiong et al. 2020, theorem 1: bounded by a constant in L for Post-LN, by a multiple of 1/√L for Pre-LN with
    a final norm. The theorem is about one token. The gradients of several add up, in step when the tokens have become
    alike and want the same: then `norm` bends upwards with depth, and `per_token` does not. `options` go to
    PlacementNet.

    Raises ValueError for fewer than two depths or no seed.
    """
    depths = checked_depths(depths)
    options = {"d_model": d_model, "d_ff": d_model, "vocabulary": d_model, **options}
    rows: dict[str, list[list[tuple[Array, Array, Array]]]] = {p: [] for p in placements}
    with one_thread():
        for chunk in chunks(seeds):
            family = Family(depths, chunk, options)
            for p in placements:
                rows[p].append(
                    [
                        _w2_gradients(*family.member(p, depth, final_norm), chunk, tokens, one_target, [depth - 1])
                        for depth in depths
                    ]
                )

    def table(p: str, i: int) -> Array:
        return np.concatenate([np.stack([row[i].reshape(-1) for row in chunk], 1) for chunk in rows[p]])

    return Gradients(depths, *({p: table(p, i) for p in placements} for i in range(3)))


def gradient_by_layer(
    placements: Sequence[str] = ("post", "pre"),
    depth: int = 32,
    *,
    seeds: Iterable[int] = range(24),
    tokens: int = 1,
    one_target: bool = False,
    d_model: int = 64,
    final_norm: bool | None = None,
    **options: Any,
) -> Gradients:
    """Measure the gradient of W₂ in every layer l = 1…L of stacks of one depth; otherwise as `gradient_against_depth`.

    Xiong et al. 2020, section 3.3. `similarity` (S, 1) belongs to the last layer.
    """
    options = {"d_model": d_model, "d_ff": d_model, "vocabulary": d_model, **options}
    rows: dict[str, list[tuple[Array, Array, Array]]] = {p: [] for p in placements}
    with one_thread():
        for chunk in chunks(seeds):
            family = Family([depth], chunk, options)
            for p in placements:
                rows[p].append(
                    _w2_gradients(*family.member(p, depth, final_norm), chunk, tokens, one_target, range(depth))
                )
    columns = [{p: np.concatenate([r[i] for r in rows[p]]) for p in placements} for i in range(3)]
    columns[2] = {p: value[:, None] for p, value in columns[2].items()}
    return Gradients(tuple(range(1, depth + 1)), *columns)
