"""Add & Norm as a module: the residual sum around a sublayer, with the norm where the placement puts it."""

from collections.abc import Callable
from typing import get_args

from torch import Tensor, nn

from addnorm_lib.fused import Backend
from addnorm_lib.layers.checks import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_probability,
    check_tensor,
)
from addnorm_lib.layers.norms import make_norm
from addnorm_lib.layers.placement import PLACEMENTS, Placement
from addnorm_lib.layers.stream import Stream


class AddNorm(nn.Module):
    """The residual connection around one sublayer F, with its normalisation.

    With `alpha` on the shortcut and dropout on what the branch adds::

        post      y = LN(alpha·x + dropout(F(x)))         Vaswani et al. 2017, section 3.1
        pre       y = alpha·x + dropout(F(LN(x)))         Xiong et al. 2020, section 3.1
        sandwich  y = alpha·x + dropout(LN'(F(LN(x))))    Ding et al. 2021, section 2.3 (two norms)
        branch    y = alpha·x + dropout(LN(F(x)))         as in OLMo 2

    Args:
        d_model: the size of the last axis, which is normalised.
        placement: where the norm stands.
        norm: a name in `norms.NORMS`: "layer" for LayerNorm (weight and bias), "rms" for RMSNorm (weight).
        dropout: the probability that an element of the branch is dropped, in training mode.
        alpha: scales the shortcut; above 1 in DeepNorm (Wang et al. 2022, section 3).
        eps: added to the variance.
        bias: whether LayerNorm has one.
        backend: of `addnorm_lib.fused.add_norm`, which computes a sum together with the norm that follows it.

    Call it as `add_norm(x, sublayer)`: x (..., d_model), and `sublayer` a function that keeps x's shape.
    """

    def __init__(
        self,
        d_model: int,
        placement: Placement = "post",
        norm: str = "layer",
        dropout: float = 0.0,
        alpha: float = 1.0,
        eps: float = 1e-5,
        *,
        bias: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_choice("placement", placement, tuple(PLACEMENTS))
        check_probability("dropout", dropout)
        check_finite("alpha", alpha)
        check_flag("bias", bias)
        check_choice("backend", backend, get_args(Backend))
        self.d_model, self.placement, self.norm_kind = d_model, placement, norm
        self.dropout, self.alpha, self.eps, self.backend = dropout, alpha, eps, backend
        self.norm = make_norm(d_model, norm, eps, bias)
        two = sum(PLACEMENTS[placement]) == 2
        self.outer_norm = make_norm(d_model, norm, eps, bias) if two else None

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        return f"placement={self.placement!r}, dropout={self.dropout}, alpha={self.alpha}"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return y (..., d_model).

        Raises TypeError where x or the sublayer's output is no tensor, ValueError where its shape is another.
        """
        return self.on_stream(Stream(x), sublayer).sum()

    def on_stream(self, stream: Stream, sublayer: Callable[[Tensor], Tensor]) -> Stream:
        """Do the same on a stream whose last sum is open, and leave this block's sum open where no norm follows it."""
        check_tensor("x", stream.x)
        if stream.x.shape[-1:] != (self.d_model,):
            raise ValueError(f"x: shape (..., {self.d_model}) wanted, got {tuple(stream.x.shape)}")
        places = PLACEMENTS[self.placement]
        if places.before:
            x, z = stream.sum_and_norm(self.norm, self.backend)
        else:
            x = z = stream.sum()
        update = sublayer(z)
        if not isinstance(update, Tensor):
            raise TypeError(f"sublayer: one tensor as its output wanted, got {type(update).__name__}")
        if update.shape != x.shape:
            raise ValueError(f"sublayer: output of shape {tuple(x.shape)} as x wanted, got {tuple(update.shape)}")
        if places.behind:
            update = (self.norm if self.outer_norm is None else self.outer_norm)(update)
        open_sum = Stream(x, update, self.alpha, self.dropout if self.training else 0.0)
        return Stream(open_sum.norm(self.norm, self.backend)) if places.after_sum else open_sum
