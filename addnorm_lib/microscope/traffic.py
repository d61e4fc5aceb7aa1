"""Count the bytes that operators read and write, and the operations they do, without running them."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from addnorm_lib.fused import op

How = Literal["written out", "eager", "fused"]
EPS = 1e-5


class Access(NamedTuple):
    """What one operator moves, in bytes, each tensor once: shapes and numbers of bytes; its arithmetic operations."""

    operator: str
    reads: tuple[tuple[tuple[int, ...], int], ...]
    writes: tuple[tuple[tuple[int, ...], int], ...]
    operations: int

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum(size for _, size in self.reads)

    @property
    def written(self) -> int:
        """Bytes written."""
        return sum(size for _, size in self.writes)

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


def _tensors(tree: Any) -> list[Tensor]:
    return list({id(leaf): leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}.values())


def _sizes(tensors: list[Tensor]) -> tuple[tuple[tuple[int, ...], int], ...]:
    return tuple((tuple(t.shape), t.numel() * t.itemsize) for t in tensors if t.numel())


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.accesses: list[Access] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outputs = func(*args, **(kwargs or {}))
        if not func.is_view:  # a view moves nothing
            read, written = _tensors((args, kwargs)), _tensors(outputs)
            operations = max((t.numel() for t in read + written), default=0)
            name = func.name().split("::")[1].split(".")[0]
            self.accesses.append(Access(name, _sizes(read), _sizes(written), operations))
        return outputs


def count(function: Callable[..., Any], *arguments: Any) -> list[Access]:
    """Return what each operator that `function(*arguments)` calls reads and writes.

    An operator's inputs count as read once and its outputs as written once: what any kernel for it must move between
    memory and chip. One that reads its input twice (and finds it in no cache) moves more. An elementwise operator or a
    sum is one operation for each element of its largest tensor (a fused operator too: count its formula instead).
    Tensors on the device "meta" need no memory and no time. Backward is counted where `function` runs it.
    """
    with _Counter() as counter:
        function(*arguments)
    return counter.accesses


def moved(accesses: Iterable[Access]) -> int:
    """Return the bytes that the operators read and write, all together."""
    return sum(access.moved for access in accesses)


def written_out(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return (y, s), the formula in elementary operators: Ba et al. 2016, section 3."""
    s = x + residual
    centred = s - s.mean(-1, keepdim=True)
    rstd = (centred.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centred * rstd * weight + bias, s


def eager(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return (y, s) by the two lines that most models have."""
    s = x + residual
    return F.layer_norm(s, s.shape[-1:], weight, bias, EPS), s


def add_norm_traffic(
    rows: int,
    features: int,
    dtype: torch.dtype,
    how: How,
    *,
    backward: bool = False,
    keep_sum: bool = True,
) -> list[Access]:
    """Return the traffic of LayerNorm(x + residual) with weight and bias, x of shape (rows, features).

    `how`: in elementary operators ("written out"), as `x + residual` and `layer_norm` ("eager"), or by the fused
    kernels ("fused"). `keep_sum`: s is wanted too, as in Pre-LN; forward then writes it, and in backward a gradient
    arrives for it. Without it, forward is that of inference, and backward that of Post-LN. The fused backward's partial
    sums for weight and bias are scratch space, not counted: 16 bytes a feature and program, `shapes.count_programs`.
    """
    x, residual, dy, ds = (torch.empty(rows, features, dtype=dtype, device="meta") for _ in range(4))
    weight, bias = (torch.empty(features, dtype=dtype, device="meta") for _ in range(2))
    leaves = [t.requires_grad_(backward) for t in (x, residual, weight, bias)]

    def fused(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        kept = keep_sum or backward
        y, s, *_ = op._forward_op(x, residual, weight, bias, None, "layer", EPS, 1.0, 0.0, dtype, kept, kept)
        return y, s

    forward = {"written out": written_out, "eager": eager, "fused": fused}[how]
    if not backward:
        return count(forward, *leaves)
    y, s = forward(*leaves)
    wanted = (y, s) if keep_sum else (y,)
    return count(torch.autograd.grad, wanted, leaves, (dy, ds)[: len(wanted)])


def large_tensors(accesses: list[Access], rows: int, features: int) -> tuple[int, int]:
    """Return how many tensors of rows × features elements are read and written: the rest is small beside them."""
    sides = [[shape for a in accesses for shape, _ in side(a)] for side in (lambda a: a.reads, lambda a: a.writes)]
    read, written = (sum(shape == (rows, features) for shape in shapes) for shapes in sides)
    return read, written
