"""The residual stream with its last sum still open, so that one pass over memory can add and normalise."""

from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from addnorm_lib.fused import Backend, add_norm


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
        if self.update is None or not _is_torchs(norm):
            return norm(self.sum())
        return add_norm(self.update, self.x, **self._options(norm, backend))

    def sum_and_norm(self, norm: nn.LayerNorm | nn.RMSNorm, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
        """Return s, which goes on as the shortcut, and norm(s), the input of the next Pre-LN sublayer."""
        if self.update is None or not _is_torchs(norm):
            s = self.sum()
            return s, norm(s)
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
    """Return what `block.on_stream` makes of the stream, or what `block` does where calling it is more than that.

    Both give the same numbers (with dropout, from other draws); the sum is only closed earlier. So a hook sees tensors,
    a layer may be compiled or checkpointed by itself, and a block of one's own needs nothing but a `forward`.
    """
    # A subclass's forward counts, unless it comes with an on_stream of its own.
    definer = next(c for c in type(block).__mro__ if "forward" in vars(c) or "on_stream" in vars(c))
    if _is_bare(block) and "on_stream" in vars(definer):
        return block.on_stream(stream, *inputs, **options)
    return Stream(block(stream.sum(), *inputs, **options))


def _is_torchs(norm: nn.Module) -> bool:
    """Whether `add_norm` computes what a call of `norm` would: PyTorch's own norm, and nothing besides it."""
    return type(norm) in (nn.LayerNorm, nn.RMSNorm) and _is_bare(norm)


def _is_bare(module: nn.Module) -> bool:
    """Whether a call of `module` is its class's forward and no more: no hooks, not compiled, not patched."""
    hooks = module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks
    return not (any(hooks) or module._compiled_call_impl or "forward" in vars(module) or _has_any_global_hook())
