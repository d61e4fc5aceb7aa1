"""How far noise in the weights moves the output."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from addnorm_lib.chapters.ch04_postln_vs_preln.measures.gradients import checked_depths
from addnorm_lib.experiments.stacked import Family, chunks, collect, normal
from addnorm_lib.experiments.training import one_thread

Array = NDArray[np.float64]


@torch.no_grad()
def noise_amplification(
    placements: Sequence[str] = ("post", "pre", "deepnorm"),
    depths: Iterable[int] = (2, 4, 8, 16, 32, 64),
    *,
    noise: float = 0.003,
    seeds: Iterable[int] = range(8),
    batch: int = 8,
    tokens: int = 8,
    d_model: int = 64,
    **options: Any,
) -> dict[str, Array]:
    """Return how far parameter noise moves the output, E‖f(x, W + δ) − f(x, W)‖²/d_model, (S, N) a placement.

    δ is normal with standard deviation `noise` in every weight matrix of the layers. The output is behind the last
    norm, so that its own mean square is 1: a change near 2 says that nothing of it is left, and bends the curve.
    Liu et al. 2020 (Admin), section 4.2: O(L) for Post-LN, O(log L) for Pre-LN. Wang et al. 2022 (DeepNorm), section 4:
    bounded by a constant.
    """
    depths = checked_depths(depths)
    options = {"d_model": d_model, "d_ff": d_model, **options}
    rows: dict[str, list[list[Array]]] = {p: [] for p in placements}
    with one_thread():
        for chunk in chunks(seeds):
            family = Family(depths, chunk, options)
            shaken = {
                name: noise * normal(chunk, *value.shape[1:], salt=7 * i + 1)
                for i, (name, value) in enumerate(family.state.items())
                if value.ndim == 3 and name.startswith("encoder")
            }
            x = normal(chunk, batch, tokens, d_model, salt=1_000_003)
            for p in placements:
                changes = []
                for depth in depths:
                    network, state = family.member(p, depth)
                    moved = {name: value + shaken[name] if name in shaken else value for name, value in state.items()}
                    change = collect(network, moved, x)[0] - collect(network, state, x)[0]
                    changes.append(change.double().square().mean((1, 2, 3)).numpy())
                rows[p].append(changes)
    return {p: np.concatenate([np.stack(changes, 1) for changes in rows[p]]) for p in placements}
