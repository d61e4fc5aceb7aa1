"""Depth: plain and residual networks that differ in nothing but the sum, and what their depth does to them.

The network is a stack of pre-activation blocks (He et al. 2016, section 3), as an MLP:

    F(h) = W · φ(norm(h))                    plain:     h ← F(h)
                                             residual:  h ← shortcut · h + branch · F(h)

between a linear layer from the inputs and norm, φ and a linear layer to the classes. Both kinds have the same weights,
so with one seed they start from the same numbers.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.results import Record, Run, split_settings
from addnorm_lib.experiments.training import Note, one_thread

Array = NDArray[np.float64]
Kind = Literal["plain", "residual"]
Norm = Literal["batch", "layer", "rms"] | None

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


def _make_norm(norm: Norm, width: int) -> nn.Module:
    if norm is None:
        return nn.Identity()
    return {"batch": BatchNorm, "layer": nn.LayerNorm, "rms": nn.RMSNorm}[norm](width, eps=1e-5)


class Branch(nn.Module):
    """F(h) = W · φ(norm(h)) on h (B, D)."""

    def __init__(self, width: int, norm: Norm, activation: str) -> None:
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

    kind: "plain" or "residual". norm: "batch", "layer", "rms" or None. shortcut: its factor (He et al. 2016, 3.1).
    branch: factor on F(h), or "1/sqrt(L)" with L = depth (De & Smith 2020). activation: "relu", "tanh" or "linear".
    init: standard deviation of W, √(2/D) ("he", He et al. 2015b) or √(1/D) ("lecun"), or "orthogonal".

    Raises ValueError on an unknown kind, norm, activation, init or branch, on depth or width < 1, and on a shortcut
    other than 1 for a plain net.
    """

    def __init__(
        self,
        kind: Kind = "residual",
        depth: int = 8,
        width: int = 64,
        norm: Norm = "batch",
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
            ("norm", norm, ("batch", "layer", "rms", None)),
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

        def linear(name: str, a: Tensor) -> Tensor:
            return torch.bmm(a, state[f"{name}.weight"].transpose(1, 2))

        def normalised(name: str, h: Tensor) -> Tensor:
            if self.norm_name is None:
                return h
            weight = state[f"{name}.weight"]
            if self.norm_name == "rms":
                return F.rms_norm(h, h.shape[2:], eps=1e-5) * weight.unsqueeze(1)
            bias = state[f"{name}.bias"]
            if self.norm_name == "layer":
                return torch.addcmul(bias.unsqueeze(1), F.layer_norm(h, h.shape[2:]), weight.unsqueeze(1))
            mean, var = state[f"{name}.running_mean"].view(-1), state[f"{name}.running_var"].view(-1)
            channels = h.transpose(0, 1).reshape(h.shape[1], -1)
            y = F.batch_norm(channels, mean, var, weight.view(-1), bias.view(-1), self.training)
            return y.view(h.shape[1], *h.shape[::2]).transpose(0, 1)

        h = linear("stem", x)
        for i, block in enumerate(self.blocks):
            name = f"blocks.{i}"
            update = linear(f"{name}.branch.linear", self.activation(normalised(f"{name}.branch.norm", h)))
            note(f"{name}.branch", update)
            if block.branch_factor != 1:
                update = block.branch_factor * update
            h = update if block.shortcut is None else torch.add(update, h, alpha=block.shortcut)
            note(name, h)
        return linear("readout", self.activation(normalised("norm", h))) + state["readout.bias"].unsqueeze(1)


def depth_runs(
    kinds: Iterable[str] = ("plain", "residual"), depths: Iterable[int] = (4, 24), **settings: Any
) -> list[Run]:
    """Return one Run of `DepthNet` on the digits for every kind and depth.

    `settings` are fields of Run (`lr`, `steps`, `seeds`, ...) or, failing that, options of DepthNet (`norm`, ...).
    """
    options, fields = split_settings(settings)
    depths = list(depths)
    return [Run(DepthNet, {"kind": kind, "depth": depth, **options}, **fields) for kind in kinds for depth in depths]


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


def _check_seeds(seeds: Iterable[int]) -> list[int]:
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds: one or more wanted, got none")
    return seeds


@torch.no_grad()
def variance_per_block(
    depth: int, *, width: int = 256, batch: int = 128, seeds: Iterable[int] = range(5), **options: Any
) -> Array:
    """Return the variance after 0…L blocks at initialisation, (S, L+1), for inputs of variance 1.

    `options` go to DepthNet. De & Smith 2020, section 2: 2^l without a norm, l+1 with one.
    """
    rows = []
    with one_thread():
        for seed in _check_seeds(seeds):
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
        for seed in _check_seeds(seeds):
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
        for seed in _check_seeds(seeds):
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


@dataclass(frozen=True)
class Slope:
    """A fitted slope and its 95 % confidence interval over the seeds."""

    value: float
    low: float
    high: float


def slope(x: ArrayLike, y: ArrayLike) -> Slope:
    """Fit a line to every row of y (S, N) over x (N,): the mean slope and its Student t interval over the S rows.

    Raises ValueError with fewer than two rows or points, or when something is not finite.
    """
    from scipy.stats import t

    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if y.ndim != 2 or x.shape != y.shape[1:] or min(y.shape) < 2:
        raise ValueError(f"x, y: shapes (N,) and (S, N) with two or more of each wanted, got {x.shape}, {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("x, y: finite numbers wanted")
    centred = x - x.mean()
    slopes = y @ centred / (centred @ centred)
    half = t.ppf(0.975, len(slopes) - 1) * slopes.std(ddof=1) / math.sqrt(len(slopes))
    return Slope(float(slopes.mean()), float(slopes.mean() - half), float(slopes.mean() + half))


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
