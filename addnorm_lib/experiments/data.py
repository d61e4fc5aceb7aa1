"""Real data without downloads, and two synthetic sequence tasks: what the experiments train on.

A `Dataset` holds NumPy arrays, so that it travels to another process or machine as plain bytes. Integer targets mean
classification (cross-entropy over the last axis of the model's output), floating-point targets mean regression.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples.

    `x_train`, `x_test` (N, ...) float32 or int64; `y_train`, `y_test` (N,) or (N, T) int64, or float32 for regression.
    `n_outputs` is the size of the model's last axis. `vocabulary` decodes tokens of text: `vocabulary[i]`.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    n_outputs: int
    vocabulary: str = ""


def digits(test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """Return scikit-learn's 1797 handwritten digits, 8 × 8 pixels: x (N, 64) float32, y (N,) in 0…9.

    Shuffled with `seed`; every pixel is standardised with the mean and standard deviation of the training part (pixels
    that are constant there stay 0). Raises ValueError when `test_fraction` is not between 0 and 1.
    """
    from sklearn.datasets import load_digits

    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction: a number between 0 and 1 wanted, got {test_fraction}")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order], y[order].astype(np.int64)
    n_train = len(x) - round(test_fraction * len(x))
    mean, std = x[:n_train].mean(axis=0), x[:n_train].std(axis=0)
    x = ((x - mean) / np.where(std > 0, std, 1.0)).astype(np.float32)
    return Dataset(x[:n_train], y[:n_train], x[n_train:], y[n_train:], n_outputs=10)


def topics_text() -> str:
    """Return the documentation topics that ship with CPython (`pydoc_data.topics`), joined in alphabetical order."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def text(length: int = 64, test_fraction: float = 0.1) -> Dataset:
    """Return real English text, character by character: predict the next character at every position.

    x, y (N, `length`) int64 with y one character ahead of x; consecutive windows without overlap, the last
    `test_fraction` of the text for the test. `vocabulary` holds the characters. Raises ValueError on a length below 1.
    """
    if length < 1:
        raise ValueError(f"length: at least 1 wanted, got {length}")
    characters = topics_text()
    vocabulary = "".join(sorted(set(characters)))
    codes = {character: code for code, character in enumerate(vocabulary)}
    tokens = np.fromiter((codes[c] for c in characters), np.int64, len(characters))
    n = (len(tokens) - 1) // length
    x, y = tokens[: n * length].reshape(n, length), tokens[1 : n * length + 1].reshape(n, length)
    n_train = n - max(1, round(test_fraction * n))
    return Dataset(x[:n_train], y[:n_train], x[n_train:], y[n_train:], len(vocabulary), vocabulary)


def _sequences(length: int, vocabulary: int, n_train: int, n_test: int, seed: int) -> tuple[NDArray[np.int64], int]:
    for name, value in {"length": length, "vocabulary": vocabulary, "n_train": n_train, "n_test": n_test}.items():
        if value < 1:
            raise ValueError(f"{name}: at least 1 wanted, got {value}")
    return np.random.default_rng(seed).integers(vocabulary, size=(n_train + n_test, length)), n_train


def reverse(length: int = 8, vocabulary: int = 16, n_train: int = 4096, n_test: int = 512, seed: int = 0) -> Dataset:
    """Return random sequences x (N, `length`) of tokens 0…`vocabulary`−1 and y = x read backwards."""
    x, n = _sequences(length, vocabulary, n_train, n_test, seed)
    y = x[:, ::-1].copy()
    return Dataset(x[:n], y[:n], x[n:], y[n:], vocabulary)


def copy(length: int = 8, vocabulary: int = 16, n_train: int = 4096, n_test: int = 512, seed: int = 0) -> Dataset:
    """Return random sequences x (N, `length`) of tokens 0…`vocabulary`−1 and y = x."""
    x, n = _sequences(length, vocabulary, n_train, n_test, seed)
    return Dataset(x[:n], x[:n], x[n:], x[n:], vocabulary)


DATASETS: Mapping[str, Callable[..., Dataset]] = {"digits": digits, "text": text, "reverse": reverse, "copy": copy}


@functools.lru_cache(maxsize=16)
def _load(name: str, options: tuple[tuple[str, Any], ...]) -> Dataset:
    if ":" in name:
        module, attribute = name.split(":")
        return getattr(importlib.import_module(module), attribute)(**dict(options))
    if name not in DATASETS:
        raise ValueError(f"data: one of {', '.join(DATASETS)} or 'module:function' wanted, got {name!r}")
    return DATASETS[name](**dict(options))


def load(name: str, **options: Any) -> Dataset:
    """Return the data set called `name` ("digits", "text", "reverse", "copy" or "module:function"), cached.

    `options` go to the function. Raises ValueError on an unknown name.
    """
    return _load(name, tuple(sorted(options.items())))


def batch_indices(n: int, batch_size: int, steps: int, seed: int) -> NDArray[np.int64]:
    """Return which samples each training step sees: (steps, batch_size), epoch after epoch of all `n`, reshuffled.

    Raises ValueError when `batch_size` is not in 1…n.
    """
    if not 1 <= batch_size <= n:
        raise ValueError(f"batch_size: 1 to {n} (the training samples) wanted, got {batch_size}")
    rng = np.random.default_rng(seed)
    epochs = -(-steps * batch_size // n)
    order = np.concatenate([rng.permutation(n) for _ in range(epochs)])
    return order[: steps * batch_size].reshape(steps, batch_size)
