"""What depth does to plain and residual networks: at initialisation, and to trained ones block by block."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.depth import BatchNorm, DepthNet
from addnorm_lib.experiments.results import Record
from addnorm_lib.experiments.statistics import checked_seeds, slope
from addnorm_lib.experiments.training import one_thread

__all__ = [
    "Lesion",
    "PathGradients",
    "deepen",
    "gradient_correlation",
    "gradient_growth",
    "lesion",
    "path_gradients",
    "slope",
    "trained_network",
    "variance_per_block",
]

Array = NDArray[np.float64]


def trained_network(record: Record, index: int) -> DepthNet:
    """Return the trained network of the `index`-th seed, in evaluation mode.

    Raises ValueError when the record has no weights (`Run.keep_state`).
    """
    if not record.state:
        raise ValueError("record: one with weights wanted, train with keep_state=True")
    network = record.run.build().to(getattr(torch, record.run.dtype))
    network.load_state_dict({name: torch.as_tensor(value[index]) for name, value in record.state.items()})
    return network.eval()


class Lesion(NamedTuple):
    """Test accuracy of the whole networks (S,), and without each of the L blocks (S, L)."""

    whole: Array
    without: Array


@torch.no_grad()
def lesion(record: Record) -> Lesion:
    """Delete one block after the other from the trained networks of `record` and measure the test accuracy.

    A deleted residual block leaves its shortcut; a deleted plain block hands its input on. Veit et al. 2016,
    section 4.1. Raises ValueError when the record has no weights.
    """
    dataset = datasets.load(record.run.data, **record.run.data_options)
    x, y = torch.from_numpy(dataset.x_test), torch.from_numpy(dataset.y_test)
    whole, without = [], []
    with one_thread():
        for i in range(len(record.run.seeds)):
            network = trained_network(record, i)
            inputs = x.to(network.stem.weight.dtype)

            def accuracy(*removed: int, network: DepthNet = network, inputs: Tensor = inputs) -> float:
                return float((network(inputs, without=removed).argmax(1) == y).double().mean())

            whole.append(accuracy())
            without.append([accuracy(block) for block in range(len(network.blocks))])
    return Lesion(np.array(whole), np.array(without))


class PathGradients(NamedTuple):
    """How gradient depends on path length k = 0…L.

    per_path (S, L+1): root mean square norm of the gradient that reaches the first block along one path of k branches.
    share (S, L+1): the part of all paths' gradient (norm × number of paths) that paths of length k carry.
    paths (L+1,): the part of all 2^L paths that have length k (binomial).
    """

    per_path: Array
    share: Array
    paths: Array

    def mean_length(self) -> Array:
        """Return the mean length of a path, weighted by gradient (S,); without the weights it is L/2."""
        return self.share @ np.arange(len(self.paths))


def path_gradients(record: Record, samples: int = 24, batch: int = 32, seed: int = 0) -> PathGradients:
    """Follow the loss's gradient down single paths of every length through the trained residual networks of `record`.

    A path takes the branch in k of the L blocks and the shortcut in the others; `samples` random paths of each length,
    `batch` test samples. Veit et al. 2016, section 4.3. Raises ValueError when the record has no weights or is plain.
    """
    if record.run.options.get("kind", "residual") != "residual":
        raise ValueError("record: residual networks wanted, a plain one has a single path")
    if samples < 1 or batch < 1:
        raise ValueError(f"samples, batch: at least 1 wanted, got {samples}, {batch}")
    dataset = datasets.load(record.run.data, **record.run.data_options)
    y = torch.from_numpy(dataset.y_test[:batch])
    norms = []
    with one_thread():
        for i in range(len(record.run.seeds)):
            network = trained_network(record, i)
            dtype = network.stem.weight.dtype
            depth = len(network.blocks)
            generator = np.random.default_rng([seed, i])
            ranks = generator.random((depth + 1, samples, depth)).argsort(axis=2)
            takes = torch.from_numpy(ranks < np.arange(depth + 1)[:, None, None]).flatten(0, 1)  # (paths, L)
            with torch.no_grad():
                states = [network.stem(torch.from_numpy(dataset.x_test[:batch]).to(dtype))]
                for block in network.blocks:
                    states.append(block(states[-1]))
            top = states[-1].requires_grad_()
            logits = network.readout(network.activation(network.norm(top)))
            (gradient,) = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), top)
            flow = gradient.expand(len(takes), *gradient.shape).clone()
            for l in reversed(range(depth)):
                block = network.blocks[l]
                _output, backwards = torch.func.vjp(block.branch, states[l].detach())
                through = takes[:, l]
                branch = torch.vmap(lambda v, backwards=backwards: backwards(v)[0])(flow[through])
                flow[through] = block.branch_factor * branch
                flow[~through] *= block.shortcut
            squares = (flow.double() ** 2).sum(-1).reshape(depth + 1, samples * len(y)).mean(1)
            norms.append(squares.sqrt().detach().numpy())
    per_path = np.array(norms)
    counts = np.array([math.comb(depth, k) for k in range(depth + 1)], dtype=np.float64)
    weighted = per_path * counts
    return PathGradients(per_path, weighted / weighted.sum(axis=1, keepdims=True), counts / counts.sum())


def _initialised(seed: int, **options: Any) -> DepthNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DepthNet(**options).double()


def _inputs(seed: int, batch: int, width: int) -> Tensor:
    return torch.randn(batch, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@torch.no_grad()
def variance_per_block(
    depth: int, *, width: int = 256, batch: int = 128, seeds: Iterable[int] = range(5), **options: Any
) -> Array:
    """Return the variance after 0…L blocks at initialisation, (S, L+1), for inputs of variance 1.

    `options` go to DepthNet. De & Smith 2020, section 2: 2^l without a norm, l+1 with one.
    """
    rows = []
    with one_thread():
        for seed in checked_seeds(seeds):
            network = _initialised(seed, depth=depth, width=width, n_inputs=width, **options)
            h = _inputs(seed, batch, width)
            variances = [h.var(correction=0)]
            for block in network.blocks:
                h = block(h)
                variances.append(h.var(correction=0))
            rows.append(torch.stack(variances).numpy())
    return np.array(rows)


def gradient_growth(
    depth: int, *, width: int = 512, batch: int = 512, seeds: Iterable[int] = range(5), **options: Any
) -> Array:
    """Return the norm of the gradient at the input of each block and at the top, (S, L+1), at initialisation.

    A random gradient of norm 1 enters at the top; entry l is ‖∂/∂h_l‖. `options` go to DepthNet. With batch norm and
    ReLU, plain blocks multiply it by √(π/(π−1)) = 1.2112 each (Yang et al. 2019, section 3), going down.
    """
    rows = []
    with one_thread():
        for seed in checked_seeds(seeds):
            network = _initialised(seed, depth=depth, width=width, n_inputs=width, **options).float()
            states = [_inputs(seed, batch, width).float().requires_grad_()]
            for block in network.blocks:
                states.append(block(states[-1]))
            top = _inputs(seed + 1_000_003, batch, width).float()
            gradients = torch.autograd.grad(states[-1], states, top / top.norm())
            rows.append([float(g.double().norm()) for g in gradients])
    return np.array(rows)


def gradient_correlation(
    depth: int, *, width: int = 256, batch: int = 64, seeds: Iterable[int] = range(5), **options: Any
) -> Array:
    """Return how alike the gradients of different inputs are after 1…L blocks at initialisation, (S, L).

    For a random linear readout of h_l: the mean cosine between ∂f/∂x_a and ∂f/∂x_b over all pairs a ≠ b of a batch of
    random inputs. 1: all inputs agree; 0: shattered, white noise (Balduzzi et al. 2017, section 3). The statistics of
    batch norm are held constant in the backward pass: through them the gradients of a batch sum to zero, which would
    force the mean cosine near −1/(batch−1) at any depth. `options` go to DepthNet.
    """
    rows = []
    with one_thread():
        for seed in checked_seeds(seeds):
            network = _initialised(seed, depth=depth, width=width, n_inputs=width, **options)
            for module in network.modules():
                if isinstance(module, BatchNorm):
                    module.detach_statistics = True
            readout = _inputs(seed + 1_000_003, 1, width)
            x = _inputs(seed, batch, width).requires_grad_()
            h, row = x, []
            for block in network.blocks:
                h = block(h)
                (g,) = torch.autograd.grad((h @ readout.T).sum(), x, retain_graph=True)
                unit = F.normalize(g, dim=1)
                row.append(float((unit.sum(0).square().sum() - batch) / (batch * (batch - 1))))
            rows.append(row)
    return np.array(rows)


@torch.no_grad()
def deepen(network: DepthNet, extra: int) -> DepthNet:
    """Return a deeper copy of a plain network without norm that computes the same function (He et al. 2015, section 1).

    `extra` blocks are added at the top with W = identity. A block computes W·relu(h), and what follows the top is
    again a relu: relu(relu(h)) = relu(h), so the outputs are equal bit for bit. Raises ValueError for other networks.
    """
    if network.kind != "plain" or network.norm_name is not None or network.activation is not torch.relu:
        raise ValueError("network: a plain ReLU network without norm wanted")
    if extra < 0:
        raise ValueError(f"extra: at least 0 wanted, got {extra}")
    width = network.stem.out_features
    sizes = {"n_inputs": network.stem.in_features, "n_classes": network.readout.out_features}
    deep = DepthNet("plain", len(network.blocks) + extra, width, norm=None, **sizes).to(network.stem.weight.dtype)
    for block in deep.blocks:
        block.branch.linear.weight.copy_(torch.eye(width))
    deep.load_state_dict(network.state_dict(), strict=False)
    return deep
