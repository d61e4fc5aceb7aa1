"""A small tile language in plain torch, with Triton's names: what one program loads, computes and stores, lane by lane.

`from addnorm_lib.microscope import tiles as tl` lets a function written for Triton run where there is no Triton, and is
strict: a lane that is masked off and given no `other` holds NaN, and an address outside its tensor is an error.
"""

from typing import Any

import torch
from torch import Tensor

from addnorm_lib.messages import _

float32 = torch.float32
float64 = torch.float64


class Memory:
    """A tensor's elements in a row, and how many bytes have been loaded from them and stored to them."""

    def __init__(self, values: Tensor) -> None:
        self.values = values.reshape(-1)
        self.loaded = self.stored = 0


class Pointer:
    """The address of an element, or of a tile of elements: `pointer + offsets`, counted in elements as in Triton."""

    def __init__(self, values: Tensor | Memory, offsets: Tensor | int = 0) -> None:
        self.memory = values if isinstance(values, Memory) else Memory(values)
        self.offsets = offsets

    def __add__(self, offsets: Tensor | int) -> "Pointer":
        return Pointer(self.memory, self.offsets + offsets)

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pointer) and torch.equal(self.memory.values, other.memory.values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.4g}" for value in self.memory.values[:12].tolist())
        return f"→[{shown}{', …' if len(self.memory.values) > 12 else ''}]"

    def lanes(self, mask: Any) -> tuple[Tensor, Tensor]:
        """Return the offsets and the mask, both in the tile's shape. Raises IndexError for an address outside."""
        offsets = torch.as_tensor(self.offsets)
        mask = torch.as_tensor(True if mask is None else mask)
        offsets, mask = torch.broadcast_tensors(offsets, mask)
        outside = mask & ((offsets < 0) | (offsets >= len(self.memory.values)))
        if outside.any():
            raise IndexError(
                _("a lane that is not masked off points to element {at} of {count}").format(
                    at=int(offsets[outside].reshape(-1)[0]), count=len(self.memory.values)
                )
            )
        return offsets.long(), mask


def load(pointer: Pointer, mask: Any = None, other: Any = None) -> Tensor:
    """Return the elements at `pointer`; where `mask` is False `other`, or NaN (in Triton: undefined) without it."""
    offsets, mask = pointer.lanes(mask)
    pointer.memory.loaded += int(mask.sum()) * pointer.memory.values.itemsize
    values = pointer.memory.values[torch.where(mask, offsets, 0)]
    return torch.where(mask, values, torch.nan if other is None else other).to(values.dtype)


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    """Write `value` to the elements at `pointer` where `mask` is True."""
    offsets, mask = pointer.lanes(mask)
    value = torch.as_tensor(value).to(pointer.memory.values.dtype).expand(offsets.shape)
    pointer.memory.stored += int(mask.sum()) * pointer.memory.values.itemsize
    pointer.memory.values[offsets[mask]] = value[mask]


def arange(start: int, end: int) -> Tensor:
    """Return start … end − 1. Raises ValueError where that is not a power of two of numbers, as Triton does."""
    if end <= start or (end - start) & (end - start - 1):
        raise ValueError(_("arange: a power of two of numbers wanted, got {count}").format(count=end - start))
    return torch.arange(start, end, dtype=torch.int32)


def sum(tile: Tensor, axis: int | None = None, keep_dims: bool = False) -> Tensor:
    """Return the sum along `axis`, or of the whole tile."""
    return tile.sum() if axis is None else tile.sum(axis, keepdim=keep_dims)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """Return a where `condition` is True, else b."""
    return torch.where(condition, a, b)


def rsqrt(tile: Tensor) -> Tensor:
    """Return 1 / √tile."""
    return torch.rsqrt(tile)


def sqrt(tile: Tensor) -> Tensor:
    """Return √tile."""
    return torch.sqrt(tile)


def zeros(shape: list[int] | tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tile of zeros."""
    return torch.zeros(tuple(shape), dtype=dtype)
