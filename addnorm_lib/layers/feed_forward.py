"""The feed-forward sublayer: the same two-layer network at every position."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from addnorm_lib.layers.checks import check_choice, check_count, check_flag, check_probability

Activation = Literal["relu", "gelu"] | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """y = W₂ · dropout(activation(W₁x + b₁)) + b₂, for each position by itself.

    Vaswani et al. 2017, section 3.3. Weights start Xavier-uniform and biases at zero, as in `MultiHeadAttention`.

    Args:
        d_model: the size of x and y's last axis.
        d_ff: the size of the hidden layer.
        activation: "relu", "gelu" (the exact one, with erf), or a function that keeps the shape.
        dropout: the probability that a hidden element is dropped, in training mode.
        bias: whether the two linear maps have one.

    Call it with x (..., d_model); y has x's shape.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Activation = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_count("d_ff", d_ff)
        check_probability("dropout", dropout)
        check_flag("bias", bias)
        if isinstance(activation, type):
            raise ValueError(f"activation: a function wanted, got the class {activation.__name__}; make one of it")
        if not callable(activation):
            check_choice("activation", activation, tuple(_ACTIVATIONS))
            activation = _ACTIVATIONS[activation]
        self.linear1 = nn.Linear(d_model, d_ff, bias=bias)
        self.linear2 = nn.Linear(d_ff, d_model, bias=bias)
        self.activation, self.dropout = activation, dropout
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for linear in (self.linear1, self.linear2):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def extra_repr(self) -> str:
        """Say what the nested modules do not show."""
        named = hasattr(self.activation, "__name__")
        return f"activation={self.activation.__name__}, dropout={self.dropout}" if named else f"dropout={self.dropout}"

    def forward(self, x: Tensor) -> Tensor:
        """Return y (..., d_model)."""
        return self.linear2(F.dropout(self.activation(self.linear1(x)), self.dropout, self.training))
