"""Compare an answer with the expected one, and say in words where they part."""

from typing import Any

import numpy as np
import torch

from addnorm_lib.messages import _


def show(value: Any) -> str:
    """Print a value as a learner would write it: short, rounded, with its shape where it is too large to show."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.numel() > 12:
            return _("a tensor of shape {shape}").format(shape=tuple(value.shape))
        return show(value.tolist())
    if isinstance(value, np.ndarray):
        return show(value.tolist()) if value.size <= 12 else f"an array of shape {value.shape}"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # −0.0 + 0.0 is 0.0
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(show, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {show(v)}" for k, v in value.items()) + "}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind(value: Any) -> str:
    return "torch.Tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def difference(got: Any, want: Any, rtol: float, atol: float) -> str | None:
    """Return what is wrong with `got` in one clause, or None where it agrees with `want`."""
    if got is None and want is not None:
        return _("your function returned None: is the return missing?")
    if isinstance(want, torch.Tensor):
        if not isinstance(got, torch.Tensor):
            return _("a torch.Tensor wanted, got {kind}").format(kind=_kind(got))
        if got.shape != want.shape:
            return _("shape {want} wanted, got {got}").format(want=tuple(want.shape), got=tuple(got.shape))
        if got.dtype != want.dtype:
            return _("dtype {want} wanted, got {got}").format(want=want.dtype, got=got.dtype)
        if got.isnan().any() and not want.isnan().any():
            return _("the result has NaN where numbers are expected")
        if torch.allclose(got.detach().double(), want.detach().double(), rtol=rtol, atol=atol, equal_nan=True):
            return None
        return _("the numbers differ")
    if isinstance(want, bool) or isinstance(want, str):
        return None if type(got) is type(want) and got == want else _("{want} wanted").format(want=_kind(want))
    if isinstance(want, (int, float)):
        if isinstance(got, torch.Tensor) and got.numel() == 1:
            got = got.item()
        if isinstance(got, bool) or not isinstance(got, (int, float, np.number)):
            return _("a number wanted, got {kind}").format(kind=_kind(got))
        if np.isnan(got) and not np.isnan(want):
            return _("the result is NaN where a number is expected")
        if isinstance(want, int):
            return None if got == want else _("the numbers differ")
        return None if abs(got - want) <= atol + rtol * abs(want) or got == want else _("the numbers differ")
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)):
            return _("a {want} wanted, got {got}").format(want=_kind(want), got=_kind(got))
        if len(got) != len(want):
            return _("{want} elements wanted, got {got}").format(want=len(want), got=len(got))
        return next((d for pair in zip(got, want, strict=True) if (d := difference(*pair, rtol, atol))), None)
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            return _("a dict with the keys {keys} wanted, got {got}").format(keys=", ".join(map(str, want)), got=show(got))
        return next((d for key in want if (d := difference(got[key], want[key], rtol, atol))), None)
    return None if got == want else _("the values differ")
