"""Placement: Transformers that differ in nothing but where the norm stands, and what that does at initialisation.

With one seed all placements start from the same weights, and a stack of L layers is the first L layers of a deeper one.
The layers are the library's (`addnorm_lib.layers`); only the forward pass of many seeds at once is written out here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.depth import Slope, slope
from addnorm_lib.experiments.results import Record, Run
from addnorm_lib.experiments.training import Note, build, one_thread
from addnorm_lib.layers import Encoder, MultiHeadAttention, deepnorm, deepnorm_init_

Array = NDArray[np.float64]
Placement = Literal["post", "pre", "sandwich", "branch", "scaled", "deepnorm"]
Norm = Literal["layer", "rms"] | None
State = dict[str, Tensor]

_LIBRARY = {"scaled": "pre", "deepnorm": "post"}
_TOGETHER = 8  # seeds in one stack, which bounds the memory that 64 layers take


class PlacementNet(nn.Module):
    """Tokens (B, T) → embedding + position → `depth` encoder layers → logits (B, T, vocabulary).

    Args:
        placement: "post", "pre", "sandwich" or "branch" as in `addnorm_lib.layers.AddNorm`; "scaled": Pre-LN whose
            norms' outputs are multiplied by 1/√l in layer l = 1…L (LayerNorm scaling, Sun et al. 2025, section 4);
            "deepnorm": Post-LN with the shortcut times (2L)^¼ and initial weights times (8L)^−¼ (Wang et al. 2022).
        depth: the number of layers L, each with two sublayers.
        d_model, n_heads, d_ff: as in `addnorm_lib.layers.EncoderLayer`.
        norm: "layer", "rms" or None, for no norm at all.
        final_norm: whether a norm follows the last layer; None means where the stack does not end with one.
        alpha: scales the shortcuts; "deepnorm" brings its own.
        residual: whether there are shortcuts; without them post is LN(F(x)) and pre is F(LN(x)).
        init: "xavier", the library's, or "simplified", the network of Xiong et al. 2020, section 3.2: W_Q = W_K = 0, so
            that attention takes the mean, W_O = I, all other weights N(0, 2/(fan in + fan out)). It wants n_heads = 1.
        causal: whether a position sees only itself and earlier ones.
        n_tokens: the longest sequence; vocabulary: the number of tokens.

    Embeddings and positions are N(0, ½), so that their sum has variance 1. Raises ValueError for what no network fits.
    """

    def __init__(
        self,
        placement: Placement = "post",
        depth: int = 6,
        d_model: int = 32,
        n_heads: int = 2,
        d_ff: int = 32,
        *,
        norm: Norm = "layer",
        final_norm: bool | None = None,
        alpha: float = 1.0,
        residual: bool = True,
        init: Literal["xavier", "simplified"] = "xavier",
        causal: bool = False,
        n_tokens: int = 6,
        vocabulary: int = 8,
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("placement", placement, get_args(Placement)),
            ("norm", norm, ("layer", "rms", None)),
            ("init", init, ("xavier", "simplified")),
        ):
            if value not in choices:
                raise ValueError(f"{name}: one of {', '.join(map(repr, choices))} wanted, got {value!r}")
        if placement == "deepnorm" and (alpha != 1 or init != "xavier" or not residual):
            raise ValueError("placement: 'deepnorm' brings its own alpha and initialisation, and scales a shortcut")
        if init == "simplified" and n_heads != 1:
            raise ValueError(f"n_heads: 1 wanted with init='simplified', got {n_heads}")
        if norm is None and final_norm:
            raise ValueError("final_norm: False or None wanted with norm=None, got True")
        self.placement: Placement = placement
        self.normalised, self.n_heads, self.causal = norm, n_heads, causal
        self.alpha = (deepnorm(depth).alpha if placement == "deepnorm" else alpha) if residual else 0.0
        place = _LIBRARY.get(placement, placement)
        self.encoder = Encoder(
            depth,
            d_model,
            n_heads,
            d_ff,
            placement=place,
            norm=norm or "layer",
            alpha=self.alpha,
            causal=causal,
            final_norm=norm is not None and (place != "post" if final_norm is None else final_norm),
        )
        if placement == "deepnorm":
            deepnorm_init_(self.encoder, deepnorm(depth).beta)
        for layer in self.encoder.layers:
            if norm is None:
                layer.add_norm1.norm = layer.add_norm2.norm = nn.Identity()
                layer.add_norm1.outer_norm = layer.add_norm2.outer_norm = None
            if init == "simplified":
                attention = layer.self_attention
                nn.init.zeros_(attention.query.weight)
                nn.init.zeros_(attention.key.weight)
                nn.init.eye_(attention.output.weight)
                for linear in (attention.value, layer.feed_forward.linear1, layer.feed_forward.linear2):
                    nn.init.xavier_normal_(linear.weight)
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.position = nn.Parameter(torch.randn(n_tokens, d_model) / math.sqrt(2))
        self.readout = nn.Linear(d_model, vocabulary)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, T, vocabulary) of the tokens x (B, T)."""
        state = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        return self.forward_stacked(state, x.unsqueeze(0), lambda _name, _value: None)[0]

    def forward_stacked(self, state: State, x: Tensor, note: Note) -> Tensor:
        """Return the logits (S, B, T, vocabulary) of S networks with stacked weights (`training`'s protocol)."""
        h = self.layers_stacked(state, self.embed_stacked(state, x), note)
        return _linear(state, "readout", h.flatten(1, 2)).unflatten(1, h.shape[1:3])

    def embed_stacked(self, state: State, x: Tensor) -> Tensor:
        """Return the inputs of the first layers (S, B, T, d_model) for the tokens x (S, B, T)."""
        embedded = [F.embedding(tokens, table) for tokens, table in zip(x, state["embedding.weight"], strict=True)]
        return torch.stack(embedded) + state["position"][:, None, : x.shape[2]]

    def layers_stacked(self, state: State, x: Tensor, note: Note) -> Tensor:
        """Return what S stacks of layers, final norm included, make of x (S, B, T, d_model).

        Noted are every sublayer's update, every sum ("….add_norm1.sum") and what is handed on ("….add_norm1").
        """
        shape = x.shape
        h = x.flatten(1, 2)  # (S, B·T, d_model)
        norms_input = self.placement in ("pre", "sandwich", "scaled")

        def normalised(name: str, a: Tensor) -> Tensor:
            if self.normalised is None:
                return a
            weight = state[f"{name}.weight"].unsqueeze(1)
            if self.normalised == "rms":
                return F.rms_norm(a, a.shape[2:], eps=1e-5) * weight
            return torch.addcmul(state[f"{name}.bias"].unsqueeze(1), F.layer_norm(a, a.shape[2:]), weight)

        def heads(name: str, a: Tensor) -> Tensor:
            return _linear(state, name, a).view(-1, shape[2], self.n_heads, shape[3] // self.n_heads).transpose(1, 2)

        def self_attention(name: str, a: Tensor) -> Tensor:
            q, k, v = (heads(f"{name}.{part}", a) for part in ("query", "key", "value"))  # (S·B, heads, T, d_head)
            joined = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)
            return _linear(state, f"{name}.output", joined.reshape(h.shape))

        def feed_forward(name: str, a: Tensor) -> Tensor:
            hidden = torch.relu(_linear(state, f"{name}.linear1", a))
            note(f"{name}.hidden", hidden)
            return _linear(state, f"{name}.linear2", hidden)

        for l in range(len(self.encoder.layers)):
            layer = f"encoder.layers.{l}"
            for number, sublayer in enumerate((self_attention, feed_forward), 1):
                norm, branch = f"{layer}.add_norm{number}", f"{layer}.{sublayer.__name__}"
                z = normalised(f"{norm}.norm", h) if norms_input else h
                update = sublayer(branch, z / math.sqrt(l + 1) if self.placement == "scaled" else z)
                if self.placement == "branch":
                    update = normalised(f"{norm}.norm", update)
                elif self.placement == "sandwich":
                    update = normalised(f"{norm}.outer_norm", update)
                note(branch, update)
                h = torch.add(update, h, alpha=self.alpha) if self.alpha else update
                note(f"{norm}.sum", h)
                if self.placement in ("post", "deepnorm"):
                    h = normalised(f"{norm}.norm", h)
                note(norm, h)
        return (h if self.encoder.final_norm is None else normalised("encoder.final_norm", h)).view(shape)


def _linear(state: State, name: str, a: Tensor) -> Tensor:
    return torch.baddbmm(state[f"{name}.bias"].unsqueeze(1), a, state[f"{name}.weight"].transpose(1, 2))


def _seeds(seeds: Iterable[int]) -> list[int]:
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds: one or more wanted, got none")
    return seeds


def _chunks(seeds: Iterable[int]) -> list[list[int]]:
    seeds = _seeds(seeds)
    return [seeds[i : i + _TOGETHER] for i in range(0, len(seeds), _TOGETHER)]


def _stacked(options: dict[str, Any], seeds: Sequence[int], dtype: str = "float32") -> State:
    run = Run(PlacementNet, options, dtype=dtype)
    parameters, _buffers = torch.func.stack_module_state([build(run, seed) for seed in seeds])
    return {name: value.detach() for name, value in parameters.items()}


def _skeleton(options: dict[str, Any]) -> PlacementNet:
    """Return the network without weights of its own: its forward passes take them from a State."""
    with torch.device("meta"):
        return PlacementNet(**options)


class _Family:
    """Networks of all placements and depths with the same weights, a stack of seeds at a time."""

    def __init__(self, depths: Iterable[int], seeds: Sequence[int], options: dict[str, Any]) -> None:
        self.options, self.seeds = options, seeds
        # Sandwich has every norm that any placement has, and norms draw no random numbers.
        self.state = _stacked({**options, "placement": "sandwich", "depth": max(depths), "final_norm": True}, seeds)

    def member(self, placement: str, depth: int, final_norm: bool | None = None) -> tuple[PlacementNet, State]:
        options = {**self.options, "placement": placement, "depth": depth, "final_norm": final_norm}
        network = _skeleton(options)
        if placement == "deepnorm":
            return network, _stacked(options, self.seeds)
        return network, {name: self.state[name] for name, _parameter in network.named_parameters()}


def _normal(seeds: Sequence[int], *shape: int, salt: int = 0) -> Tensor:
    """Return standard normal numbers (S, *shape), for every seed its own."""
    return torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(s + salt)) for s in seeds])


def _collect(network: PlacementNet, state: State, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    notes: dict[str, Tensor] = {}
    return network.layers_stacked(state, x, notes.__setitem__), notes


def _check_depths(depths: Iterable[int]) -> tuple[int, ...]:
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
    x = _normal(seeds, 1, tokens, width, salt=1_000_003)
    top, notes = _collect(network, state, x)
    logits = _linear(state, "readout", top.flatten(1, 2))
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
    depths = _check_depths(depths)
    options = {"d_model": d_model, "d_ff": d_model, "vocabulary": d_model, **options}
    rows: dict[str, list[list[tuple[Array, Array, Array]]]] = {p: [] for p in placements}
    with one_thread():
        for chunk in _chunks(seeds):
            family = _Family(depths, chunk, options)
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
        for chunk in _chunks(seeds):
            family = _Family([depth], chunk, options)
            for p in placements:
                rows[p].append(
                    _w2_gradients(*family.member(p, depth, final_norm), chunk, tokens, one_target, range(depth))
                )
    columns = [{p: np.concatenate([r[i] for r in rows[p]]) for p in placements} for i in range(3)]
    columns[2] = {p: value[:, None] for p, value in columns[2].items()}
    return Gradients(tuple(range(1, depth + 1)), *columns)


@dataclass(frozen=True)
class StreamStatistics:
    """The residual stream x_0 … x_L after each of L layers, means over batch and tokens.

    variance (S, L+1): over the features. square_norm (S, L+1): ‖x_l‖²/d_model. before_norm (S, L): the same of the
    second sublayer's sum, which only Post-LN normalises. cosine (S, L): between x_l and x_{l+1}, l = 0…L−1.
    similarity (S, L+1): mean cosine between two tokens of a sequence.
    """

    variance: Array
    square_norm: Array
    before_norm: Array
    cosine: Array
    similarity: Array

    @property
    def layers(self) -> Array:
        """Return l = 0…L (L+1,)."""
        return np.arange(self.variance.shape[1])

    def growth(self) -> Slope:
        """Return k of variance ∝ l^k for l = 1…L, with its 95 % interval over the seeds."""
        return slope(np.log(self.layers[1:]), np.log(self.variance[:, 1:]))


@torch.no_grad()
def _states(network: PlacementNet, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the stream x_0 … x_L (S, L+1, B, T, D) and the second sublayers' sums (S, L, B·T, D), in float64."""
    _top, notes = _collect(network, state, x)
    names = [f"encoder.layers.{l}.add_norm2" for l in range(len(network.encoder.layers))]
    states = torch.stack([x, *(notes[name].view(x.shape) for name in names)], 1)
    return states.double(), torch.stack([notes[f"{name}.sum"] for name in names], 1).double()


def _stream(network: PlacementNet, state: State, x: Tensor) -> StreamStatistics:
    states, sums = _states(network, state, x)
    unit = F.normalize(states, dim=-1)
    tokens = x.shape[2]
    similarity = (unit.sum(3).square().sum(-1).mean(2) - tokens) / max(tokens * (tokens - 1), 1)
    return StreamStatistics(
        states.var(-1, correction=0).mean((2, 3)).numpy(),
        states.square().mean((2, 3, 4)).numpy(),
        sums.square().mean((2, 3)).numpy(),
        (unit[:, 1:] * unit[:, :-1]).sum(-1).mean((2, 3)).numpy(),
        similarity.numpy(),
    )


def _join(parts: Sequence[StreamStatistics]) -> StreamStatistics:
    return StreamStatistics(*(np.concatenate([getattr(p, name) for p in parts]) for name in parts[0].__annotations__))


def stream_statistics(
    placement: str,
    depth: int = 32,
    *,
    seeds: Iterable[int] = range(8),
    batch: int = 8,
    tokens: int = 8,
    d_model: int = 64,
    **options: Any,
) -> StreamStatistics:
    """Measure the residual stream at initialisation, on standard normal inputs (B, T, d_model).

    `options` go to PlacementNet. With `init="simplified", n_heads=1` this is the network of Xiong et al. 2020, lemma 2:
    E‖x‖² = 3d/2 before Post-LN's second norm, and between (1 + l/2)d and (1 + 3l/2)d after l layers of Pre-LN.
    """
    options = {"placement": placement, "depth": depth, "d_model": d_model, "d_ff": d_model, **options}
    network = _skeleton(options)
    with one_thread():
        return _join(
            [
                _stream(network, _stacked(options, chunk), _normal(chunk, batch, tokens, d_model))
                for chunk in _chunks(seeds)
            ]
        )


def _of_record(record: Record, trained: bool, samples: int) -> tuple[PlacementNet, State, Tensor]:
    """Return the networks of `record` and the inputs of their first layers for `samples` test sequences."""
    run = record.run
    if trained and not record.state:
        raise ValueError("record: one with weights wanted, train with keep_state=True")
    network = _skeleton(dict(run.options))
    state = {name: torch.as_tensor(value) for name, value in record.state.items()}
    if not trained:
        state = _stacked(dict(run.options), run.seeds, run.dtype)
    x = torch.from_numpy(datasets.load(run.data, **run.data_options).x_test[:samples])
    with torch.no_grad():
        return network, state, network.embed_stacked(state, x.expand(len(run.seeds), *x.shape))


def stream_of_record(record: Record, *, trained: bool = True, samples: int = 128) -> StreamStatistics:
    """Measure the residual stream of the networks of `record` on `samples` test sequences: as trained, or as begun.

    Raises ValueError when the trained weights are wanted and the record has none (`Run.keep_state`).
    """
    with one_thread():
        return _stream(*_of_record(record, trained, samples))


def token_moments(record: Record, *, trained: bool = True, samples: int = 128) -> tuple[Array, Array]:
    """Return mean and biased deviation over the features of every token's x_0 … x_L, (S, L+1, samples · T) each.

    As `stream_of_record`, token by token.
    """
    with one_thread():
        states, _sums = _states(*_of_record(record, trained, samples))
    std, mean = torch.std_mean(states, dim=-1, correction=0)
    return mean.flatten(2).numpy(), std.flatten(2).numpy()


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
    depths = _check_depths(depths)
    options = {"d_model": d_model, "d_ff": d_model, **options}
    rows: dict[str, list[list[Array]]] = {p: [] for p in placements}
    with one_thread():
        for chunk in _chunks(seeds):
            family = _Family(depths, chunk, options)
            shaken = {
                name: noise * _normal(chunk, *value.shape[1:], salt=7 * i + 1)
                for i, (name, value) in enumerate(family.state.items())
                if value.ndim == 3 and name.startswith("encoder")
            }
            x = _normal(chunk, batch, tokens, d_model, salt=1_000_003)
            for p in placements:
                changes = []
                for depth in depths:
                    network, state = family.member(p, depth)
                    moved = {name: value + shaken[name] if name in shaken else value for name, value in state.items()}
                    change = _collect(network, moved, x)[0] - _collect(network, state, x)[0]
                    changes.append(change.double().square().mean((1, 2, 3)).numpy())
                rows[p].append(changes)
    return {p: np.concatenate([np.stack(changes, 1) for changes in rows[p]]) for p in placements}


@torch.no_grad()
def rank_collapse(
    depth: int = 12,
    *,
    skip: bool,
    branch_scale: float | Literal["1/sqrt(L)"] = 1.0,
    tokens: int = 16,
    d_model: int = 64,
    n_heads: int = 1,
    seeds: Iterable[int] = range(8),
) -> Array:
    """Return how different the tokens still are after 0…L attentions at initialisation, (S, L+1), in float64.

    The measure is ‖X − 1x̄ᵀ‖_F / ‖X‖_F with the tokens' mean x̄: 0 when all tokens are one. A layer is A(LN(x)), or with
    `skip` x + branch_scale · A(LN(x)); no feed-forward. Dong et al. 2021, theorem 2.2: without the skip the residual is
    at most of the order of its cube in the layer before.
    """
    scale = depth**-0.5 if branch_scale == "1/sqrt(L)" else float(branch_scale)
    rows = []
    with one_thread(), torch.random.fork_rng(devices=[]):
        for seed in _seeds(seeds):
            torch.manual_seed(seed)
            x = torch.randn(1, tokens, d_model, dtype=torch.float64)
            row = []
            for l in range(depth + 1):
                row.append(float((x - x.mean(1, keepdim=True)).norm() / x.norm()))
                if l < depth:
                    update = MultiHeadAttention(d_model, n_heads).double()(F.layer_norm(x, (d_model,)))
                    x = x + scale * update if skip else update
            rows.append(row)
    return np.array(rows)
