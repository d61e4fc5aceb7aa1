"""Stacks of networks as they begin or as they were trained: the weights of several seeds in one tensor each.

With one seed all placements start from the same weights, and a stack of L layers is the first L layers of a deeper one.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.network_stack import build
from addnorm_lib.experiments.per_seed import State
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.results import Record, Run
from addnorm_lib.experiments.statistics import checked_seeds

_TOGETHER = 8  # seeds in one stack, which bounds the memory that 64 layers take


def chunks(seeds: Iterable[int]) -> list[list[int]]:
    """Return the seeds in parts that fit into memory as one stack. Raises ValueError when there is none."""
    seeds = checked_seeds(seeds)
    return [seeds[i : i + _TOGETHER] for i in range(0, len(seeds), _TOGETHER)]


def initial_weights(options: dict[str, Any], seeds: Sequence[int], dtype: str = "float32") -> State:
    """Return the initial weights of one `PlacementNet` a seed, each name's stacked to (S, …)."""
    run = Run(PlacementNet, options, dtype=dtype)
    parameters, _buffers = torch.func.stack_module_state([build(run, seed) for seed in seeds])
    return {name: value.detach() for name, value in parameters.items()}


def skeleton(options: dict[str, Any]) -> PlacementNet:
    """Return the network without weights of its own: its forward passes take them from a State."""
    with torch.device("meta"):
        return PlacementNet(**options)


class Family:
    """Networks of all placements and depths with the same weights, a stack of seeds at a time."""

    def __init__(self, depths: Iterable[int], seeds: Sequence[int], options: dict[str, Any]) -> None:
        self.options, self.seeds = options, seeds
        # Sandwich has every norm that any placement has, and norms draw no random numbers.
        self.state = initial_weights(
            {**options, "placement": "sandwich", "depth": max(depths), "final_norm": True}, seeds
        )

    def member(self, placement: str, depth: int, final_norm: bool | None = None) -> tuple[PlacementNet, State]:
        """Return a network of the family and its weights; DeepNorm's are its own, for its gains depend on depth."""
        options = {**self.options, "placement": placement, "depth": depth, "final_norm": final_norm}
        network = skeleton(options)
        if placement == "deepnorm":
            return network, initial_weights(options, self.seeds)
        return network, {name: self.state[name] for name, _parameter in network.named_parameters()}


def normal(seeds: Sequence[int], *shape: int, salt: int = 0) -> Tensor:
    """Return standard normal numbers (S, *shape), for every seed its own."""
    return torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(s + salt)) for s in seeds])


def collect(network: PlacementNet, state: State, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what the layers make of x (S, B, T, D), and everything that `PlacementNet.layers_stacked` notes."""
    notes: dict[str, Tensor] = {}
    return network.layers_stacked(state, x, notes.__setitem__), notes


@torch.no_grad()
def residual_states(network: PlacementNet, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the stream x_0 … x_L (S, L+1, B, T, D) and the second sublayers' sums (S, L, B·T, D), in float64."""
    _top, notes = collect(network, state, x)
    names = [f"encoder.layers.{l}.add_norm2" for l in range(len(network.encoder.layers))]
    states = torch.stack([x, *(notes[name].view(x.shape) for name in names)], 1)
    return states.double(), torch.stack([notes[f"{name}.sum"] for name in names], 1).double()


def stack_of_record(record: Record, trained: bool, samples: int) -> tuple[PlacementNet, State, Tensor]:
    """Return the networks of `record` and the inputs of their first layers for `samples` test sequences."""
    run = record.run
    if trained and not record.state:
        raise ValueError("record: one with weights wanted, train with keep_state=True")
    network = skeleton(dict(run.options))
    state = {name: torch.as_tensor(value) for name, value in record.state.items()}
    if not trained:
        state = initial_weights(dict(run.options), run.seeds, run.dtype)
    x = torch.from_numpy(datasets.load(run.data, **run.data_options).x_test[:samples])
    with torch.no_grad():
        return network, state, network.embed_stacked(state, x.expand(len(run.seeds), *x.shape))
