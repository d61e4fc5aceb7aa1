"""Layer norm against batch norm: what they do to training, and how far a batch's statistics can be trusted."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from addnorm_lib import reference
from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.placement_training import text_grid
from addnorm_lib.experiments.results import Record, Run, split_settings
from addnorm_lib.experiments.stacked import residual_states, stack_of_record
from addnorm_lib.experiments.training import one_thread, train

Array = NDArray[np.float64]
Source = Literal["digits", "text", "text without runs", "shuffled text"]

NORMS = (None, "layer", "rms", "batch")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def norm_runs(
    norms: Iterable[str | None] = NORMS, learning_rates: Iterable[float] = RATES, **settings: Any
) -> list[Run]:
    """Return one Run of `DepthNet` on the digits for every norm and learning rate.

    By default 12 residual blocks whose branches are not scaled down, 100 steps of SGD with 64 digits each. `settings`
    are fields of Run (`seeds`, `steps`, `optimiser`, ...) or, failing that, options of DepthNet (`kind`, `init`, ...).
    """
    settings = {"steps": 100, "batch_size": 64, "record_every": 100, "kind": "residual", "depth": 12} | settings
    options, fields = split_settings(settings)
    rates = list(learning_rates)
    return [Run(DepthNet, {"norm": norm, **options}, lr=rate, **fields) for norm in norms for rate in rates]


def usable_decades(learning_rates: ArrayLike, losses: ArrayLike, limit: float) -> Array:
    """Return over how many decades of learning rate each seed's loss stays below `limit` (S,).

    losses (R, S), one row a rate, NaN where training diverged; rates (R,) rising. Between two neighbouring rates the
    logarithm of the loss is taken as linear, as a line in a log–log plot shows it; a diverged neighbour adds nothing.
    The longest unbroken stretch counts. Raises ValueError on other shapes, rates that do not rise, or fewer than two.
    """
    rates, losses = np.asarray(learning_rates, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if losses.ndim != 2 or rates.shape != losses.shape[:1] or len(rates) < 2 or (np.diff(rates) <= 0).any():
        raise ValueError(
            f"learning_rates, losses: rising (R ≥ 2,) and (R, S) wanted, got {rates.shape}, {losses.shape}"
        )
    with np.errstate(divide="ignore"):
        x, y = np.log10(rates), np.log10(losses) - math.log10(limit)
    widths = []
    for column in np.nan_to_num(y, nan=np.inf, posinf=np.inf).T:
        best = width = 0.0
        for (x0, y0), (x1, y1) in zip(zip(x, column, strict=True), zip(x[1:], column[1:], strict=True), strict=False):
            width = width if y0 < 0 else 0.0
            if y0 < 0 and y1 < 0:
                width += x1 - x0
            elif min(y0, y1) < 0 and math.isfinite(y0) and math.isfinite(y1):
                width += (x1 - x0) * min(y0, y1) / -abs(y1 - y0)
            best = max(best, width)
        widths.append(best)
    return np.array(widths)


def steps_to(record: Record, limit: float, window: int = 10) -> Array:
    """Return the first step at which each seed's training loss, averaged over `window` steps, is below `limit` (S,).

    Infinite where it never is. Raises ValueError when the record has fewer steps than `window`.
    """
    if not 1 <= window <= record.loss.shape[1]:
        raise ValueError(f"window: 1 to {record.loss.shape[1]} steps wanted, got {window}")
    below = np.lib.stride_tricks.sliding_window_view(record.loss, window, axis=1).mean(axis=2) < limit
    return np.where(below.any(axis=1), below.argmax(axis=1) + window, np.inf)


def batch_size_runs(
    batch_sizes: Iterable[int] = (2, 4, 8, 64), norms: Iterable[str | None] = ("batch", "layer"), **settings: Any
) -> list[Run]:
    """Return one Run of `DepthNet` on the digits for every norm and batch size, with the same number of steps.

    By default two residual blocks, 300 steps of SGD at learning rate .01; `settings` as in `norm_runs`. Batch norm is
    tested with its running statistics, as always.
    """
    settings = {"depth": 2, "steps": 300, "record_every": 300} | settings
    rate = settings.pop("lr", 0.01)
    norms = list(norms)
    return [run for size in batch_sizes for run in norm_runs(norms, (rate,), batch_size=size, **settings)]


def _checked(draws: int, batch_sizes: Sequence[int], seeds: Iterable[int], least: int) -> list[int]:
    seeds = list(seeds)
    if draws < 2 or not batch_sizes or min(batch_sizes) < least or not seeds:
        raise ValueError(
            f"draws ≥ 2, batch sizes ≥ {least} and a seed wanted, got {draws}, {tuple(batch_sizes)}, {seeds}"
        )
    return seeds


def batch_fluctuation(
    source: Source = "digits",
    batch_sizes: Sequence[int] = (4, 8, 16, 32, 64, 128, 256),
    *,
    draws: int = 400,
    d_model: int = 64,
    seeds: Iterable[int] = range(5),
) -> Array:
    """Return how far the mean of a batch of B vectors strays from the mean of all: std(μ_B) / σ, (S, batch sizes).

    The standard deviation is taken over `draws` batches, σ over all vectors, a feature at a time; the features' root
    mean square is returned. Independent vectors give exactly 1/√B in expectation, *whatever* their distribution.
    Shen et al. 2020, section 3, compare text and images so, in trained networks.

    source: "digits": B random images of 64 pixels (pixels that never change are left out). "text": B characters in a
        row, as a language model reads them, each a random embedding of `d_model` numbers that is the character's own.
        "text without runs": the same with every run of one sign or space (indentation, rules) shortened to one.
        "shuffled text": the same embeddings of B characters drawn at random, which have the same (Zipf) frequencies.
    Raises ValueError on an unknown source and on sizes or draws that are too small.
    """
    if source not in get_args(Source):
        raise ValueError(f"source: one of {', '.join(get_args(Source))} wanted, got {source!r}")
    rows = []
    for seed in _checked(draws, batch_sizes, seeds, 1):
        rng = np.random.default_rng(seed)
        if source == "digits":
            digits = datasets.load("digits")
            pixels = np.concatenate([digits.x_train, digits.x_test]).astype(np.float64)
            vectors = pixels[:, pixels.std(axis=0) > 0]
            ids = np.arange(len(vectors))
        else:
            text = datasets.load("text")
            ids = np.concatenate([text.x_train.ravel(), text.x_test.ravel()])
            if source == "text without runs":
                word = np.array([character.isalnum() for character in text.vocabulary])
                ids = ids[np.append(True, (ids[1:] != ids[:-1]) | word[ids[1:]])]
            vectors = rng.standard_normal((text.n_outputs, d_model))
        shares = np.bincount(ids, minlength=len(vectors)) / len(ids)
        centred = vectors - shares @ vectors
        variance = shares @ centred**2
        row = []
        for size in batch_sizes:
            if source in ("text", "text without runs"):
                members = rng.integers(len(ids) - size + 1, size=(draws, 1)) + np.arange(size)
            else:
                members = rng.integers(len(ids), size=(draws, size))
            means = np.stack([centred[ids[batch]].mean(axis=0) for batch in members])
            row.append(math.sqrt(((means**2).mean(axis=0) / variance).mean()))
        rows.append(row)
    return np.array(rows)


def mate_spread(
    norm: Callable[[Array], Array],
    batch_sizes: Sequence[int] = (4, 8, 16, 32, 64, 128, 256),
    *,
    draws: int = 200,
    seeds: Iterable[int] = range(5),
) -> Array:
    """Return how much the output for *one* digit depends on who else is in its batch, (S, batch sizes).

    norm: (B, D) to (B, D), such as `batch_norm` or `reference.layer_norm`. It acts on hidden features xW of the images,
    with a random W. (Pixels 0…16 as they are: standardised ones have outliers of dozens of σ at the edge, and a batch
    with such an image has another σ than one without.) Each seed draws W and an image, and gives the image `draws`
    times B − 1 random mates; returned is the standard deviation of its outputs over the draws, root mean square over
    the features.
    Raises ValueError on sizes below 2 and on too few draws.
    """
    from sklearn.datasets import load_digits

    images = load_digits().data
    width = images.shape[1]
    rows = []
    for seed in _checked(draws, batch_sizes, seeds, 2):
        rng = np.random.default_rng(seed)
        x = images @ rng.standard_normal((width, width))
        sample = x[rng.integers(len(x))]
        row = []
        for size in batch_sizes:
            outputs = np.stack(
                [norm(np.vstack([sample, x[rng.integers(len(x), size=size - 1)]]))[0] for _draw in range(draws)]
            )
            # Equal outputs have a spread of exactly 0; a mean over the draws would round.
            row.append(math.sqrt((outputs - outputs[0]).var(axis=0).mean()))
        rows.append(row)
    return np.array(rows)


def batch_norm(x: ArrayLike) -> Array:
    """Return x (B, D) normalised over the batch, as batch norm does in training, without γ and β."""
    return reference.batch_norm_training(x).y


def windows_of_text(n_train: int = 800, n_test: int = 40) -> datasets.Dataset:
    """Return windows of 64 characters spread evenly over `data.text`, so that evaluating on them takes little time."""
    text = datasets.load("text")

    def spread(x: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        return x[np.linspace(0, len(x) - 1, n).astype(np.int64)]

    parts = (spread(text.x_train, n_train), spread(text.y_train, n_train))
    held_out = (spread(text.x_test, n_test), spread(text.y_test, n_test))
    return datasets.Dataset(*parts, *held_out, n_outputs=text.n_outputs, vocabulary=text.vocabulary)


class TokenStatistics(NamedTuple):
    """Mean μ and standard deviation σ over the features of every token's hidden state: (S, N) each.

    embedded: after embedding + position, untrained. hidden: after the layer, trained. The last is the hidden state's
    σ before training.
    """

    embedded_mean: Array
    embedded_std: Array
    hidden_mean: Array
    hidden_std: Array
    untrained_std: Array


def token_moments(record: Record, *, trained: bool = True, samples: int = 128) -> tuple[Array, Array]:
    """Return mean and biased deviation over the features of every token's x_0 … x_L, (S, L+1, samples · T) each.

    On `samples` test sequences, of the networks of `record` as trained or as begun.
    """
    with one_thread():
        states, _sums = residual_states(*stack_of_record(record, trained, samples))
    std, mean = torch.std_mean(states, dim=-1, correction=0)
    return mean.flatten(2).numpy(), std.flatten(2).numpy()


def token_statistics(
    *, steps: int = 100, windows: int = 40, d_model: int = 64, seeds: Sequence[int] = range(5)
) -> TokenStatistics:
    """Measure each token of real text before and after a short training (Adam 3e-3, 8 windows a step).

    The network is a `PlacementNet` of one causal Pre-LN layer that predicts the next character. N = 64·`windows`
    characters of the test text. Even equal distributions would not give equal σ: with `d_model` independent normal
    features its coefficient of variation is 1/√(2·d_model). Raises ValueError on no window.
    """
    if windows < 1:
        raise ValueError(f"windows: at least 1 wanted, got {windows}")
    source, sizes = f"{__name__}:{windows_of_text.__name__}", {"n_test": windows}
    text = datasets.load(source, **sizes)
    (run,) = text_grid(
        ["pre"],
        [1],
        [0],
        length=text.x_train.shape[1],
        data=source,
        data_options=sizes,
        d_model=d_model,
        n_heads=4,
        d_ff=2 * d_model,
        seeds=seeds,
        steps=steps,
        batch_size=8,
        record_every=steps,
        keep_state=True,
    )
    record = train(run)[0]
    (embedded_mean, begun_std), (mean, std) = (token_moments(record, trained=t, samples=windows) for t in (False, True))
    return TokenStatistics(embedded_mean[:, 0], begun_std[:, 0], mean[:, 1], std[:, 1], begun_std[:, 1])
