"""The formulas of Add & Norm in NumPy float64, one function a formula.

Everything else in the library is tested against this file, so it is written to be compared with the papers by eye:
no fusing, no in-place work, two-pass variances. Every function takes anything that `numpy.asarray` takes and returns
float64. Variances are biased (divided by the count), as in every normalisation paper and in PyTorch's forward passes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def _f64(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: real numbers wanted, got dtype {array.dtype}")
    return array.astype(np.float64)


def _per_feature(name: str, value: ArrayLike | None, features: int, default: float) -> Array:
    if value is None:
        return np.full(features, default)
    array = _f64(name, value)
    if array.shape != (features,):
        raise ValueError(f"{name}: shape ({features},) wanted, one number a feature, got {array.shape}")
    return array


def _channels_first(name: str, x: ArrayLike) -> Array:
    array = _f64(name, x)
    if array.ndim < 2:
        raise ValueError(f"{name}: shape (N, C, ...) wanted, got {array.shape}")
    return array


def _along_channels(value: Array, ndim: int) -> Array:
    return value.reshape(1, -1, *[1] * (ndim - 2))


def residual_sum(x: ArrayLike, update: ArrayLike, alpha: float = 1.0) -> Array:
    """Return `alpha * x + update`: the "Add" of Add & Norm.

    `x` and `update` (the sublayer's output F(x)) have the same shape; NumPy would broadcast others in silence.
    `alpha` scales the shortcut: 1 in He et al. 2015 (section 3.2), larger in DeepNorm (Wang et al. 2022, section 3).

    Raises ValueError when the shapes differ.
    """
    x, update = _f64("x", x), _f64("update", update)
    if x.shape != update.shape:
        raise ValueError(f"update: the shape of x, {x.shape}, wanted, got {update.shape}")
    return alpha * x + update


def _normalise(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    mean = x.mean(axis=axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x - mean) / np.sqrt(var + eps), mean, var


def layer_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5
) -> Array:
    """Return `(x - mean) / sqrt(var + eps) * weight + bias` with mean and variance over the last axis.

    x (..., D); weight (gamma) and bias (beta) of shape (D,), one and zero where absent. Ba et al. 2016, section 3.
    """
    x = _f64("x", x)
    xhat, _, _ = _normalise(x, (-1,), eps)
    features = x.shape[-1]
    return xhat * _per_feature("weight", weight, features, 1.0) + _per_feature("bias", bias, features, 0.0)


class LayerNormGradients(NamedTuple):
    """Gradients of a loss with respect to layer norm's input and parameters."""

    x: Array
    weight: Array
    bias: Array


def layer_norm_backward(
    grad: ArrayLike, x: ArrayLike, weight: ArrayLike | None = None, eps: float = 1e-5
) -> LayerNormGradients:
    """Return the gradients of layer norm, given `grad`, the loss's gradient with respect to its output.

    With xhat = (x - mean) * rstd, wdy = weight * grad, and c1 = mean(xhat * wdy), c2 = mean(wdy) over the last axis::

        dx = (wdy - (xhat * c1 + c2)) * rstd
        dweight = sum of grad * xhat over all tokens;  dbias = sum of grad over all tokens

    grad and x have shape (..., D). Ba et al. 2016, section 3, differentiated; the form is that of the fused kernels.
    """
    x, grad = _f64("x", x), _f64("grad", grad)
    if grad.shape != x.shape:
        raise ValueError(f"grad: the shape of x, {x.shape}, wanted, got {grad.shape}")
    xhat, _, var = _normalise(x, (-1,), eps)
    wdy = grad * _per_feature("weight", weight, x.shape[-1], 1.0)
    c1 = (xhat * wdy).mean(axis=-1, keepdims=True)
    c2 = wdy.mean(axis=-1, keepdims=True)
    tokens = tuple(range(x.ndim - 1))
    return LayerNormGradients(
        x=(wdy - (xhat * c1 + c2)) / np.sqrt(var + eps),
        weight=(grad * xhat).sum(axis=tokens),
        bias=grad.sum(axis=tokens),
    )


def rms_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5) -> Array:
    """Return `x / sqrt(mean(x**2) + eps) * weight + bias` with the mean square over the last axis.

    x (..., D); weight and bias of shape (D,). Zhang & Sennrich 2019, section 4 (which has no bias).
    """
    x = _f64("x", x)
    with np.errstate(invalid="ignore", divide="ignore"):
        xhat = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    features = x.shape[-1]
    return xhat * _per_feature("weight", weight, features, 1.0) + _per_feature("bias", bias, features, 0.0)


class BatchNormTraining(NamedTuple):
    """Batch norm's training output, and the running statistics after the step."""

    y: Array
    running_mean: Array
    running_var: Array


def batch_norm_training(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> BatchNormTraining:
    """Normalise each channel over the batch (and over space), and move the running statistics.

    x (N, C, ...): one mean and variance a channel, over all other axes. The output uses the *biased* variance; the
    running variance moves towards the *unbiased* one: `running = (1 - momentum) * running + momentum * new`.
    Ioffe & Szegedy 2015, algorithms 1 and 2. Raises ValueError when a channel holds a single value.
    """
    x = _channels_first("x", x)
    channels, count = x.shape[1], x.size // max(x.shape[1], 1)
    if count < 2:
        raise ValueError(f"x: more than one value a channel wanted, got shape {x.shape}")
    axes = (0, *range(2, x.ndim))
    xhat, mean, var = _normalise(x, axes, eps)
    gamma = _along_channels(_per_feature("weight", weight, channels, 1.0), x.ndim)
    beta = _along_channels(_per_feature("bias", bias, channels, 0.0), x.ndim)
    old_mean = _per_feature("running_mean", running_mean, channels, 0.0)
    old_var = _per_feature("running_var", running_var, channels, 1.0)
    unbiased = var.reshape(-1) * count / (count - 1)
    return BatchNormTraining(
        y=xhat * gamma + beta,
        running_mean=(1 - momentum) * old_mean + momentum * mean.reshape(-1),
        running_var=(1 - momentum) * old_var + momentum * unbiased,
    )


def batch_norm_inference(
    x: ArrayLike,
    running_mean: ArrayLike,
    running_var: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array:
    """Return `(x - running_mean) / sqrt(running_var + eps) * weight + bias`, a channel at a time.

    x (N, C, ...); the batch plays no part. Ioffe & Szegedy 2015, algorithm 2.
    """
    x = _channels_first("x", x)
    channels = x.shape[1]
    mean = _along_channels(_per_feature("running_mean", running_mean, channels, 0.0), x.ndim)
    var = _along_channels(_per_feature("running_var", running_var, channels, 1.0), x.ndim)
    gamma = _along_channels(_per_feature("weight", weight, channels, 1.0), x.ndim)
    beta = _along_channels(_per_feature("bias", bias, channels, 0.0), x.ndim)
    return (x - mean) / np.sqrt(var + eps) * gamma + beta


def group_norm(
    x: ArrayLike, n_groups: int, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5
) -> Array:
    """Normalise each sample over groups of channels (and over space), then scale and shift each channel.

    x (N, C, ...), C divisible by `n_groups`. Wu & He 2018, section 3.1.
    """
    x = _channels_first("x", x)
    channels = x.shape[1]
    if n_groups < 1 or channels % n_groups:
        raise ValueError(f"n_groups: a divisor of the {channels} channels wanted, got {n_groups}")
    grouped = x.reshape(x.shape[0], n_groups, -1)
    xhat = _normalise(grouped, (-1,), eps)[0].reshape(x.shape)
    gamma = _along_channels(_per_feature("weight", weight, channels, 1.0), x.ndim)
    beta = _along_channels(_per_feature("bias", bias, channels, 0.0), x.ndim)
    return xhat * gamma + beta


def instance_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5
) -> Array:
    """Normalise each channel of each sample over space: group norm with one channel a group.

    x (N, C, ...) with at least one spatial axis. Ulyanov et al. 2016, section 2.
    """
    x = _channels_first("x", x)
    if x.ndim < 3:
        raise ValueError(f"x: a spatial axis, shape (N, C, L, ...), wanted, got {x.shape}")
    return group_norm(x, x.shape[1], weight, bias, eps)
