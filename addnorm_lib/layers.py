"""Add & Norm as a module: the residual sum around a sublayer, with the norm where the placement puts it."""

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.fused import add_norm

Placement = Literal["post", "pre", "sandwich", "branch"]
Norm = Literal["layer", "rms"]

_NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


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
        norm: "layer" for LayerNorm (weight and bias), "rms" for RMSNorm (weight).
        dropout: the probability that an element of the branch is dropped, in training mode.
        alpha: scales the shortcut; above 1 in DeepNorm (Wang et al. 2022, section 3).
        eps: added to the variance.

    Call it as `add_norm(x, sublayer)`: x (..., d_model), and `sublayer` a function that keeps x's shape.
    """

    def __init__(
        self,
        d_model: int,
        placement: Placement = "post",
        norm: Norm = "layer",
        dropout: float = 0.0,
        alpha: float = 1.0,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        if not isinstance(d_model, int) or isinstance(d_model, bool) or d_model < 1:
            raise ValueError(f"d_model: a whole number of at least 1 wanted, got {d_model!r}")
        if placement not in get_args(Placement):
            raise ValueError(f"placement: one of {', '.join(get_args(Placement))} wanted, got {placement!r}")
        if norm not in _NORMS:
            raise ValueError(f"norm: one of {', '.join(_NORMS)} wanted, got {norm!r}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout: a probability from 0 to 1 wanted, got {dropout!r}")
        if not eps > 0:
            raise ValueError(f"eps: a positive number wanted, got {eps!r}")
        self.d_model, self.placement, self.norm_kind = d_model, placement, norm
        self.dropout, self.alpha, self.eps = dropout, alpha, eps
        self.norm = _NORMS[norm](d_model, eps=eps)
        self.outer_norm = _NORMS[norm](d_model, eps=eps) if placement == "sandwich" else None

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        return f"placement={self.placement!r}, dropout={self.dropout}, alpha={self.alpha}"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return y (..., d_model). Raises ValueError where x or the sublayer's output has another shape."""
        if x.shape[-1:] != (self.d_model,):
            raise ValueError(f"x: shape (..., {self.d_model}) wanted, got {tuple(x.shape)}")
        update = sublayer(self.norm(x) if self.placement in ("pre", "sandwich") else x)
        if update.shape != x.shape:
            raise ValueError(f"sublayer: output of shape {tuple(x.shape)} as x wanted, got {tuple(update.shape)}")
        if self.placement == "post":
            return add_norm(
                update,
                x,
                self.norm.weight,
                getattr(self.norm, "bias", None),
                norm=self.norm_kind,
                eps=self.eps,
                alpha=self.alpha,
                dropout_p=self.dropout,
                training=self.training,
            )
        if self.placement == "branch":
            update = self.norm(update)
        elif self.outer_norm is not None:
            update = self.outer_norm(update)
        return self.alpha * x + F.dropout(update, self.dropout, self.training)
