"""The one table of norms by name: what `norm="layer"` means, in layers, networks, panels and block diagrams alike."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.layers.checks import check_choice, check_positive
from addnorm_lib.messages import N_


class NormKind(NamedTuple):
    """One kind of norm over the last axis, with at most a weight and a bias, (D,) each, as its parameters.

    title: the reader's word for it. mark: its name in formulas and block diagrams.
    module: its class, built as `module(d_model, eps=eps)`, with `bias=` too where `has_bias`.
    function: the same without parameters, `function(x, eps)` of x (..., D).
    operator: the function of `torch.nn.functional` that its module calls, if it is one of torch's own.
    """

    title: str
    mark: str
    module: type[nn.Module]
    function: Callable[[Tensor, float], Tensor]
    has_bias: bool = False
    operator: Callable[..., Any] | None = None


NORMS: dict[str, NormKind] = {
    "layer": NormKind(
        N_("layer norm"),
        "LN",
        nn.LayerNorm,
        lambda x, eps: F.layer_norm(x, x.shape[-1:], eps=eps),
        has_bias=True,
        operator=F.layer_norm,
    ),
    "rms": NormKind(
        N_("RMS norm"), "RMS", nn.RMSNorm, lambda x, eps: F.rms_norm(x, x.shape[-1:], eps=eps), operator=F.rms_norm
    ),
}
"""LayerNorm, Ba et al. 2016, section 3; RMSNorm, Zhang & Sennrich 2019, section 4. Torch's own two run on the fused
core; any other is computed by its module, after the sum."""


def make_norm(d_model: int, norm: str, eps: float, bias: bool = True) -> nn.Module:
    """Return a new module of the kind called `norm`, with a bias only where the kind has one and `bias` says so.

    Raises ValueError for a name that is not in `NORMS`, and where `eps` is not positive.
    """
    check_choice("norm", norm, tuple(NORMS))
    check_positive("eps", eps)
    kind = NORMS[norm]
    return kind.module(d_model, eps=eps, bias=bias) if kind.has_bias else kind.module(d_model, eps=eps)


def name_of(module: nn.Module) -> str:
    """Return the name in `NORMS` of the module's kind. Raises ValueError where it is of none."""
    for name, kind in NORMS.items():
        if isinstance(module, kind.module):
            return name
    raise ValueError(f"module: one of {', '.join(NORMS)} wanted, got {type(module).__name__}")
