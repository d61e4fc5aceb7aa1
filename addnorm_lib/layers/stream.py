"""The residual stream with its last sum still open, so that one pass over memory can add and normalise."""

from typing import Any, NamedTuple, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.fused import Backend, Norm, add_norm
from addnorm_lib.layers.checks import check_choice


def make_norm(d_model: int, norm: Norm, eps: float, bias: bool) -> nn.LayerNorm | nn.RMSNorm:
    """Return a new LayerNorm (weight and, unless told otherwise, bias) or RMSNorm (weight)."""
    check_choice("norm", norm, get_args(Norm))
    if not eps > 0:
        raise ValueError(f"eps: a positive number wanted, got {eps!r}")
    return nn.LayerNorm(d_model, eps=eps, bias=bias) if norm == "layer" else nn.RMSNorm(d_model, eps=eps)


class Stream(NamedTuple):
    """The residual stream `alpha·x + dropout(update)`, not added yet; without an update it is x itself.

    In Pre-LN what comes next is a norm: the next sublayer's, the next *layer's* or the final one. Left open until then,
    the sum and that norm are one call of `addnorm_lib.fused.add_norm` instead of two passes over memory.
    x and update (..., d_model); `dropout` is the probability in force: 0 in evaluation mode.
    """

    x: Tensor
    update: Tensor | None = None
    alpha: float = 1.0
    dropout: float = 0.0

    def sum(self) -> Tensor:
        """Return s = alpha·x + dropout(update), (..., d_model)."""
        if self.update is None:
            return self.x
        return self.alpha * self.x + F.dropout(self.update, self.dropout)

    def norm(self, norm: nn.LayerNorm | nn.RMSNorm, backend: Backend = "auto") -> Tensor:
        """Return the norm of s: Post-LN's Add & Norm, and the final norm of a Pre-LN stack."""
        if self.update is None:
            return norm(self.x)
        return add_norm(self.update, self.x, **self._options(norm, backend))

    def sum_and_norm(self, norm: nn.LayerNorm | nn.RMSNorm, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
        """Return s, which goes on as the shortcut, and norm(s), the input of the next Pre-LN sublayer."""
        if self.update is None:
            return self.x, norm(self.x)
        y, s = add_norm(self.update, self.x, return_sum=True, **self._options(norm, backend))
        return s, y

    def _options(self, norm: nn.LayerNorm | nn.RMSNorm, backend: Backend) -> dict[str, Any]:
        return {
            "weight": norm.weight,
            "bias": getattr(norm, "bias", None),
            "norm": "layer" if isinstance(norm, nn.LayerNorm) else "rms",
            "eps": norm.eps,
            "alpha": self.alpha,
            "dropout_p": self.dropout,
            "backend": backend,
        }


def through(block: nn.Module, stream: Stream, *inputs: Any, **options: Any) -> Stream:
    """Return what `block.on_stream` makes of the stream, or `block` itself where a hook watches it: hooks see tensors.

    Both give the same numbers; the sum is only closed earlier. A subclass that changes a block overrides `on_stream`.
    """
    if block._forward_pre_hooks or block._forward_hooks or block._backward_pre_hooks or block._backward_hooks:
        return Stream(block(stream.sum(), *inputs, **options))
    return block.on_stream(stream, *inputs, **options)
