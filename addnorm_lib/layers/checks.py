"""Checks of what layers are given: each names the argument, what was wanted and what came."""

import math
from collections.abc import Collection
from numbers import Integral

import torch
from torch import Tensor


def check_count(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: a whole number of at least 1 wanted, got {value!r}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name}: one of {', '.join(choices)} wanted, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_finite(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a finite number."""
    if not _is_number(value) or not math.isfinite(value):
        raise ValueError(f"{name}: a finite number wanted, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a finite number above 0."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name}: a positive number wanted, got {value!r}")


def check_probability(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a number in 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name}: a probability from 0 to 1 wanted, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Raise ValueError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: True or False wanted, got {value!r}")


def check_tensor(name: str, value: object) -> None:
    """Raise TypeError unless `value` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: a torch.Tensor wanted, got {type(value).__name__}")


def check_mask(
    name: str, mask: object, like: Tensor, shapes: Collection[tuple[int, ...]], *, floating: bool = False
) -> None:
    """Raise unless `mask` is a bool tensor (or a floating one, where that may be) of one of `shapes`, where `like` is.

    TypeError for what is no tensor, ValueError for the rest.
    """
    check_tensor(name, mask)
    right_dtype = mask.dtype == torch.bool or (floating and mask.is_floating_point())
    if not right_dtype or tuple(mask.shape) not in shapes:
        kind = "bool (True: ignore) or floating (added)" if floating else "bool (True: ignore)"
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{name}: {kind}, shape {wanted}, wanted, got {mask.dtype}, {tuple(mask.shape)}")
    if mask.device != like.device:
        raise ValueError(f"{name}: the device of x, {like.device}, wanted, got {mask.device}")
