"""DeepNorm: a weighted shortcut and a smaller initialisation, which let Post-LN stacks grow to a thousand layers."""

from typing import NamedTuple

from torch import nn

from addnorm_lib.layers.attention import MultiHeadAttention
from addnorm_lib.layers.checks import check_count, check_positive
from addnorm_lib.layers.feed_forward import FeedForward


class DeepNorm(NamedTuple):
    """The factor `alpha` of every shortcut, and the gain `beta` of the initial weights."""

    alpha: float
    beta: float


def deepnorm(n_layers: int) -> DeepNorm:
    """Return alpha = (2N)^(1/4) and beta = (8N)^(-1/4) of an encoder alone or a decoder alone with N layers.

    Wang et al. 2022, figure 2. Raises ValueError where `n_layers` is no whole number of at least 1.
    """
    check_count("n_layers", n_layers)
    return DeepNorm((2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25)


def deepnorm_pair(n_encoder: int, n_decoder: int) -> tuple[DeepNorm, DeepNorm]:
    """Return the constants of an encoder with N layers and of the decoder with M layers that reads it.

    Encoder: alpha = 0.81 (N⁴M)^(1/16), beta = 0.87 (N⁴M)^(-1/16). Decoder: alpha = (3M)^(1/4), beta = (12M)^(-1/4).
    Wang et al. 2022, figure 2. Raises ValueError where a number of layers is no whole number of at least 1.
    """
    check_count("n_encoder", n_encoder)
    check_count("n_decoder", n_decoder)
    size = (n_encoder**4 * n_decoder) ** (1 / 16)
    return DeepNorm(0.81 * size, 0.87 / size), DeepNorm((3 * n_decoder) ** 0.25, (12 * n_decoder) ** -0.25)


def deepnorm_init_(module: nn.Module, beta: float) -> None:
    """Draw new weights in all attentions and feed-forwards of `module`, Xavier-normal, and set their biases to zero.

    The gain is `beta` for feed-forward weights and for W_v and W_o, and 1 for W_q and W_k, which only choose where to
    look. Wang et al. 2022, figure 2. Raises ValueError where `module` has neither attention nor feed-forward, and where
    `beta` is not positive.
    """
    check_positive("beta", beta)
    gains: dict[nn.Linear, float] = {}
    for part in module.modules():
        if isinstance(part, FeedForward):
            gains |= {part.linear1: beta, part.linear2: beta}
        elif isinstance(part, MultiHeadAttention):
            gains |= {part.query: 1.0, part.key: 1.0, part.value: beta, part.output: beta}
    if not gains:
        raise ValueError(f"module: one with attention or feed-forward wanted, got {type(module).__name__}")
    for linear, gain in gains.items():
        nn.init.xavier_normal_(linear.weight, gain)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)
