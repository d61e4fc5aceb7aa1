"""Compare an answer with the expected one, and say in words where they part."""

import math
from typing import Any

import numpy as np
import torch

from addnorm_lib.messages import _


def show(value: Any, digits: int = 4, largest: int = 12) -> str:
    """Print a value as a learner would write it: short, rounded, with its shape where it has over `largest` numbers."""
    try:
        return _show(value, digits, largest)
    except Exception:  # a tensor without storage, one that escaped a transform, an object whose repr raises
        return _("a {kind} that cannot be printed").format(kind=_kind(value))


def _show(value: Any, digits: int, largest: int) -> str:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.numel() > largest:
            return _("a tensor of shape {shape}").format(shape=tuple(value.shape))
        return _show(value.tolist(), digits, largest)
    if isinstance(value, np.ndarray):
        if value.size > largest:
            return _("an array of shape {shape}").format(shape=value.shape)
        return _show(value.tolist(), digits, largest)
    if isinstance(value, float):
        return f"{value + 0.0:.{digits}g}"  # −0.0 + 0.0 is 0.0
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_show(v, digits, largest) for v in value)
        inside += "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_show(v, digits, largest)}" for k, v in value.items()) + "}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind(value: Any) -> str:
    return "torch.Tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def plain(value: Any) -> Any:
    """Return NumPy's or PyTorch's True or False as Python's own; anything else as it is."""
    is_truth = (isinstance(value, torch.Tensor) and value.dtype == torch.bool and value.numel() == 1) or (
        isinstance(value, (np.bool_, np.ndarray)) and value.dtype == np.bool_ and value.size == 1
    )
    return bool(value) if is_truth else value


def difference(got: Any, want: Any, rtol: float, atol: float) -> str | None:
    """Return what is wrong with `got` in one clause, or None where it agrees with `want`."""
    try:
        return _difference(got, want, rtol, atol)
    except Exception:  # whatever the learner returned, they get a line and never our traceback
        return _("a {kind} came that cannot be compared with the expected {want}").format(
            kind=_kind(got), want=_kind(want)
        )


def _difference(got: Any, want: Any, rtol: float, atol: float) -> str | None:
    if got is None and want is not None:
        return _("your function returned None: is the return missing?")
    if isinstance(want, torch.Tensor):
        if not isinstance(got, torch.Tensor):
            return _("a torch.Tensor wanted, got {kind}").format(kind=_kind(got))
        if got.layout != want.layout or got.device != want.device or got.is_quantized:
            return _("an ordinary tensor on the CPU wanted, got layout {layout} on {device}").format(
                layout=got.layout, device=got.device
            )
        if got.shape != want.shape:
            return _("shape {want} wanted, got {got}").format(want=tuple(want.shape), got=tuple(got.shape))
        if got.dtype != want.dtype:
            return _("dtype {want} wanted, got {got}").format(want=want.dtype, got=got.dtype)
        if got.isnan().any() and not want.isnan().any():
            return _("the result has NaN where numbers are expected")
        if torch.allclose(got.detach().double(), want.detach().double(), rtol=rtol, atol=atol, equal_nan=True):
            return None
        return _("the numbers differ")
    if isinstance(want, (bool, str)):
        got = plain(got)
        if type(got) is not type(want):
            return _("{want} wanted, got {got}").format(want=_kind(want), got=_kind(got))
        return None if got == want else _("the values differ")
    if isinstance(want, (int, float)):
        if (isinstance(got, torch.Tensor) and got.numel() == 1) or (isinstance(got, np.ndarray) and got.size == 1):
            got = got.item()
        if isinstance(got, bool) or not isinstance(got, (int, float, np.number)):
            return _("a number wanted, got {kind}").format(kind=_kind(got))
        if want != want:
            return None if got != got else _("the numbers differ")
        if got != got:
            return _("the result is NaN where a number is expected")
        if isinstance(want, int) or math.isinf(want):  # within a tolerance of infinity would be everything
            return None if got == want else _("the numbers differ")
        return None if abs(got - want) <= atol + rtol * abs(want) or got == want else _("the numbers differ")
    if isinstance(want, (list, tuple)):
        if isinstance(got, (torch.Tensor, np.ndarray)) and got.ndim == 1:
            got = got.tolist()  # it unpacks into the same numbers
        if not isinstance(got, (list, tuple)):
            return _("a {want} wanted, got {got}").format(want=_kind(want), got=_kind(got))
        if len(got) != len(want):
            return _("{want} elements wanted, got {got}").format(want=len(want), got=len(got))
        return next((d for pair in zip(got, want, strict=True) if (d := difference(*pair, rtol, atol))), None)
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return _("a dict with the keys {keys} wanted, got {got}").format(
                keys=", ".join(map(str, want)), got=_kind(got)
            )
        if got.keys() != want.keys():
            missing, extra = ([repr(k) for k in a if k not in b] for a, b in ((want, got), (got, want)))
            if len(missing) > 3 or len(extra) > 3:
                return _("a dict with the keys {keys} wanted").format(keys=", ".join(map(str, want)))
            parts = [
                _("the key {keys} is missing").format(keys=", ".join(missing)) if missing else "",
                _("{keys} is no key").format(keys=", ".join(extra)) if extra else "",
            ]
            return _("{what}: keep the keys as given").format(what=_(" and ").join(filter(None, parts)))
        return next((f"{key}: {d}" for key in want if (d := difference(got[key], want[key], rtol, atol))), None)
    return None if got == want else _("the values differ")


def ratio(got: Any, want: Any) -> float | None:
    """Return the one factor between all numbers of two tensors, or None where there is none, or hardly a number."""
    try:
        return _ratio(got, want)
    except Exception:  # a tensor without storage, sparse, quantised, …
        return None


def _ratio(got: Any, want: Any) -> float | None:
    if not isinstance(got, torch.Tensor) or not isinstance(want, torch.Tensor):
        return None
    if got.shape != want.shape or got.dtype != want.dtype:
        return None
    got, want = got.detach().double(), want.detach().double()
    if int((want != 0).sum()) < 2 or not bool(got.isfinite().all()):
        return None
    factor = float((got * want).sum() / (want * want).sum())
    close = torch.allclose(got, factor * want, rtol=1e-3, atol=1e-3 * float(want.abs().max()))
    return factor if close and 0.1 < abs(factor) < 10 and abs(factor - 1) > 2e-3 else None
