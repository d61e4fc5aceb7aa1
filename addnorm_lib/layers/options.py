"""What the layers of a stack have in common, as keyword arguments."""

from typing import TypedDict

from addnorm_lib.fused import Backend, Norm
from addnorm_lib.layers.add_norm import Placement
from addnorm_lib.layers.feed_forward import Activation


class LayerOptions(TypedDict, total=False):
    """The keyword arguments of `EncoderLayer` and `DecoderLayer`; their docstrings explain them."""

    placement: Placement
    norm: Norm
    dropout: float
    alpha: float
    eps: float
    activation: Activation
    bias: bool
    causal: bool
    backend: Backend
