"""Chapter 3: layer norm, batch norm and their relatives."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from addnorm_lib.exercises.exercise import Exercise, Misconception, Shown
from addnorm_lib.exercises.inputs import normal
from addnorm_lib.messages import N_, _

# Most cases are float32, so that torch.nn's modules and functions take them; float32 sets these tolerances.
_FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}


def _floats(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed).float()


def _standardise(x, eps, dim=-1, correction=0):
    mean, var = x.mean(dim=dim, keepdim=True), x.var(dim=dim, correction=correction, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)


def _filled(name: str, values: Mapping[str, Any]) -> str:
    return "\n".join([f"{name} = {{", *(f'    "{key}": {value},' for key, value in values.items()), "}"])


def _blank(name: str, values: Mapping[str, Any]) -> str:
    return _filled(name, dict.fromkeys(values, "..."))


def _quoted(values: Mapping[str, str]) -> dict[str, str]:
    return {key: f'"{value}"' for key, value in values.items()}


# 3.1 ------------------------------------------------------------------------------------------------------------------


def layer_norm(x, weight, bias, eps):
    """Return γ·(x − μ)/√(σ² + ε) + β for x (..., D): every token's own μ and biased σ², over the last axis.

    `weight` is γ (D,), `bias` is β (D,), `eps` is ε. A new tensor of x's shape and dtype, float32. It should hold where
    μ is far larger than σ, too.
    """
    mean = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, correction=0, keepdim=True)
    return weight * (x - mean) / torch.sqrt(var + eps) + bias


def _layer_norm_cases():
    weight, bias = _floats(2.0, 1.0, 0.5), _floats(1.0, 0.0, -1.0)
    return [
        (_floats([1.0, 2.0, 3.0, 4.0]), torch.ones(4), torch.zeros(4), 1e-5),
        (_floats([-1.0, 0.0, 1.0]), weight, bias, 1e-5),
        (_floats([0.0, 0.0, 0.6], [5.0, 5.0, 5.0]), weight, bias, 0.1),
        (1e-3 * _normal(3, 3), torch.ones(3), torch.zeros(3), 1e-5),
        (1 + 2 * _normal(2, 3, 4), _normal(4, seed=1), _normal(4, seed=2), 1e-3),
        (_floats([8191.0, 8192.0, 8192.0, 8193.0]), torch.ones(4), torch.zeros(4), 1e-5),
    ]


def _affine(normalised):
    return lambda x, weight, bias, eps: weight * normalised(x, eps) + bias


def _over(dim=-1, correction=0):
    return _affine(lambda x, eps: _standardise(x, eps, dim, correction))


def _over_divisor(divisor):
    return _affine(lambda x, eps: (x - x.mean(dim=-1, keepdim=True)) / divisor(x, eps))


def _var(x):
    return x.var(dim=-1, correction=0, keepdim=True)


def _std(x, correction=0):
    return x.std(dim=-1, correction=correction, keepdim=True)


def _mean_square(x):
    return (x**2).mean(dim=-1, keepdim=True)


def _without_keepdim(x, eps):
    return (x - x.mean(dim=-1)) / torch.sqrt(x.var(dim=-1, correction=0) + eps)


def _to_unit_interval(x, eps):
    low, high = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True)
    return (x - low) / (high - low)


LAYER_NORM = Exercise(
    id="3.1",
    title=N_("layer norm from the formula"),
    claims=("C2", "C5", "C6", "C8"),
    solve=layer_norm,
    cases=_layer_norm_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "unbiased",
            _over(correction=1),
            N_("Is the variance divided by D − 1? var() and std() do so unless told; layer norm divides by D."),
        ),
        Misconception(
            "one pass",
            _affine(
                lambda x, eps: (
                    (x - x.mean(-1, keepdim=True))
                    / torch.sqrt((x**2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + eps)
                )
            ),
            N_("Is the variance E[x²] − μ²? Equal on paper; in float32 the digits cancel where μ is large."),
        ),
        Misconception(
            "unbiased, and ε outside the root",
            _over_divisor(lambda x, eps: _std(x, correction=1) + eps),
            N_("Is that std(...) + ε? std() divides by D − 1, and ε belongs under the root: √(σ² + ε), biased."),
        ),
        Misconception(
            "ε outside the root",
            _over_divisor(lambda x, eps: _std(x) + eps),
            N_("Is ε added to σ? It belongs under the root: √(σ² + ε), which differs where σ² is not far above ε."),
        ),
        Misconception(
            "no ε",
            _affine(lambda x, eps: _standardise(x, 0)),
            N_("Where is ε? Without it a constant token is divided by zero, and a small one is blown up."),
        ),
        Misconception(
            "unbiased, and no ε",
            _over_divisor(lambda x, eps: _std(x, correction=1)),
            N_("Is that x.std()? It divides by D − 1 and has no ε: √(σ² + ε) with the biased σ² is wanted."),
        ),
        Misconception(
            "ε left at its default",
            _affine(lambda x, eps: _standardise(x, 1e-5)),
            N_("Is `eps` handed on? PyTorch's own functions take 1e-5 unless told."),
        ),
        Misconception(
            "sum of squares",
            _over_divisor(lambda x, eps: torch.sqrt(_var(x) * x.shape[-1] + eps)),
            N_("Are the squared deviations summed? The variance is their mean: divide by D."),
        ),
        Misconception(
            "no root",
            _over_divisor(lambda x, eps: _var(x) + eps),
            N_("Is the root missing? x − μ is divided by √(σ² + ε), a deviation, not by the variance."),
        ),
        Misconception(
            "over the batch",
            _over(dim=0),
            N_("Are the statistics taken over axis 0? That is batch norm's way; a token needs its own: dim=-1."),
        ),
        Misconception(
            "over axis 1",
            _over(dim=1),
            N_("Is dim=1 meant as the last axis? It is for (N, D); in (B, T, D) it mixes tokens. Use dim=-1."),
        ),
        Misconception(
            "across tokens",
            _over(dim=-2),
            N_("Are the statistics taken across tokens? Each token has its own, over its features: dim=-1."),
        ),
        Misconception(
            "over tokens and features",
            _over(dim=(-2, -1)),
            N_("Do the tokens of a sequence share one μ and σ²? That is LayerNorm((T, D)); it lets tokens mix."),
        ),
        Misconception(
            "over everything",
            _affine(lambda x, eps: (x - x.mean()) / torch.sqrt(x.var(correction=0) + eps)),
            N_("Is there one mean for the whole tensor? mean() and var() without dim= reduce every axis."),
        ),
        Misconception(
            "keepdim forgotten",
            _affine(_without_keepdim),
            N_("Is keepdim=True missing? μ (N,) lines up with the features then; μ (N, 1) lines up with the tokens."),
        ),
        Misconception(
            "squeezed into [0, 1]",
            _affine(_to_unit_interval),
            N_("Is this min–max scaling? Layer norm's values are not confined to [0, 1]: mean 0, variance about 1."),
        ),
        Misconception(
            "RMSNorm",
            _affine(lambda x, eps: x / torch.sqrt(_mean_square(x) + eps)),
            N_("Is this RMSNorm? Layer norm subtracts the mean first."),
        ),
        Misconception(
            "mean kept",
            _affine(lambda x, eps: x / torch.sqrt(_var(x) + eps)),
            N_("Is the mean subtracted? Dividing alone leaves it in."),
        ),
        Misconception(
            "only centred",
            _affine(lambda x, eps: x - x.mean(dim=-1, keepdim=True)),
            N_("Is the division missing? Subtracting μ centres a token; its scale is still its own."),
        ),
        Misconception(
            "precedence",
            _affine(lambda x, eps: x - x.mean(dim=-1, keepdim=True) / torch.sqrt(_var(x) + eps)),
            N_("Is only μ divided? x − μ / … divides first: put x − μ in brackets."),
        ),
        Misconception(
            "γ and β forgotten",
            lambda x, weight, bias, eps: _standardise(x, eps),
            N_("Are γ and β applied? They come last: γ·x̂ + β."),
        ),
        Misconception(
            "γ forgotten",
            lambda x, weight, bias, eps: _standardise(x, eps) + bias,
            N_("Is γ applied? It scales each normalised feature, before β is added."),
        ),
        Misconception(
            "β forgotten", lambda x, weight, bias, eps: weight * _standardise(x, eps), N_("Is β added, after γ?")
        ),
        Misconception(
            "γ and β swapped",
            lambda x, weight, bias, eps: bias * _standardise(x, eps) + weight,
            N_("Are γ and β the wrong way round? `weight` multiplies, `bias` is added."),
        ),
        Misconception(
            "β before γ",
            lambda x, weight, bias, eps: weight * (_standardise(x, eps) + bias),
            N_("Is β multiplied by γ too? First γ·x̂, then + β."),
        ),
        Misconception(
            "γ and β before the norm",
            lambda x, weight, bias, eps: _standardise(weight * x + bias, eps),
            N_("Are γ and β applied to x before it is normalised? The norm would take out much of what they do."),
        ),
        Misconception(
            "γ under the fraction bar",
            lambda x, weight, bias, eps: _standardise(x, eps) / weight + bias,
            N_("Is that divided by γ? γ multiplies."),
        ),
        Misconception(
            "over the batch, unbiased",
            _over(dim=0, correction=1),
            N_(
                "Is that x.mean(0) and x.var(0)? Axis 0 is the batch, and var() divides by N − 1: dim=-1, correction=0."
            ),
        ),
        Misconception(
            "over everything, unbiased",
            _affine(lambda x, eps: (x - x.mean()) / torch.sqrt(x.var() + eps)),
            N_("Is that x.mean() and x.var()? Without dim= they reduce every axis, and var() divides by n − 1."),
        ),
        Misconception(
            "a loop over axis 0",
            _affine(lambda x, eps: _standardise(x, eps, dim=tuple(range(1, x.ndim)))),
            N_("Does a loop run over x? In (B, T, D) it yields sequences, not tokens: let dim=-1 do it."),
        ),
        Misconception(
            "ε in two places",
            _over_divisor(lambda x, eps: torch.sqrt(_var(x) + eps) + eps),
            N_("Is ε added twice? Once is enough, under the root."),
        ),
        Misconception(
            "ε squared",
            _over_divisor(lambda x, eps: torch.sqrt(_var(x) + eps**2)),
            N_("Is ε squared? It is added to σ² as it is."),
        ),
        Misconception(
            "ε as a lower bound",
            _over_divisor(lambda x, eps: torch.sqrt(_var(x).clamp(min=eps))),
            N_("Is ε a lower bound for σ²? It is added to every σ², large or small."),
        ),
        Misconception(
            "σ for σ²",
            _over_divisor(lambda x, eps: torch.sqrt(_std(x) + eps)),
            N_("Is std() under the root? It is a root already: var() belongs there."),
        ),
        Misconception(
            "mean of squares for σ²",
            _over_divisor(lambda x, eps: torch.sqrt(_mean_square(x) + eps)),
            N_("Is σ² the mean of x²? It is the mean of (x − μ)²: subtract μ there, too."),
        ),
        Misconception(
            "β subtracted",
            lambda x, weight, bias, eps: weight * _standardise(x, eps) - bias,
            N_("Is β subtracted? It is added."),
        ),
    ),
    hints=(
        N_("x.mean(dim=-1, keepdim=True) is μ with shape (..., 1), which lines up with every feature of its token."),
        N_("x.var(dim=-1, correction=0, keepdim=True) is the biased σ²; divide x − μ by torch.sqrt(var + eps)."),
        N_("γ and β are (D,) and line up with the last axis by themselves: weight * normalised + bias."),
    ),
)


# 3.2 ------------------------------------------------------------------------------------------------------------------


def rms_norm(x, weight, eps):
    """Return γ·x/√(mean(x²) + ε) for x (..., D), the mean over the last axis.

    `weight` is γ (D,), `eps` is ε. A new tensor of x's shape and dtype, float32.
    """
    mean_square = (x**2).mean(dim=-1, keepdim=True)
    return weight * x / torch.sqrt(mean_square + eps)


def _rms_norm_cases():
    return [
        (_floats([2.0, 2.0]), torch.ones(2), 1e-5),
        (_floats([3.0, 4.0], [0.0, 0.0]), _floats(1.0, 2.0), 0.5),
        (_floats([-7.0]), torch.ones(1), 1e-5),
        (1e-3 * _normal(3, 3), torch.ones(3), 1e-5),
        (1 + 2 * _normal(2, 3, 4), _normal(4, seed=1), 1e-3),
    ]


def _scaled(divisor):
    return lambda x, weight, eps: weight * x / divisor(x, eps)


RMS_NORM = Exercise(
    id="3.2",
    title=N_("RMSNorm: layer norm without the mean"),
    claims=("C1",),
    solve=rms_norm,
    cases=_rms_norm_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "layer norm",
            lambda x, weight, eps: weight * _standardise(x, eps),
            N_("Is the mean subtracted? That is layer norm; the two agree only where a token's mean is 0."),
        ),
        Misconception(
            "divided by the deviation",
            _scaled(lambda x, eps: torch.sqrt(_var(x) + eps)),
            N_("Is x divided by σ? The variance is taken about the mean; RMSNorm averages x² itself."),
        ),
        Misconception(
            "ε outside the root",
            _scaled(lambda x, eps: torch.sqrt(_mean_square(x)) + eps),
            N_("Is ε added outside the root? It belongs inside: √(mean(x²) + ε)."),
        ),
        Misconception(
            "no ε",
            _scaled(lambda x, eps: torch.sqrt(_mean_square(x))),
            N_("Where is ε? Without it a token of zeros is divided by zero."),
        ),
        Misconception(
            "ε left at its default",
            _scaled(lambda x, eps: torch.sqrt(_mean_square(x) + torch.finfo(x.dtype).eps)),
            N_("Is `eps` handed on? torch.nn.RMSNorm's default is the dtype's own, 1.2e-7 in float32."),
        ),
        Misconception(
            "sum",
            _scaled(lambda x, eps: torch.sqrt((x**2).sum(dim=-1, keepdim=True) + eps)),
            N_("Is x² summed? That makes every token's length 1; RMSNorm averages: the length becomes √D."),
        ),
        Misconception(
            "no root",
            _scaled(lambda x, eps: _mean_square(x) + eps),
            N_("Is the root missing? The R in RMS stands for it."),
        ),
        Misconception(
            "the mean, squared",
            _scaled(lambda x, eps: torch.sqrt(x.mean(dim=-1, keepdim=True) ** 2 + eps)),
            N_("Is the mean squared? First square every feature, then take the mean: else plus and minus cancel."),
        ),
        Misconception(
            "mean of absolute values",
            _scaled(lambda x, eps: x.abs().mean(dim=-1, keepdim=True) + eps),
            N_("Is that the mean of |x|? RMS is the root of the mean of x²."),
        ),
        Misconception(
            "over the batch",
            _scaled(lambda x, eps: torch.sqrt((x**2).mean(dim=0, keepdim=True) + eps)),
            N_("Is the mean square taken over axis 0? Each token has its own: dim=-1."),
        ),
        Misconception(
            "over axis 1",
            _scaled(lambda x, eps: torch.sqrt((x**2).mean(dim=1, keepdim=True) + eps)),
            N_("Is dim=1 meant as the last axis? In (B, T, D) it mixes tokens. Use dim=-1."),
        ),
        Misconception(
            "over everything",
            _scaled(lambda x, eps: torch.sqrt((x**2).mean() + eps)),
            N_("Is there one mean square for the whole tensor? Each token has its own: dim=-1, keepdim=True."),
        ),
        Misconception(
            "keepdim forgotten",
            _scaled(lambda x, eps: torch.sqrt((x**2).mean(dim=-1) + eps)),
            N_("Is keepdim=True missing? One number a token must line up with the tokens, not with the features."),
        ),
        Misconception(
            "γ forgotten",
            lambda x, weight, eps: x / torch.sqrt(_mean_square(x) + eps),
            N_("Is γ applied? RMSNorm has no β, but it keeps γ."),
        ),
        Misconception(
            "1 + γ",
            lambda x, weight, eps: (1 + weight) * x / torch.sqrt(_mean_square(x) + eps),
            N_("Is that 1 + γ? Some models store γ − 1 as their weight; here `weight` is γ itself."),
        ),
        Misconception(
            "γ before the norm",
            lambda x, weight, eps: weight * x / torch.sqrt(_mean_square(weight * x) + eps),
            N_("Is γ·x normalised? The mean square is that of x; γ comes afterwards."),
        ),
        Misconception(
            "divided by std()",
            _scaled(lambda x, eps: torch.sqrt(x.var(dim=-1, keepdim=True) + eps)),
            N_("Is x divided by var() or std()? Both subtract the mean first; RMSNorm averages x² itself."),
        ),
        Misconception(
            "norm plus ε",
            _scaled(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps),
            N_("Is x divided by its norm? That is a sum of squares; RMSNorm takes their mean, and ε under the root."),
        ),
        Misconception(
            "ε always 1e-5",
            _scaled(lambda x, eps: torch.sqrt(_mean_square(x) + 1e-5)),
            N_("Is ε written as 1e-5? Use the argument `eps`."),
        ),
        Misconception(
            "ε always 1e-6",
            _scaled(lambda x, eps: torch.sqrt(_mean_square(x) + 1e-6)),
            N_("Is ε written as 1e-6? Use the argument `eps`."),
        ),
    ),
    hints=(
        N_("RMS read backwards: square, mean, root. No mean of x itself occurs."),
        N_("(x**2).mean(dim=-1, keepdim=True), plus eps, under torch.sqrt; then x over it, times weight."),
    ),
)


# 3.3 ------------------------------------------------------------------------------------------------------------------


class _Axes:
    """Axes of a tensor of `ndim` dimensions: equal to any int, tuple, list or set that names them, from either end."""

    def __init__(self, *axes: int, ndim: int) -> None:
        self.axes, self.ndim = axes, ndim

    def __eq__(self, other: object) -> bool:
        named = other.axes if isinstance(other, _Axes) else self._named(other)
        return self._complaint(named) is None and {axis % self.ndim for axis in named} == set(self.axes)

    @staticmethod
    def _named(given: Any) -> Any:
        """Return the axes as Python ints, where they are axes at all."""
        given = given.tolist() if isinstance(given, (torch.Tensor, np.ndarray, np.integer)) else given
        return (given,) if isinstance(given, int) else given

    def _complaint(self, named: Any) -> str | None:
        if not isinstance(named, (tuple, list, set, frozenset, range)) or any(
            isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) for axis in named
        ):
            return _("axes are wanted, numbers as in (0, 2)")
        outside = next((axis for axis in named if not -self.ndim <= axis < self.ndim), None)
        if outside is not None:
            return _("there is no axis {axis}; they are 0 to {last}").format(axis=outside, last=self.ndim - 1)
        if len({axis % self.ndim for axis in named}) < len(named):
            return _("an axis is named twice")
        return None

    def complaint(self, given: Any) -> str | None:
        """Return why what was given names no axes of this tensor, or None where it names some, be they wrong."""
        return self._complaint(self._named(given))

    def __repr__(self) -> str:
        return repr(self.axes)


_REDUCED = {
    "LayerNorm(D) on (B, T, D)": _Axes(2, ndim=3),
    "BatchNorm1d(D) on (B, D)": _Axes(0, ndim=2),
    "BatchNorm2d(C) on (B, C, H, W)": _Axes(0, 2, 3, ndim=4),
    "InstanceNorm2d(C) on (B, C, H, W)": _Axes(2, 3, ndim=4),
    "GroupNorm(1, C) on (B, C, T)": _Axes(1, 2, ndim=3),
    "InstanceNorm1d(T) on (B, T, D)": _Axes(2, ndim=3),
    "BatchNorm1d(4) on (B, T, D), T = D = 4": _Axes(0, 2, ndim=3),
}


def _reduced(*changes):
    return {**_REDUCED, **{key: _Axes(*axes, ndim=_REDUCED[key].ndim) for key, axes in changes}}


_LN, _BN, _BN2, _IN2, _GN, _IN1, _BN3 = _REDUCED

AXES = Exercise(
    id="3.3",
    title=N_("which axes share one mean"),
    claims=("C1", "C5", "C17"),
    solve=_REDUCED,
    cases=None,
    value_name="reduced",
    value_stub="""\
# For each module of torch.nn: the axes over which one mean is taken, as in x.mean(dim=...), counted from 0: (0, 2)
"""
    + _blank("reduced", _REDUCED),
    value_source=_filled("reduced", _REDUCED),
    misconceptions=(
        Misconception(
            "kept axes",
            _reduced(
                (_LN, (0, 1)), (_BN, (1,)), (_BN2, (1,)), (_IN2, (0, 1)), (_GN, (0,)), (_IN1, (0, 1)), (_BN3, (1,))
            ),
            N_("Are these the axes that are kept? Name the ones that the mean runs over, that disappear."),
        ),
        Misconception(
            "layer norm over the batch",
            _reduced((_LN, (0,))),
            N_("Does LayerNorm reduce the batch? It gives each token its own mean, whatever else is in the batch."),
        ),
        Misconception(
            "layer norm across tokens",
            _reduced((_LN, (1,))),
            N_("Does LayerNorm take its mean across tokens? (D) names the axes it reduces: the features."),
        ),
        Misconception(
            "layer norm over tokens and features",
            _reduced((_LN, (1, 2))),
            N_("Does LayerNorm(D) reduce the tokens too? LayerNorm((T, D)) would; (D) is the last axis alone."),
        ),
        Misconception(
            "layer and batch norm swapped",
            _reduced((_LN, (0, 1)), (_BN, (1,))),
            N_("Are LayerNorm and BatchNorm1d the wrong way round? Batch norm's mean runs over the batch."),
        ),
        Misconception(
            "batch norm over the features",
            _reduced((_BN, (1,))),
            N_("Does BatchNorm1d reduce the features? It keeps one mean for each of them, over the batch."),
        ),
        Misconception(
            "batch norm without space",
            _reduced((_BN2, (0,))),
            N_("Has every pixel its own mean in BatchNorm2d? A channel has one, over the batch and all positions."),
        ),
        Misconception(
            "batch norm over all but the batch",
            _reduced((_BN2, (1, 2, 3))),
            N_("Does BatchNorm2d keep the batch apart? It keeps the channels apart and reduces the batch."),
        ),
        Misconception(
            "instance norm over the batch",
            _reduced((_IN2, (0, 2, 3))),
            N_("Does InstanceNorm2d reduce the batch? That is BatchNorm2d; an instance is one sample."),
        ),
        Misconception(
            "instance norm over the channels",
            _reduced((_IN2, (1, 2, 3))),
            N_("Does InstanceNorm2d reduce the channels? That is GroupNorm(1, C); here each channel is on its own."),
        ),
        Misconception(
            "group norm as layer norm",
            _reduced((_GN, (1,))),
            N_("Is GroupNorm(1, C) LayerNorm(C)? Only on (N, C). On (B, C, T) its one group holds all positions too."),
        ),
        Misconception(
            "group norm per channel",
            _reduced((_GN, (2,))),
            N_("Is each channel alone in GroupNorm(1, C)? The 1 is the number of groups; C groups would do that."),
        ),
        Misconception(
            "instance norm over time",
            _reduced((_IN1, (1,))),
            N_("Does InstanceNorm1d know that axis 1 is time? It takes axis 1 for channels and reduces the rest."),
        ),
        Misconception(
            "batch norm knows the features",
            _reduced((_BN3, (0, 1))),
            N_("Does BatchNorm1d find the features in (B, T, D)? It takes axis 1, the tokens, for channels."),
        ),
        Misconception(
            "batch norm over everything",
            _reduced((_BN, (0, 1))),
            N_("Does BatchNorm1d take one mean for all features? It keeps one for each: only the batch goes."),
        ),
        Misconception(
            "batch norm as instance norm",
            _reduced((_BN2, (2, 3))),
            N_("Does BatchNorm2d keep the samples apart? That is InstanceNorm2d; batch norm reduces the batch."),
        ),
        Misconception(
            "batch norm over the channels",
            _reduced((_BN2, (1,))),
            N_("Does BatchNorm2d reduce the channels? They are the axis that it keeps."),
        ),
        Misconception(
            "group norm over the batch",
            _reduced((_GN, (0, 1, 2))),
            N_("Does GroupNorm reduce the batch? Every sample has statistics of its own."),
        ),
        Misconception(
            "instance norm as a whole",
            _reduced((_IN1, (1, 2))),
            N_("Does InstanceNorm1d keep axis 0 only? It takes axis 1 for channels and keeps it, too."),
        ),
        Misconception(
            "instance norm as batch norm",
            _reduced((_IN1, (0, 2))),
            N_("Does InstanceNorm1d reduce the batch? That is BatchNorm1d; an instance is one sample."),
        ),
        Misconception(
            "batch norm as layer norm",
            _reduced((_BN3, (2,))),
            N_("Does BatchNorm1d keep the batch? Its mean runs over axis 0, too."),
        ),
    ),
    hints=(
        N_("Batch norm and instance norm take axis 1 for channels, whatever you call it, and keep it."),
        N_("Poke: run the module on x, change one element, and see which outputs move. They share a mean."),
        N_("LayerNorm counts from the end; batch norm reduces all but axis 1; instance norm also keeps axis 0."),
    ),
)


# 3.4 ------------------------------------------------------------------------------------------------------------------


def batch_norm(x, running_mean, running_var, training, momentum, eps):
    """Return (y, running_mean, running_var) for x (N, C), without γ and β; change no argument in place.

    In training y is normalised by the batch's mean and biased variance, and a running statistic becomes
    (1 − momentum)·old + momentum·new, where the new variance is unbiased; raise ValueError where N is 1.
    Otherwise y is normalised by the running statistics, which come back as they are.
    """
    if not training:
        return (x - running_mean) / torch.sqrt(running_var + eps), running_mean, running_var
    if len(x) == 1:
        raise ValueError("x: more than one sample wanted in training")
    mean = x.mean(dim=0)
    y = (x - mean) / torch.sqrt(x.var(dim=0, correction=0) + eps)
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_var = (1 - momentum) * running_var + momentum * x.var(dim=0, correction=1)
    return y, running_mean, running_var


def _batch_norm_cases():
    mean, var = _floats(1.0, -1.0), _floats(4.0, 0.25)
    return [
        (_floats([0.0], [1.0], [2.0], [3.0]), torch.zeros(1), torch.ones(1), True, 0.1, 1e-5),
        (_floats([1.0, 0.0], [3.0, 4.0]), mean, var, False, 0.1, 1e-5),
        (_floats([1.0, 0.0], [3.0, 4.0]), mean, var, True, 0.3, 0.5),
        (_floats([3.0, -0.99]), mean, _floats(4.0, 1e-5), False, 0.1, 1e-5),
        (_floats([3.0, 4.0]), mean, var, True, 0.1, 1e-5),
        (1 + 2 * _normal(5, 3), _normal(3, seed=1), _normal(3, seed=2).abs(), True, 0.9, 1e-3),
        (1 + 2 * _normal(5, 3), _normal(3, seed=1), 0.1 * _normal(3, seed=2).abs(), False, 0.9, 0.1),
    ]


def _batch_norm_with(
    normalised_by=0, running_by=1, dim=0, flip_momentum=False, divisor=lambda var, eps: torch.sqrt(var + eps)
):
    def wrong(x, running_mean, running_var, training, momentum, eps):
        if not training:
            return (x - running_mean) / divisor(running_var, eps), running_mean, running_var
        if len(x) == 1:
            raise ValueError
        old = momentum if flip_momentum else 1 - momentum
        mean = x.mean(dim=dim, keepdim=dim != 0)
        y = (x - mean) / divisor(x.var(dim=dim, correction=normalised_by, keepdim=dim != 0), eps)
        running_mean = old * running_mean + (1 - old) * x.mean(dim=0)
        running_var = old * running_var + (1 - old) * x.var(dim=0, correction=running_by)
        return y, running_mean, running_var

    return wrong


def _batch_in_evaluation(x, running_mean, running_var, training, momentum, eps):
    y, new_mean, new_var = batch_norm(x, running_mean, running_var, True, momentum, eps)
    return (y, new_mean, new_var) if training else (y, running_mean, running_var)


def _batch_in_evaluation_even_of_one(x, running_mean, running_var, training, momentum, eps):
    if training:
        return batch_norm(x, running_mean, running_var, True, momentum, eps)
    return _standardise(x, eps, dim=0), running_mean, running_var


def _one_sample_moves(y, x, running_mean, running_var, momentum):
    mean, var = ((1 - momentum) * old + momentum * new for old, new in ((running_mean, x[0]), (running_var, torch.nan)))
    return y, mean, var


def _updated_in_evaluation(x, running_mean, running_var, training, momentum, eps):
    y, _mean, _var = batch_norm(x, running_mean, running_var, training, momentum, eps)
    if len(x) == 1:
        return _one_sample_moves(y, x, running_mean, running_var, momentum)
    return y, *batch_norm(x, running_mean, running_var, True, momentum, eps)[1:]


def _normalised_by_running(x, running_mean, running_var, training, momentum, eps):
    _y, mean, var = batch_norm(x, running_mean, running_var, training, momentum, eps)
    return (x - mean) / torch.sqrt(var + eps), mean, var


def _never_moved(x, running_mean, running_var, training, momentum, eps):
    return batch_norm(x, running_mean, running_var, training, momentum, eps)[0], running_mean, running_var


def _one_sample_accepted(x, running_mean, running_var, training, momentum, eps):
    if not training or len(x) > 1:
        return batch_norm(x, running_mean, running_var, training, momentum, eps)
    return _one_sample_moves(torch.zeros_like(x), x, running_mean, running_var, momentum)


def _one_sample_refused(x, running_mean, running_var, training, momentum, eps):
    if len(x) == 1:
        raise ValueError
    return batch_norm(x, running_mean, running_var, training, momentum, eps)


def _running_by(move, variance=torch.var):
    def wrong(x, running_mean, running_var, training, momentum, eps):
        y = batch_norm(x, running_mean, running_var, training, momentum, eps)[0]
        if not training:
            return y, running_mean, running_var
        return y, move(running_mean, x.mean(dim=0), momentum), move(running_var, variance(x, dim=0), momentum)

    return wrong


def _normalised_by_old(x, running_mean, running_var, training, momentum, eps):
    y = batch_norm(x, running_mean, running_var, False, momentum, eps)[0]
    return y, *batch_norm(x, running_mean, running_var, training, momentum, eps)[1:]


def _evaluated_by(divisor):
    def wrong(x, running_mean, running_var, training, momentum, eps):
        if training:
            return batch_norm(x, running_mean, running_var, training, momentum, eps)
        return (x - running_mean) / divisor(running_var, eps), running_mean, running_var

    return wrong


def _variance_first(*arguments):
    y, mean, var = batch_norm(*arguments)
    return y, var, mean


BATCH_NORM = Exercise(
    id="3.4",
    title=N_("batch norm, in training and in evaluation"),
    claims=("C10", "C12"),
    solve=batch_norm,
    cases=_batch_norm_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "running variance biased",
            _batch_norm_with(running_by=0),
            N_(
                "Is the running variance biased? It moves towards the unbiased one (N − 1); only y uses the biased one."
            ),
        ),
        Misconception(
            "normalised by the unbiased variance",
            _batch_norm_with(normalised_by=1),
            N_("Is y divided by the unbiased deviation? The batch is normalised by the biased one (divided by N)."),
        ),
        Misconception(
            "variances swapped",
            _batch_norm_with(normalised_by=1, running_by=0),
            N_("Are the two variances the wrong way round? y takes the biased one, running_var the unbiased one."),
        ),
        Misconception(
            "momentum reversed",
            _batch_norm_with(flip_momentum=True),
            N_("Is momentum the share of the old value? In PyTorch it is the share of the new one: 0.1 moves slowly."),
        ),
        Misconception(
            "over the features",
            _batch_norm_with(dim=1),
            N_("Is y normalised over axis 1? That is layer norm; batch norm's mean runs over the samples, axis 0."),
        ),
        Misconception(
            "ε outside the root",
            _batch_norm_with(divisor=lambda var, eps: torch.sqrt(var) + eps),
            N_("Is ε added outside the root? It belongs inside, in both modes."),
        ),
        Misconception(
            "no ε",
            _batch_norm_with(divisor=lambda var, eps: torch.sqrt(var)),
            N_("Where is ε? It is added to the variance in both modes."),
        ),
        Misconception(
            "ε left at its default",
            _batch_norm_with(divisor=lambda var, eps: torch.sqrt(var + 1e-5)),
            N_("Is `eps` handed on? PyTorch's own functions take 1e-5 unless told."),
        ),
        Misconception(
            "the batch in evaluation",
            _batch_in_evaluation,
            N_("Does evaluation read the batch? There y depends on the running statistics alone: any N will do."),
        ),
        Misconception(
            "the batch in evaluation, even of one",
            _batch_in_evaluation_even_of_one,
            N_("Is a sample's output in evaluation made from its batch-mates? Use the running statistics there."),
        ),
        Misconception(
            "`training` ignored",
            lambda x, mean, var, training, momentum, eps: batch_norm(x, mean, var, True, momentum, eps),
            N_("Is `training` read at all? torch.is_grad_enabled() is another switch, and on here in both modes."),
        ),
        Misconception(
            "updated in evaluation",
            _updated_in_evaluation,
            N_("Do the running statistics move in evaluation? They move in training only."),
        ),
        Misconception(
            "running statistics in training",
            _normalised_by_running,
            N_(
                "Is the training batch normalised by the updated running statistics? It uses its own mean and variance."
            ),
        ),
        Misconception(
            "running statistics never moved",
            _never_moved,
            N_("Do the running statistics move in training? Return the new ones."),
        ),
        Misconception(
            "one sample accepted",
            _one_sample_accepted,
            N_("What is the unbiased variance of one sample? 0/0: in training raise a ValueError where N is 1."),
        ),
        Misconception(
            "one sample always refused",
            _one_sample_refused,
            N_("Is one sample refused in evaluation too? There no batch statistic is taken: any N will do."),
        ),
        Misconception(
            "variance first",
            _variance_first,
            N_("Is the order (y, running_mean, running_var)? The variance seems to come second."),
        ),
        Misconception(
            "running statistics replaced",
            _running_by(lambda old, new, momentum: new),
            N_("Do the batch's statistics replace the running ones? (1 − momentum) of the old ones stays."),
        ),
        Misconception(
            "old value not scaled",
            _running_by(lambda old, new, momentum: old + momentum * new),
            N_("Is the old value multiplied by 1 − momentum? The two shares add up to 1."),
        ),
        Misconception(
            "momentum left at its default",
            _running_by(lambda old, new, momentum: 0.9 * old + 0.1 * new),
            N_("Is `momentum` handed on? PyTorch's own functions take 0.1 unless told."),
        ),
        Misconception(
            "running deviation",
            _running_by(lambda old, new, momentum: (1 - momentum) * old + momentum * new, torch.std),
            N_("Does running_var move towards std()? It holds variances."),
        ),
        Misconception(
            "old running statistics in training",
            _normalised_by_old,
            N_("Is the training batch normalised by the running statistics? It uses its own mean and variance."),
        ),
        Misconception(
            "no ε in evaluation",
            _evaluated_by(lambda var, eps: torch.sqrt(var)),
            N_("Where is ε in evaluation? It is added to the variance in both modes."),
        ),
        Misconception(
            "ε outside the root in evaluation",
            _evaluated_by(lambda var, eps: torch.sqrt(var) + eps),
            N_("Is ε outside the root in evaluation? It is added to the variance in both modes."),
        ),
    ),
    hints=(
        N_("Two branches: `if not training` needs one line, with the running statistics in place of the batch's."),
        N_("In training: mean and x.var(dim=0, correction=0) for y; x.var(dim=0, correction=1) for running_var."),
        N_("New names on the left: running_var = (1 - momentum) * running_var + …; running_var *= … would change it."),
    ),
)


# 3.5 ------------------------------------------------------------------------------------------------------------------


def group_norm(x, n_groups, eps):
    """Return x (N, C, L) normalised over groups of C/n_groups neighbouring channels and all L positions, biased.

    Every sample has its own statistics, one pair a group. Without γ and β; `n_groups` divides C. float32.
    """
    groups = x.reshape(len(x), n_groups, -1)
    mean = groups.mean(dim=-1, keepdim=True)
    var = groups.var(dim=-1, correction=0, keepdim=True)
    return ((groups - mean) / torch.sqrt(var + eps)).reshape(x.shape)


def _group_norm_cases():
    return [
        (_floats([[0.0, 1.0], [2.0, 3.0]]), 1, 1e-5),
        (_floats([[0.0, 1.0], [2.0, 6.0], [1.0, 2.0], [3.0, 5.0]]), 2, 1e-5),
        (_floats([[1.0], [2.0]], [[3.0], [5.0]]), 2, 0.1),
        (1 + 2 * _normal(2, 6, 5), 3, 0.1),
        (1 + 2 * _normal(3, 4, 2, seed=1), 4, 1e-3),
        (1 + 2 * _normal(3, 6, 2, seed=2), 2, 1e-3),
    ]


def _grouped(normalise):
    """Apply `normalise` to x as (N, G, C/G, L)."""

    def wrong(x, n_groups, eps):
        n, channels, length = x.shape
        grouped = x.reshape(n, n_groups, channels // n_groups, length)
        return normalise(grouped, eps).reshape(x.shape)

    return wrong


def _interleaved(x, n_groups, eps):
    n, channels, length = x.shape
    grouped = x.reshape(n, channels // n_groups, n_groups, length)
    return _standardise(grouped, eps, dim=(1, 3)).reshape(x.shape)


GROUP_NORM = Exercise(
    id="3.5",
    title=N_("group norm, between layer norm and instance norm"),
    claims=("C17",),
    solve=group_norm,
    cases=_group_norm_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "each position on its own",
            _grouped(lambda g, eps: _standardise(g, eps, dim=2)),
            N_("Has each position its own mean? Then one group would be LayerNorm(C); group norm runs over L too."),
        ),
        Misconception(
            "layer norm over the channels",
            lambda x, n_groups, eps: _standardise(x, eps, dim=1),
            N_("Is this LayerNorm(C) at each position? One group is not that: it holds all channels *and* positions."),
        ),
        Misconception(
            "instance norm",
            lambda x, n_groups, eps: _standardise(x, eps, dim=2),
            N_("Is every channel normalised alone? That is instance norm, C groups; a group shares one mean."),
        ),
        Misconception(
            "one group",
            lambda x, n_groups, eps: _standardise(x, eps, dim=(1, 2)),
            N_("Is n_groups used? All channels share one mean here, as in one group."),
        ),
        Misconception(
            "over the batch",
            _grouped(lambda g, eps: _standardise(g, eps, dim=(0, 2, 3))),
            N_("Do samples share a mean? Each sample is normalised alone, so that the batch size does not matter."),
        ),
        Misconception(
            "batch norm",
            lambda x, n_groups, eps: _standardise(x, eps, dim=(0, 2)),
            N_("Is this batch norm? Group norm keeps the samples apart and puts channels together."),
        ),
        Misconception(
            "interleaved",
            _interleaved,
            N_("Are channels 0, G, 2G, … put together? A group is a run of neighbours: reshape (N, G, C/G, L)."),
        ),
        Misconception(
            "channels per group",
            lambda x, n_groups, eps: group_norm(x, x.shape[1] // n_groups, eps),
            N_("Is n_groups taken for the channels in a group? It is the number of groups."),
        ),
        Misconception(
            "samples reshaped away",
            lambda x, n_groups, eps: _standardise(x.reshape(n_groups, -1), eps).reshape(x.shape),
            N_("Where is N in the reshape? (G, −1) mixes samples: (N, G, −1)."),
        ),
        Misconception(
            "shape not restored",
            lambda x, n_groups, eps: _standardise(x.reshape(len(x), n_groups, -1), eps),
            N_("Is the result still grouped? Give it x's shape back."),
        ),
        Misconception(
            "unbiased",
            lambda x, n_groups, eps: _standardise(x.reshape(len(x), n_groups, -1), eps, correction=1).reshape(x.shape),
            N_("Is the variance divided by one less than the count? Normalising uses the biased one: correction=0."),
        ),
        Misconception(
            "ε outside the root",
            _grouped(
                lambda g, eps: (
                    (g - g.mean(dim=(2, 3), keepdim=True)) / (g.std(dim=(2, 3), correction=0, keepdim=True) + eps)
                )
            ),
            N_("Is ε added outside the root? It belongs inside: √(σ² + ε)."),
        ),
        Misconception(
            "ε left at its default",
            lambda x, n_groups, eps: group_norm(x, n_groups, 1e-5),
            N_("Is `eps` handed on? PyTorch's own functions take 1e-5 unless told."),
        ),
        Misconception(
            "a group of one number kept",
            lambda x, n_groups, eps: x if x.shape[1] * x.shape[2] == n_groups else group_norm(x, n_groups, eps),
            N_("Is a group of one number left alone? It is its own mean: the output is 0, so such a norm erases x."),
        ),
        Misconception(
            "no ε",
            lambda x, n_groups, eps: group_norm(x, n_groups, 0),
            N_("Where is ε? Without it a group of one number is 0/0."),
        ),
        Misconception(
            "no root",
            _grouped(
                lambda g, eps: (
                    (g - g.mean(dim=(2, 3), keepdim=True)) / (g.var(dim=(2, 3), correction=0, keepdim=True) + eps)
                )
            ),
            N_("Is the root missing? x − μ is divided by √(σ² + ε)."),
        ),
        Misconception(
            "not centred",
            _grouped(lambda g, eps: g / torch.sqrt((g**2).mean(dim=(2, 3), keepdim=True) + eps)),
            N_("Is the group's mean subtracted? Without that it is an RMSNorm of groups."),
        ),
        Misconception(
            "neighbouring positions",
            lambda x, n_groups, eps: _standardise(x.transpose(1, 2).reshape(len(x), n_groups, -1), eps).reshape(
                x.shape
            ),
            N_("Are the axes turned before the reshape? x is (N, C, L) already: channels first."),
        ),
    ),
    hints=(
        N_("reshape can do the grouping: which shape puts all numbers of a group on one axis?"),
        N_("x.reshape(N, n_groups, -1), normalise over the last axis as layer norm does, reshape back."),
    ),
)


# 3.6 ------------------------------------------------------------------------------------------------------------------


def restore(y, mean, var, weight, bias, eps):
    """Return the x (T, D) from which layer norm made y = γ·(x − μ)/√(σ² + ε) + β.

    Each token has its own μ and biased σ²: `mean` and `var` are (T,). `weight` is γ (D,), without zeros, `bias` is
    β (D,), `eps` is ε.
    """
    normalised = (y - bias) / weight
    return normalised * torch.sqrt(var + eps)[:, None] + mean[:, None]


def _restore_cases():
    weight, bias = _floats(2.0, 0.5), _floats(1.0, -1.0)
    made_from = [
        (_floats([1.0, 3.0]), torch.ones(2), torch.zeros(2), 1e-5),
        (_floats([1.0, 3.0], [8.0, 2.0]), torch.ones(2), torch.zeros(2), 0.5),
        (_floats([1.0, 3.0], [8.0, 2.0]), weight, bias, 0.5),
        (1 + 2 * _normal(3, 4), 1 + _normal(4, seed=1) ** 2, _normal(4, seed=2), 0.1),
        (0.1 * _normal(3, 4), 1 + _normal(4, seed=1) ** 2, _normal(4, seed=2), 0.1),
    ]
    return [
        (layer_norm(x, w, b, eps), x.mean(dim=-1), x.var(dim=-1, correction=0), w, b, eps) for x, w, b, eps in made_from
    ]


def _restored(scale, shift=lambda mean: mean[:, None]):
    return lambda y, mean, var, weight, bias, eps: (y - bias) / weight * scale(var, eps) + shift(mean)


def _token_scale(var, eps):
    return torch.sqrt(var + eps)[:, None]


RESTORE = Exercise(
    id="3.6",
    title=N_("undo a layer norm"),
    claims=("C6", "C7"),
    solve=restore,
    cases=_restore_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "nothing undone",
            lambda y, mean, var, weight, bias, eps: y,
            N_("Is y returned as it is? γ = 1, β = 0 does not bring x back: μ and σ of each token are gone from y."),
        ),
        Misconception(
            "only γ and β undone",
            lambda y, mean, var, weight, bias, eps: (y - bias) / weight,
            N_("Are μ and σ put back? γ and β are one pair for all tokens; each token's own μ and σ went before them."),
        ),
        Misconception(
            "no ε",
            _restored(lambda var, eps: torch.sqrt(var)[:, None]),
            N_("Is ε undone too? x − μ was divided by √(σ² + ε), so σ alone is too small a factor."),
        ),
        Misconception(
            "ε outside the root",
            _restored(lambda var, eps: torch.sqrt(var)[:, None] + eps),
            N_("Is ε added outside the root? Multiply by what was divided by: √(σ² + ε)."),
        ),
        Misconception(
            "no root",
            _restored(lambda var, eps: (var + eps)[:, None]),
            N_("Is the root missing? The deviation was divided out, not the variance."),
        ),
        Misconception(
            "per feature",
            _restored(lambda var, eps: torch.sqrt(var + eps), lambda mean: mean),
            N_("Do μ and σ line up with the features? They belong to the tokens: mean[:, None], shape (T, 1)."),
        ),
        Misconception(
            "mean per feature",
            _restored(_token_scale, lambda mean: mean),
            N_("Does μ line up with the features? It belongs to the tokens: mean[:, None], shape (T, 1)."),
        ),
        Misconception(
            "deviation per feature",
            _restored(lambda var, eps: torch.sqrt(var + eps)),
            N_("Does σ line up with the features? It belongs to the tokens: [:, None], shape (T, 1)."),
        ),
        Misconception(
            "mean forgotten", _restored(_token_scale, lambda mean: 0), N_("Is μ added back? It was subtracted first.")
        ),
        Misconception(
            "mean before the scale",
            lambda y, mean, var, weight, bias, eps: ((y - bias) / weight + mean[:, None]) * _token_scale(var, eps),
            N_("Is μ multiplied by σ? Undo the steps in reverse: first the division, then − μ."),
        ),
        Misconception(
            "β after γ",
            lambda y, mean, var, weight, bias, eps: (y / weight - bias) * _token_scale(var, eps) + mean[:, None],
            N_("Is γ undone before β? β was added last, so it is taken off first."),
        ),
        Misconception(
            "γ and β ignored",
            lambda y, mean, var, weight, bias, eps: y * _token_scale(var, eps) + mean[:, None],
            N_("Are γ and β undone? They were applied last, so they come off first."),
        ),
        Misconception(
            "applied again",
            lambda y, mean, var, weight, bias, eps: weight * (y - mean[:, None]) / _token_scale(var, eps) + bias,
            N_("Is this the norm once more? Each step must be turned round: multiply where it divides."),
        ),
        Misconception(
            "β ignored",
            lambda y, mean, var, weight, bias, eps: y / weight * _token_scale(var, eps) + mean[:, None],
            N_("Is β taken off? It was added last, so y − β comes first."),
        ),
        Misconception(
            "β added",
            lambda y, mean, var, weight, bias, eps: (y + bias) / weight * _token_scale(var, eps) + mean[:, None],
            N_("Is β added once more? The norm added it: subtract it."),
        ),
        Misconception(
            "γ ignored",
            lambda y, mean, var, weight, bias, eps: (y - bias) * _token_scale(var, eps) + mean[:, None],
            N_("Is γ undone? y − β is divided by it."),
        ),
        Misconception(
            "γ multiplied",
            lambda y, mean, var, weight, bias, eps: (y - bias) * weight * _token_scale(var, eps) + mean[:, None],
            N_("Is that multiplied by γ? The norm did: divide by it."),
        ),
        Misconception(
            "σ divided",
            lambda y, mean, var, weight, bias, eps: (y - bias) / weight / _token_scale(var, eps) + mean[:, None],
            N_("Is that divided by the deviation? The norm did: multiply by it."),
        ),
        Misconception(
            "μ subtracted",
            _restored(_token_scale, lambda mean: -mean[:, None]),
            N_("Is μ subtracted once more? The norm did: add it."),
        ),
        Misconception(
            "ε left at its default",
            _restored(lambda var, eps: torch.sqrt(var + 1e-5)[:, None]),
            N_("Is ε written as 1e-5? Use the argument `eps`."),
        ),
        Misconception(
            "ε subtracted",
            _restored(lambda var, eps: torch.sqrt(var - eps)[:, None]),
            N_("Is ε subtracted? The factor is the very root that was divided by: √(σ² + ε)."),
        ),
        Misconception(
            "a second layer norm",
            lambda y, mean, var, weight, bias, eps: layer_norm(y, weight, bias, eps),
            N_("Is that a layer norm of y? It cannot know the token's old μ and σ: use `mean` and `var`."),
        ),
        Misconception(
            "one μ for all tokens",
            lambda y, mean, var, weight, bias, eps: (y - bias) / weight * torch.sqrt(var.mean() + eps) + mean.mean(),
            N_("Is there one μ and σ for all tokens? Each has its own: mean[:, None]."),
        ),
    ),
    hints=(
        N_("Four steps made y: − μ, / √(σ² + ε), · γ, + β. Undo them from the last to the first."),
        N_("γ and β line up with the features as they are; μ and σ belong to tokens: mean[:, None] is (T, 1)."),
    ),
)


# 3.7 ------------------------------------------------------------------------------------------------------------------


def input_std(output_std, eps):
    """Return the deviation σ of a token that layer norm (γ = 1, β = 0) gives the deviation `output_std`.

    Both are biased deviations, numbers of at least 0; return a float. Raise ValueError where no token can have such an
    output: from 1 on.
    """
    if output_std >= 1:
        raise ValueError("output_std: a number below 1 wanted")
    return output_std * math.sqrt(eps / (1 - output_std**2))


def _below_one(formula):
    def wrong(output_std, eps):
        if output_std >= 1:
            raise ValueError
        return formula(output_std, eps)

    return wrong


INPUT_STD = Exercise(
    id="3.7",
    title=N_("make layer norm fail: how small must a token be?"),
    claims=("C3", "C4"),
    solve=input_std,
    cases=lambda: [(0.6, 0.04), (0.8, 1e-4), (0.1, 1e-12), (0.0, 1e-5), (1.0, 1e-5), (1.5, 1e-5)],
    rtol=1e-5,
    atol=0.0,
    misconceptions=(
        Misconception(
            "the output's deviation",
            _below_one(lambda s, eps: s / math.sqrt(s**2 + eps)),
            N_("Is `output_std` put into the norm once more? That is the way forward; σ is what goes in."),
        ),
        Misconception(
            "the variance",
            _below_one(lambda s, eps: s**2 * eps / (1 - s**2)),
            N_("Is this σ²? Take the root: a deviation is wanted."),
        ),
        Misconception(
            "output_std as a variance",
            _below_one(lambda s, eps: math.sqrt(s * eps / (1 - s))),
            N_("Is `output_std` taken for the variance σ²/(σ² + ε)? It is that variance's root."),
        ),
        Misconception(
            "ε outside the root",
            _below_one(lambda s, eps: s * eps / (1 - s)),
            N_("Is this solved from σ/(σ + ε)? ε stands under the root: the output's deviation is σ/√(σ² + ε)."),
        ),
        Misconception(
            "small tokens only",
            _below_one(lambda s, eps: s * math.sqrt(eps)),
            N_("Is σ² left out beside ε? σ/√ε holds only far below √ε; solve s² = σ²/(σ² + ε) in full."),
        ),
        Misconception(
            "√ε",
            _below_one(lambda s, eps: math.sqrt(eps)),
            N_("Is this √ε, whatever `output_std` is? At σ = √ε the output's variance is ½."),
        ),
        Misconception(
            "plus",
            _below_one(lambda s, eps: s * math.sqrt(eps / (1 + s**2))),
            N_("Is the sign under the root right? s²·(σ² + ε) = σ² gives σ²·(1 − s²) = s²·ε."),
        ),
        Misconception(
            "root of ε alone",
            _below_one(lambda s, eps: s * math.sqrt(eps) / (1 - s**2)),
            N_("Is 1 − s² under the root too? σ² = s²·ε/(1 − s²), and the root is taken of it all."),
        ),
        Misconception(
            "square forgotten",
            _below_one(lambda s, eps: s * math.sqrt(eps / (1 - s))),
            N_("Is that 1 − s? s² = σ²/(σ² + ε): the square stays."),
        ),
        Misconception(
            "no limit at 1",
            lambda s, eps: s * math.sqrt(eps / (1 - s**2)),
            N_("Can the output's deviation be 1? σ²/(σ² + ε) stays below 1 for every finite σ: raise a ValueError."),
        ),
        Misconception(
            "infinite at 1",
            lambda s, eps: s * math.sqrt(eps / (1 - s**2)) if s < 1 else math.inf,
            N_("Is there a token of infinite deviation? No token reaches 1: raise a ValueError."),
        ),
        Misconception(
            "ε for √ε",
            _below_one(lambda s, eps: s * eps / math.sqrt(1 - s**2)),
            N_("Is ε under the root, too? σ² = s²·ε/(1 − s²), and the root is taken of it all."),
        ),
        Misconception(
            "s lost",
            _below_one(lambda s, eps: math.sqrt(eps / (1 - s**2))),
            N_("Where is s in the numerator? σ² = s²·ε/(1 − s²)."),
        ),
        Misconception(
            "s not squared",
            _below_one(lambda s, eps: math.sqrt(s * eps / (1 - s**2))),
            N_("Is s squared in the numerator? σ² = s²·ε/(1 − s²)."),
        ),
        Misconception(
            "no root, s not squared",
            _below_one(lambda s, eps: s * eps / (1 - s**2)),
            N_("Is the root missing, and a square? σ² = s²·ε/(1 − s²)."),
        ),
        Misconception(
            "ε always 1e-5",
            _below_one(lambda s, eps: s * math.sqrt(1e-5 / (1 - s**2))),
            N_("Is ε written as 1e-5? Use the argument `eps`."),
        ),
        Misconception(
            "negative",
            _below_one(lambda s, eps: -s * math.sqrt(eps / (1 - s**2))),
            N_("Is that the negative root? A deviation is at least 0."),
        ),
        Misconception(
            "0.5 always",
            _below_one(lambda s, eps: math.sqrt(eps / 3)),
            N_("Is that σ for an output of 0.5 only? Keep `output_std` in the formula."),
        ),
    ),
    hints=(
        N_("Before γ, the output's variance is σ²/(σ² + ε). Set it equal to output_std² and solve for σ."),
        N_("s²·(σ² + ε) = σ², so σ² = s²·ε/(1 − s²). Which s makes that impossible?"),
    ),
)


# 3.8 ------------------------------------------------------------------------------------------------------------------


def layer_norm_backward(grad, x, weight, eps):
    """Return (dx, dweight, dbias) of y = γ·x̂ + β, x̂ = (x − μ)/√(σ² + ε), given `grad`, the loss's gradient ∂/∂y.

    grad and x (..., D); `weight` is γ (D,). With r = 1/√(σ² + ε), w = γ·grad, c₁ = mean(x̂·w) and c₂ = mean(w), each
    token's own means: dx = (w − x̂·c₁ − c₂)·r, shape (..., D). dweight and dbias (D,) are sums over all tokens.
    """
    mean = x.mean(dim=-1, keepdim=True)
    r = torch.rsqrt(x.var(dim=-1, correction=0, keepdim=True) + eps)
    normalised = (x - mean) * r
    w = weight * grad
    c1 = (normalised * w).mean(dim=-1, keepdim=True)
    c2 = w.mean(dim=-1, keepdim=True)
    dx = (w - normalised * c1 - c2) * r
    return dx, (grad * normalised).flatten(0, -2).sum(dim=0), grad.flatten(0, -2).sum(dim=0)


def _backward_cases():
    return [
        (_floats([1.0, 0.0, 0.0]), _floats([-1.0, 0.0, 1.0]), torch.ones(3), 1e-5),
        (
            _floats([1.0, 0.0, 2.0], [0.0, 1.0, 0.0]),
            _floats([0.0, 1.0, 5.0], [2.0, 0.0, 1.0]),
            _floats(2.0, 1.0, 0.5),
            0.5,
        ),
        (_normal(2, 3, 4), 1 + 2 * _normal(2, 3, 4, seed=1), _normal(4, seed=2), 1e-3),
    ]


def _backward_with(
    dx=lambda w, xhat, c1, c2, r: (w - xhat * c1 - c2) * r,
    gamma=True,
    correction=0,
    mean=lambda value: value.mean(dim=-1, keepdim=True),
    dweight=lambda grad, xhat, x, w: (grad * xhat).flatten(0, -2).sum(dim=0),
    dbias=lambda grad: grad.flatten(0, -2).sum(dim=0),
):
    def wrong(grad, x, weight, eps):
        r = torch.rsqrt(x.var(dim=-1, correction=correction, keepdim=True) + eps)
        xhat = (x - x.mean(dim=-1, keepdim=True)) * r
        w = weight * grad if gamma else grad
        shift = dbias(grad) if dbias else (weight * grad).flatten(0, -2).sum(dim=0)
        return dx(w, xhat, mean(xhat * w), mean(w), r), dweight(grad, xhat, x, weight * grad), shift

    return wrong


def _sum_first(value):
    return value.sum(dim=0)


BACKWARD = Exercise(
    id="3.8",
    title=N_("layer norm's gradients"),
    claims=("C7",),
    solve=layer_norm_backward,
    cases=_backward_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "statistics held constant",
            _backward_with(dx=lambda w, xhat, c1, c2, r: w * r),
            N_("Are μ and σ held constant? They move with x: c₁ and c₂ are what their gradients add."),
        ),
        Misconception(
            "c₁ missing",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w - c2) * r),
            N_("Is x̂·c₁ missing? It is what flows through σ."),
        ),
        Misconception(
            "c₂ missing",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w - xhat * c1) * r),
            N_("Is c₂ missing? It is what flows through μ."),
        ),
        Misconception(
            "c₁ without x̂",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w - c1 - c2) * r),
            N_("Is c₁ multiplied by x̂? A larger feature moves σ more."),
        ),
        Misconception(
            "c₁ added",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w + xhat * c1 - c2) * r),
            N_("Is x̂·c₁ subtracted? Both corrections take something off."),
        ),
        Misconception(
            "no γ in dx",
            _backward_with(gamma=False),
            N_("Does dx contain γ? The gradient passes γ before it reaches x̂: w = γ·grad."),
        ),
        Misconception(
            "no r",
            _backward_with(dx=lambda w, xhat, c1, c2, r: w - xhat * c1 - c2),
            N_("Is dx multiplied by r = 1/√(σ² + ε)? x̂ moves by r when x moves by 1."),
        ),
        Misconception(
            "divided by r",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w - xhat * c1 - c2) / r),
            N_("Is dx divided by r? r is 1/√(σ² + ε) already: multiply."),
        ),
        Misconception(
            "sums for means",
            _backward_with(mean=lambda value: value.sum(dim=-1, keepdim=True)),
            N_("Are c₁ and c₂ sums? They are means over the D features."),
        ),
        Misconception(
            "means over all tokens",
            _backward_with(mean=torch.mean),
            N_("Are c₁ and c₂ taken over all tokens? Each token has its own: dim=-1, keepdim=True."),
        ),
        Misconception(
            "unbiased",
            _backward_with(correction=1),
            N_("Is the variance divided by D − 1? Layer norm's is biased, forward and backward."),
        ),
        Misconception(
            "summed over the features",
            _backward_with(
                dweight=lambda grad, xhat, x, w: (grad * xhat).sum(dim=-1), dbias=lambda grad: grad.sum(dim=-1)
            ),
            N_("Are dweight and dbias summed over the features? γ and β have D entries: sum over the tokens."),
        ),
        Misconception(
            "not summed",
            _backward_with(dweight=lambda grad, xhat, x, w: grad * xhat, dbias=lambda grad: grad),
            N_("Are dweight and dbias summed over the tokens? All tokens share γ and β, so their gradients add up."),
        ),
        Misconception(
            "summed over axis 0 only",
            _backward_with(dweight=lambda grad, xhat, x, w: _sum_first(grad * xhat), dbias=_sum_first),
            N_("Are the tokens on both axes of (B, T, D) summed? Shape (D,) is wanted: flatten(0, -2) first."),
        ),
        Misconception(
            "averaged over the tokens",
            _backward_with(
                dweight=lambda grad, xhat, x, w: (grad * xhat).flatten(0, -2).mean(dim=0),
                dbias=lambda grad: grad.flatten(0, -2).mean(dim=0),
            ),
            N_("Are dweight and dbias averages? Gradients of shared parameters add up: sum over the tokens."),
        ),
        Misconception(
            "dweight from x",
            _backward_with(dweight=lambda grad, xhat, x, w: (grad * x).flatten(0, -2).sum(dim=0)),
            N_("Is dweight made from x? γ multiplies x̂, so its gradient is grad·x̂."),
        ),
        Misconception(
            "γ in dweight",
            _backward_with(dweight=lambda grad, xhat, x, w: (w * xhat).flatten(0, -2).sum(dim=0)),
            N_("Is γ in dweight? ∂y/∂γ = x̂: γ itself does not occur."),
        ),
        Misconception(
            "dweight and dbias swapped",
            lambda grad, x, weight, eps: [layer_norm_backward(grad, x, weight, eps)[i] for i in (0, 2, 1)],
            N_("Is the order (dx, dweight, dbias)? The last two seem to be swapped."),
        ),
        Misconception(
            "both corrections added",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w + xhat * c1 + c2) * r),
            N_("Are x̂·c₁ and c₂ added? Both are subtracted."),
        ),
        Misconception(
            "c₁ and c₂ swapped",
            _backward_with(dx=lambda w, xhat, c1, c2, r: (w - xhat * c2 - c1) * r),
            N_("Are c₁ and c₂ the wrong way round? c₁ = mean(x̂·w) is the one that x̂ multiplies."),
        ),
        Misconception(
            "γ in dbias",
            _backward_with(dbias=None),
            N_("Is γ in dbias? ∂y/∂β = 1: dbias is the sum of grad itself."),
        ),
        Misconception(
            "γ in dweight and dbias",
            _backward_with(dweight=lambda grad, xhat, x, w: (w * xhat).flatten(0, -2).sum(dim=0), dbias=None),
            N_("Is γ in dweight and dbias? They are made from grad, not from w = γ·grad."),
        ),
        Misconception(
            "no ε",
            lambda grad, x, weight, eps: layer_norm_backward(grad, x, weight, 0),
            N_("Where is ε? r = 1/√(σ² + ε)."),
        ),
        Misconception(
            "means over the tokens",
            _backward_with(mean=lambda value: value.mean(dim=0, keepdim=True)),
            N_("Are c₁ and c₂ taken over axis 0? Each token has its own: dim=-1, keepdim=True."),
        ),
    ),
    hints=(
        N_("Write the formula down name by name: r, x̂, w, c₁, c₂. c₁ and c₂ are means with dim=-1, keepdim=True."),
        N_("∂y/∂γ = x̂ and ∂y/∂β = 1, the same γ and β for every token: flatten(0, -2).sum(dim=0) adds the tokens."),
        N_("Compare with torch.autograd.grad on a call of torch.nn.functional.layer_norm."),
    ),
)


# 3.9 ------------------------------------------------------------------------------------------------------------------

_BUGS = {
    "A": "one-pass variance",
    "B": "unbiased variance",
    "C": "gamma per token",
    "D": "fine",
    "E": "eps outside the root",
    "F": "wrong axis",
    "G": "changes x",
}

SUSPECTS = Exercise(
    id="3.9",
    title=N_("seven suspects: six wrong layer norms and a right one"),
    claims=("C2", "C5", "C8"),
    solve=_BUGS,
    cases=None,
    value_name="bugs",
    value_stub="""\
# Each of "unbiased variance", "eps outside the root", "wrong axis", "one-pass variance", "gamma per token",
# "changes x" and "fine" fits once. show_suspects() shows them; SUSPECTS["A"](x, weight, bias, eps) runs one.
"""
    + _blank("bugs", _BUGS),
    value_source=_filled("bugs", _quoted(_BUGS)),
    misconceptions=(
        Misconception(
            "one-pass is fine",
            {**_BUGS, "A": "fine"},
            N_("Is A fine? mean(x²) − μ² is the variance in algebra; try tokens of mean 1e4 in float32."),
        ),
        Misconception(
            "two-pass is suspicious",
            {**_BUGS, "A": "fine", "D": "one-pass variance"},
            N_("Are A and D the wrong way round? D subtracts the mean before it squares; A squares first."),
        ),
        Misconception(
            "D is unbiased",
            {**_BUGS, "B": "fine", "D": "unbiased variance"},
            N_(
                "Are B and D the wrong way round? D's mean of squares divides by D features; what does var() divide by?"
            ),
        ),
        Misconception(
            "unbiased is fine",
            {**_BUGS, "B": "fine"},
            N_("Is B fine? var() divides by D − 1 unless told otherwise: try [1, 2, 3, 4]."),
        ),
        Misconception(
            "ε is a matter of taste",
            {**_BUGS, "E": "fine"},
            N_("Is E fine? For large σ you cannot tell: try a token with σ = 1e-3."),
        ),
        Misconception(
            "E is unbiased",
            {**_BUGS, "B": "eps outside the root", "E": "unbiased variance"},
            N_("Are B and E the wrong way round? E says correction=0; look at where its ε stands."),
        ),
        Misconception(
            "axis 1 is the last one",
            {**_BUGS, "F": "fine"},
            N_("Is F fine? It is on (N, D): try (B, T, D)."),
        ),
        Misconception(
            "C is the wrong axis",
            {**_BUGS, "C": "wrong axis", "F": "gamma per token"},
            N_("Are C and F the wrong way round? C's statistics are each token's own; look at its γ and β."),
        ),
        Misconception(
            "C is fine",
            {**_BUGS, "C": "fine"},
            N_("Is C fine? With γ = 1, β = 0 it is: give it a γ of your own, on a square x (D, D), and compare."),
        ),
        Misconception(
            "in place is fine",
            {**_BUGS, "G": "fine"},
            N_("Is G fine? Its result is; compare x before and after the call. In x + LN(x), which x is added?"),
        ),
    ),
    hints=(
        N_("Compare with torch.nn.functional.layer_norm on several x: (N, D), (D, D), (B, T, D), tiny, shifted."),
        N_("Give γ and β random values; look at x after the call, too."),
        N_("correction= is 1 unless given; dim=1 is the last axis of (N, D) only; x -= … writes into the caller's x."),
    ),
)


# 3.10 -----------------------------------------------------------------------------------------------------------------


def leak(norm, x, position):
    """Return the largest |change| of norm(x) at the tokens before `position` when that token is doubled; a float.

    An experiment: x is (B, T, D), norm(x) has x's shape, position is at least 1. Double token `position` of every
    sequence in a copy of x, and compare the outputs.
    """
    changed = x.clone()
    changed[:, position] *= 2
    return (norm(changed) - norm(x))[:, :position].abs().max().item()


def _leak_cases():
    layer = Shown(lambda x: F.layer_norm(x, x.shape[-1:]), "LayerNorm(D)")
    tokens = Shown(lambda x: F.layer_norm(x, x.shape[-2:]), "LayerNorm((T, D))")
    batch = Shown(
        lambda x: F.batch_norm(x.transpose(1, 2), None, None, training=True).transpose(1, 2), "BatchNorm1d(D), training"
    )
    later = Shown(lambda x: -x.flip(1).cumsum(1).cumsum(1).flip(1), "y_t = −Σ (s − t + 1)·x_s over s ≥ t")
    earlier = Shown(lambda x: x.cumsum(1).cumsum(1), "y_t = Σ (t − s + 1)·x_s over s ≤ t")
    small = _floats([[1.0, 2.0], [3.0, 7.0], [2.0, -3.0]])
    return [
        (batch, small, 1),
        (layer, small, 1),
        (later, _floats([[1.0], [2.0], [3.0]], [[4.0], [1.0], [2.0]]), 2),
        (earlier, _normal(2, 5, 2), 2),
        (tokens, _normal(2, 4, 3, seed=1), 2),
        (batch, _normal(3, 4, 2, seed=2), 3),
    ]


def _leak_by(change=lambda x, p: (slice(None), p), read=lambda d, p: d[:, :p].abs().max(), factor=2.0):
    def wrong(norm, x, position):
        changed = x.clone()
        changed[change(x, position)] *= factor
        return float(read(norm(changed) - norm(x), position))

    return wrong


def _leak_of_inputs(norm, x, position):
    return float((x[:, position]).abs().max())


def _output_less_input(norm, x, position):
    changed = x.clone()
    changed[:, position] *= 2
    return float((norm(changed) - x)[:, :position].abs().max())


LEAK = Exercise(
    id="3.10",
    title=N_("an experiment: which norm leaks the future?"),
    claims=("C15", "C5"),
    solve=leak,
    cases=_leak_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "always 0",
            lambda norm, x, position: 0.0,
            N_("Is it always 0? Batch norm in training leaks. Is `changed` x itself (use x.clone()), or x compared?"),
        ),
        Misconception(
            "the token itself counted",
            _leak_by(read=lambda d, p: d[:, : p + 1].abs().max()),
            N_("Is token `position` itself counted? It may change; the slice [:, :position] ends before it."),
        ),
        Misconception(
            "all positions",
            _leak_by(read=lambda d, p: d.abs().max()),
            N_("Are all outputs compared? Only those before `position` must not know about it."),
        ),
        Misconception(
            "later positions",
            _leak_by(read=lambda d, p: d[:, p:].abs().max()),
            N_("Are the outputs from `position` on compared? A leak of the future shows before it."),
        ),
        Misconception(
            "the previous token only",
            _leak_by(read=lambda d, p: d[:, p - 1].abs().max()),
            N_("Is only the token just before `position` compared? Every earlier one counts."),
        ),
        Misconception(
            "no absolute value",
            _leak_by(read=lambda d, p: d[:, :p].max()),
            N_("Is the sign kept? A change downwards is a leak as well: take the absolute value first."),
        ),
        Misconception(
            "mean",
            _leak_by(read=lambda d, p: d[:, :p].abs().mean()),
            N_("Is this the mean change? The largest one is wanted."),
        ),
        Misconception(
            "sum",
            _leak_by(read=lambda d, p: d[:, :p].abs().sum()),
            N_("Are the changes summed? The largest one is wanted."),
        ),
        Misconception(
            "the first sequence only",
            _leak_by(change=lambda x, p: (0, p)),
            N_("Is the token doubled in the first sequence only? Double it in every one: changed[:, position]."),
        ),
        Misconception(
            "every later token too",
            _leak_by(change=lambda x, p: (slice(None), slice(p, None))),
            N_("Are the later tokens doubled too? Change token `position` alone."),
        ),
        Misconception(
            "zeroed",
            _leak_by(factor=0.0),
            N_("Is the token set to 0? Double it."),
        ),
        Misconception(
            "the feature instead of the token",
            _leak_by(change=lambda x, p: (..., p)),
            N_("Is a feature doubled? Tokens lie on axis 1: changed[:, position]."),
        ),
        Misconception(
            "the inputs compared",
            _leak_of_inputs,
            N_("Are the inputs compared? The question is what norm(x) does at the other tokens."),
        ),
        Misconception(
            "absolute value last",
            lambda norm, x, position: abs(_leak_by(read=lambda d, p: d[:, :p].max())(norm, x, position)),
            N_("Is the absolute value taken last? Take it before the maximum: a change downwards may be the largest."),
        ),
        Misconception(
            "token 0 only",
            _leak_by(read=lambda d, p: d[:, 0].abs().max()),
            N_("Is only token 0 compared? Every one before `position` counts."),
        ),
        Misconception(
            "the first sequence compared",
            _leak_by(read=lambda d, p: d[0, :p].abs().max()),
            N_("Is only the first sequence compared? Every one counts."),
        ),
        Misconception(
            "length of the change",
            _leak_by(read=lambda d, p: d[:, :p].norm()),
            N_("Is that the length of the change? The largest single one is wanted."),
        ),
        Misconception(
            "squared",
            _leak_by(read=lambda d, p: (d[:, :p] ** 2).max()),
            N_("Are the changes squared? Take their absolute value."),
        ),
        Misconception(
            "tripled",
            _leak_by(factor=3.0),
            N_("Is the token tripled? `+= 2 * …` adds two more of it."),
        ),
        Misconception(
            "compared with the input",
            _output_less_input,
            N_("Is the changed output compared with x? Compare it with norm(x)."),
        ),
    ),
    hints=(
        N_("x.clone() is a copy; changed[:, position] *= 2 doubles the token in it."),
        N_("(norm(changed) - norm(x))[:, :position] holds the changes before it; .abs().max().item() is the largest."),
    ),
)


# 3.11 -----------------------------------------------------------------------------------------------------------------


def merge(count_a, mean_a, var_a, count_b, mean_b, var_b):
    """Return (count, mean, var) of two sets put together, from those of the parts a and b; variances are biased.

    Counts are ints; means and variances are float32 tensors (D,), a feature each. Keep the digits where the means are
    near 10⁴ and the variances near 1: mean(x²) − μ² loses them. (Kernels merge partial statistics so.)
    """
    count = count_a + count_b
    delta = mean_b - mean_a
    mean = (count_a * mean_a + count_b * mean_b) / count
    var = (count_a * var_a + count_b * var_b) / count + delta**2 * count_a * count_b / count**2
    return count, mean, var


def _merge_cases():
    # Powers of two where the means are large: one pass then loses the same digits in whatever order it is written,
    # and the merged mean is exact, so that an answer may use it.
    return [
        (1, _floats(0.0), _floats(0.0), 1, _floats(4.0), _floats(0.0)),
        (2, _floats(1.0, 0.0), _floats(1.0, 2.0), 6, _floats(5.0, 0.0), _floats(2.0, 6.0)),
        (4, _floats(8192.0, 8200.0), _floats(1.0, 0.5), 4, _floats(8192.0, 8184.0), _floats(1.5, 2.0)),
        (7, _normal(5), _normal(5, seed=1).abs(), 4, _normal(5, seed=2), _normal(5, seed=3).abs()),
    ]


def _merged(var, mean=lambda n, a, m, b, k: (n * a + m * b) / k):
    def wrong(count_a, mean_a, var_a, count_b, mean_b, var_b):
        count = count_a + count_b
        merged_mean = mean(count_a, mean_a, count_b, mean_b, count)
        inner = (count_a * var_a + count_b * var_b) / count
        share = count_a * count_b / count**2
        return count, merged_mean, var(inner, mean_b - mean_a, share, count)

    return wrong


def _merge_one_pass(count_a, mean_a, var_a, count_b, mean_b, var_b):
    count = count_a + count_b
    mean = (count_a * mean_a + count_b * mean_b) / count
    square = (count_a * (var_a + mean_a**2) + count_b * (var_b + mean_b**2)) / count
    return count, mean, square - mean**2


def _merge_variances(together, between=False):
    def wrong(count_a, mean_a, var_a, count_b, mean_b, var_b):
        count = count_a + count_b
        var = together(count_a, var_a, count_b, var_b)
        if between:
            var = var + (mean_b - mean_a) ** 2 * count_a * count_b / count**2
        return count, (count_a * mean_a + count_b * mean_b) / count, var

    return wrong


MERGE = Exercise(
    id="3.11",
    title=N_("merge the statistics of two halves without losing digits"),
    claims=("C2",),
    solve=merge,
    cases=_merge_cases,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "one pass",
            _merge_one_pass,
            N_("Is this mean(x²) − μ²? Near 10⁴ both are near 10⁸, where float32 numbers are 8 apart."),
        ),
        Misconception(
            "the parts' variances only",
            _merged(lambda inner, delta, share, count: inner),
            N_("Do the parts' own variances suffice? Where their means differ, that adds to the variance as well."),
        ),
        Misconception(
            "square forgotten",
            _merged(lambda inner, delta, share, count: inner + delta * share),
            N_("Is the difference of the means squared? A variance is made of squares."),
        ),
        Misconception(
            "n for n²",
            _merged(lambda inner, delta, share, count: inner + delta**2 * share * count),
            N_("Is the means' part divided by n once? n_a·n_b/n · δ² is a sum of squares: divide by n again."),
        ),
        Misconception(
            "a quarter",
            _merged(lambda inner, delta, share, count: inner + delta**2 / 4),
            N_("Is that δ²/4? It holds for halves of equal size; in general the factor is n_a·n_b/n²."),
        ),
        Misconception(
            "minus",
            _merged(lambda inner, delta, share, count: inner - delta**2 * share),
            N_("Is the means' part subtracted? Two sets with different means vary more together, not less."),
        ),
        Misconception(
            "unbiased",
            _merged(lambda inner, delta, share, count: (inner + delta**2 * share) * count / (count - 1)),
            N_("Is the variance divided by n − 1? Biased ones go in, and a biased one comes out."),
        ),
        Misconception(
            "sum of squares",
            _merged(lambda inner, delta, share, count: (inner + delta**2 * share) * count),
            N_("Is this the sum of squared deviations? Divide by n."),
        ),
        Misconception(
            "mean of the means",
            _merged(
                lambda inner, delta, share, count: inner + delta**2 * share,
                mean=lambda n, a, m, b, k: (a + b) / 2,
            ),
            N_("Is the mean weighted by the counts? A larger part pulls it more."),
        ),
        Misconception(
            "nothing weighted",
            lambda count_a, mean_a, var_a, count_b, mean_b, var_b: (
                count_a + count_b,
                (mean_a + mean_b) / 2,
                (var_a + var_b) / 2 + (mean_b - mean_a) ** 2 / 4,
            ),
            N_("Are the two parts weighted alike? Their counts differ."),
        ),
        Misconception(
            "shares swapped",
            _merged(
                lambda inner, delta, share, count: inner + delta**2 * share,
                mean=lambda n, a, m, b, k: (m * a + n * b) / k,
            ),
            N_("Is each mean weighted by the other part's count? The larger part pulls more."),
        ),
        Misconception(
            "variances added",
            _merge_variances(lambda n, v, m, w: v + w),
            N_("Are the two variances added? They are averaged, by the counts, and the means' distance comes on top."),
        ),
        Misconception(
            "plain averages",
            lambda count_a, mean_a, var_a, count_b, mean_b, var_b: (
                count_a + count_b,
                (mean_a + mean_b) / 2,
                (var_a + var_b) / 2,
            ),
            N_("Are means and variances plainly averaged? Weight them; and means that differ add to the variance."),
        ),
        Misconception(
            "distance for its square",
            _merged(lambda inner, delta, share, count: inner + delta.abs() * share),
            N_("Is the difference of the means squared? A variance is a mean of squares, not of distances."),
        ),
        Misconception(
            "no share",
            _merged(lambda inner, delta, share, count: inner + delta**2),
            N_("Is δ² added as it is? Weight it: n_a·n_b/n²."),
        ),
        Misconception(
            "about a's mean",
            lambda n, a, v, m, b, w: (n + m, (n * a + m * b) / (n + m), (n * v + m * (w + (b - a) ** 2)) / (n + m)),
            N_("Is b measured from a's mean? Measure both parts from the mean of the whole."),
        ),
        Misconception(
            "deviation",
            _merged(lambda inner, delta, share, count: torch.sqrt(inner + delta**2 * share)),
            N_("Is that a root? A variance is wanted."),
        ),
        Misconception(
            "variances' shares swapped",
            _merge_variances(lambda n, v, m, w: (m * v + n * w) / (n + m), between=True),
            N_("Is each variance weighted by the other part's count? The larger part pulls more."),
        ),
        Misconception(
            "parts unbiased",
            _merge_variances(lambda n, v, m, w: ((n - 1) * v + (m - 1) * w) / (n + m), between=True),
            N_("Are the parts' variances taken for unbiased ones? Biased: n_a·var_a is a's sum of squares."),
        ),
    ),
    hints=(
        N_("The whole's mean is m = (n_a·m_a + n_b·m_b)/n. How far is each part's mean from it?"),
        N_("Each part adds its variance plus (m_a − m)², weighted by its count; together: n_a·n_b/n²·(m_b − m_a)²."),
    ),
)


# 3.12 -----------------------------------------------------------------------------------------------------------------


def masked_batch_norm(x, mask, eps):
    """Return x (B, T, D) batch-normalised over the real tokens only; padding becomes 0. Without γ and β.

    `mask` (B, T) is True at real tokens. Each feature has one mean and one biased variance, over all real tokens of the
    batch; what stands in the padding must not matter. float32.
    """
    real = mask[..., None].to(x.dtype)
    count = real.sum()
    mean = (x * real).sum(dim=(0, 1)) / count
    centred = (x - mean) * real
    var = (centred**2).sum(dim=(0, 1)) / count
    return centred / torch.sqrt(var + eps)


def _buggy_masked_batch_norm(x, mask, eps):
    """Return x (B, T, D) batch-normalised over the real tokens only; padding becomes 0. Without γ and β.

    `mask` (B, T) is True at real tokens. Each feature has one mean and one biased variance, over all real tokens of the
    batch; what stands in the padding must not matter. float32.
    """
    real = mask[..., None].to(x.dtype)
    count = real.sum()
    mean = (x * real).sum(dim=(0, 1)) / count
    centred = x * real - mean
    var = (centred**2).sum(dim=(0, 1)) / count
    return centred / torch.sqrt(var + eps)


def _masked_cases():
    padded = 1 + 2 * _normal(3, 4, 2)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False], [True, False, False, False]])
    return [
        (_floats([[1.0], [3.0]], [[5.0], [0.0]]), torch.tensor([[True, True], [True, False]]), 1e-5),
        (torch.where(mask[..., None], padded, torch.full_like(padded, 9.0)), mask, 1e-3),
        (1 + 2 * _normal(2, 3, 2, seed=1), torch.ones(2, 3, dtype=torch.bool), 0.5),
    ]


def _masked_with(
    mean_of=None,
    var_of=None,
    count_of=None,
    out=lambda y, real: y * real,
    centre=lambda x, real, mean: x - mean,
    root=lambda var, eps: torch.sqrt(var + eps),
):
    def wrong(x, mask, eps):
        real = mask[..., None].to(x.dtype)
        count = count_of(x, real) if count_of else real.sum()
        mean = mean_of(x, real) if mean_of else (x * real).sum(dim=(0, 1)) / count
        var = var_of(x, real, mean, count) if var_of else ((x - mean) ** 2 * real).sum(dim=(0, 1)) / count
        return out(centre(x, real, mean) / root(var, eps), real)

    return wrong


def _masked_per_sequence(x, mask, eps):
    real = mask[..., None].to(x.dtype)
    count = real.sum(dim=1, keepdim=True)
    centred = (x - (x * real).sum(dim=1, keepdim=True) / count) * real
    return centred / torch.sqrt((centred**2).sum(dim=1, keepdim=True) / count + eps)


def _masked_variance(x, real):
    mean = (x * real).sum(dim=(0, 1)) / real.sum()
    return ((x - mean) ** 2 * real).sum(dim=(0, 1)) / real.sum()


def _masked_for_all_features(x, mask, eps):
    real = x[mask]
    return (x - real.mean()) / torch.sqrt(real.var(correction=0) + eps) * mask[..., None]


MASKED = Exercise(
    id="3.12",
    title=N_("find the bug: padding in a batch norm"),
    claims=("C13",),
    solve=masked_batch_norm,
    cases=_masked_cases,
    starter=_buggy_masked_batch_norm,
    **_FLOAT32,
    misconceptions=(
        Misconception(
            "padding counted as data",
            lambda x, mask, eps: _standardise(x, eps, dim=(0, 1)) * mask[..., None],
            N_("Are mean and variance taken over the padding too? Then real tokens change with the padding."),
        ),
        Misconception(
            "padding in the variance",
            _masked_with(var_of=lambda x, real, mean, count: ((x * real - mean) ** 2).sum(dim=(0, 1)) / count),
            N_("Does padding still count in the variance? Each padding token adds μ² to the sum: mask after x − μ."),
        ),
        Misconception(
            "divided by all tokens",
            _masked_with(count_of=lambda x, real: x.shape[0] * x.shape[1]),
            N_("Is the sum over the real tokens divided by B·T? Divide by how many were summed."),
        ),
        Misconception(
            "padding not 0",
            _masked_with(out=lambda y, real: y),
            N_("Does padding come out as 0? The statistics are right; mask the result as well."),
        ),
        Misconception(
            "each sequence on its own",
            _masked_per_sequence,
            N_("Has each sequence its own mean? Batch norm shares one over the batch: dim=(0, 1), as given."),
        ),
        Misconception(
            "layer norm",
            lambda x, mask, eps: _standardise(x, eps) * mask[..., None],
            N_("Is this layer norm? It needs no mask for its statistics; here the batch's are wanted, as given."),
        ),
        Misconception(
            "unbiased",
            _masked_with(
                var_of=lambda x, real, mean, count: ((x - mean) ** 2 * real).sum(dim=(0, 1)) / (real.sum() - 1)
            ),
            N_("Is the variance divided by one less than the count? It was biased as given, and should be."),
        ),
        Misconception(
            "not centred",
            lambda x, mask, eps: (
                x * mask[..., None] / torch.sqrt(_masked_variance(x, mask[..., None].to(x.dtype)) + eps)
            ),
            N_("Is the mean still subtracted in the result? The bug is in which tokens, not in the formula."),
        ),
        Misconception(
            "padding in the mean as 0",
            lambda x, mask, eps: _standardise(x * mask[..., None], eps, dim=(0, 1)) * mask[..., None],
            N_("Is padding set to 0 and then counted? A 0 pulls the mean, too: divide by the number of real tokens."),
        ),
        Misconception(
            "no mask at all",
            lambda x, mask, eps: _standardise(x, eps, dim=(0, 1)),
            N_("Is `mask` used? Statistics over the real tokens only, and 0 at the padding."),
        ),
        Misconception(
            "the variance alone mended",
            _masked_with(out=lambda y, real: y, centre=lambda x, real, mean: x * real - mean),
            N_("What comes out at the padding? The variance is right now; 0 − μ is left there."),
        ),
        Misconception(
            "padding as it was",
            lambda x, mask, eps: torch.where(mask[..., None], masked_batch_norm(x, mask, eps), x),
            N_("What comes out at the padding? It is x there; 0 is wanted."),
        ),
        Misconception(
            "ε outside the root",
            _masked_with(root=lambda var, eps: torch.sqrt(var) + eps),
            N_("Is ε added outside the root? It was inside as given."),
        ),
        Misconception(
            "features counted",
            _masked_with(count_of=lambda x, real: real.sum() * x.shape[-1]),
            N_("Are features counted, too? Each feature has one mean, over as many numbers as there are real tokens."),
        ),
        Misconception(
            "one mean for all features",
            _masked_for_all_features,
            N_("Do the features share one mean? Each has its own, as given: dim=(0, 1)."),
        ),
    ),
    hints=(
        N_("Print `centred` at a padding token. What should it be there, and what is it?"),
        N_("x * real sets padding to 0, and then − mean makes it −μ. Do the two in the other order."),
    ),
)


# 3.13 -----------------------------------------------------------------------------------------------------------------

_PREDICTIONS = {
    "LN([5, 5, 5])": "zeros",
    "RMSNorm([5, 5, 5])": "ones",
    "LN([7])": "zeros",
    "LN([3, 800])": "[-1, 1]",
    "LN([1, 2, 4])": "something else",
    "LN(LN(x))": "LN(x)",
    "LN(-2 * x)": "-LN(x)",
    "LN(1e-6 * x)": "zeros",
    "GroupNorm(3, 3)([[1, 2, 4], [3, 5, 9]])": "zeros",
    "256 + 0.5 - 256 in bfloat16": "zeros",
}


def _predicted(**changes):
    keys = dict(
        zip(("five", "rms", "one", "two", "any", "twice", "flip", "tiny", "group", "bf16"), _PREDICTIONS, strict=True)
    )
    return {**_PREDICTIONS, **{keys[name]: value for name, value in changes.items()}}


PREDICTIONS = Exercise(
    id="3.13",
    title=N_("edge cases, predicted"),
    claims=("C3", "C4", "C7", "C8", "C17"),
    solve=_PREDICTIONS,
    cases=None,
    value_name="predictions",
    value_stub="""\
# Predict first, then run. Each is "zeros", "ones", "[-1, 1]", "LN(x)", "-LN(x)" or "something else", to two decimals.
# x is a token of 8 standard normal numbers; γ = 1, β = 0, ε = 1e-5.
"""
    + _blank("predictions", _PREDICTIONS),
    value_source=_filled("predictions", _quoted(_PREDICTIONS)),
    misconceptions=(
        Misconception(
            "constant becomes 1",
            _predicted(five="ones"),
            N_("Does a constant token become 1? Its mean is taken off first: 0/√ε = 0. RMSNorm keeps it, and gives 1."),
        ),
        Misconception(
            "RMSNorm centres",
            _predicted(rms="zeros"),
            N_("Does RMSNorm take the mean off? It divides by √mean(x²) alone, so [5, 5, 5] becomes ones."),
        ),
        Misconception(
            "RMSNorm is layer norm",
            _predicted(five="ones", rms="zeros"),
            N_("Are layer norm and RMSNorm the wrong way round? Only layer norm subtracts the mean."),
        ),
        Misconception(
            "D = 1 is harmless",
            _predicted(one="ones"),
            N_("Is D = 1 harmless? A single number is its own mean: layer norm erases it."),
        ),
        Misconception(
            "D = 1 keeps something",
            _predicted(one="something else"),
            N_("Does anything of a single number survive? It is its own mean, so x − μ = 0."),
        ),
        Misconception(
            "D = 2 keeps something",
            _predicted(two="something else"),
            N_("Does LN([3, 800]) differ from LN([3, 4])? With two features only their order is left: always ±1."),
        ),
        Misconception(
            "twice is more",
            _predicted(twice="something else"),
            N_("Does a second norm change anything? LN(x) has mean 0 and variance 1 already, up to ε."),
        ),
        Misconception(
            "the sign is lost",
            _predicted(flip="LN(x)"),
            N_("Is LN(αx) = LN(x) for negative α too? The variance loses the sign, x − μ keeps it."),
        ),
        Misconception(
            "every scale is undone",
            _predicted(tiny="LN(x)"),
            N_("Is LN(αx) = LN(x) for tiny α too? σ² = 1e-12 is far below ε, and σ/√(σ² + ε) is about 3e-4."),
        ),
        Misconception(
            "every scale is undone, the sign too",
            _predicted(flip="LN(x)", tiny="LN(x)"),
            N_("Is LN(αx) = LN(x) for every α? A negative α flips the sign, and for a tiny one ε takes over."),
        ),
        Misconception(
            "a channel a group",
            _predicted(group="LN(x)"),
            N_("Is GroupNorm(3, 3) on (N, 3) layer norm? Each group holds one number, its own mean: zeros."),
        ),
        Misconception(
            "a channel a group keeps something",
            _predicted(group="something else"),
            N_("What does GroupNorm(C, C) leave of (N, C)? Each group holds one number, its own mean: nothing."),
        ),
        Misconception(
            "bfloat16 keeps the update",
            _predicted(bf16="something else"),
            N_("Is 256.5 a bfloat16 number? From 256 on they are 2 apart: the update is lost before any norm sees it."),
        ),
        Misconception(
            "a negative factor",
            _predicted(flip="something else"),
            N_("What does −2 do in x − μ, and in σ? The factor 2 cancels, the sign stays."),
        ),
        Misconception(
            "two decimals",
            _predicted(tiny="something else"),
            N_("Is anything left of LN(1e-6·x) to two decimals? σ is 1e-6 and √ε is 3e-3."),
        ),
    ),
    hints=(
        N_("First x − μ: what is left of a constant, of one number, of two?"),
        N_("Then the factor 1/√(σ² + ε): what is it when σ² is far below ε?"),
    ),
)

EXERCISES = (
    LAYER_NORM,
    RMS_NORM,
    AXES,
    BATCH_NORM,
    GROUP_NORM,
    RESTORE,
    INPUT_STD,
    BACKWARD,
    SUSPECTS,
    LEAK,
    MERGE,
    MASKED,
    PREDICTIONS,
)
