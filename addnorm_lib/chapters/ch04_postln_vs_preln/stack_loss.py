"""New Transformer stacks at initialisation, for exercise 4.11."""

import math
from typing import Literal

import torch
from torch import Tensor

from addnorm_lib.course.exercises.inputs import Shown


def stack_loss(placement: Literal["post", "pre"], seed: int = 0, d_model: int = 32, nets: int = 16) -> Shown:
    """Return `loss_at(depth)`, which gives (loss, W) of new Transformer stacks at initialisation, for `gradient_slope`.

    A layer is attention over one token, x W_V, and a ReLU feed-forward part with d_ff = d_model, both with LN in the
    placement asked for; a Pre-LN stack ends in a final LN (Xiong et al. 2020, section 3.2). All weights are normal with
    variance 1/d_model. `nets` independent stacks run at once, one token each: W is (nets, d_model, d_model), the last
    layers' second feed-forward weights, float32, and the loss is the sum of a random projection of every output. Random
    tokens in one net become alike with depth, which would tilt the slope.
    """

    def loss_at(depth: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(nets, *shape, generator=generator)

        def norm(z: Tensor) -> Tensor:
            return torch.nn.functional.layer_norm(z, (d_model,))

        def feed_forward(z: Tensor) -> Tensor:
            return torch.relu(z @ inner) @ weight

        def attention(z: Tensor) -> Tensor:
            return z @ value

        x, projection = norm(draw(1, d_model)), draw(d_model, 1)
        for _layer in range(depth):
            value, inner, weight = (draw(d_model, d_model) / math.sqrt(d_model) for _weight in range(3))
            weight.requires_grad_()
            for sublayer in (attention, feed_forward):
                x = norm(x + sublayer(x)) if placement == "post" else x + sublayer(norm(x))
        loss = ((norm(x) if placement == "pre" else x) @ projection).sum()
        return loss, weight

    return Shown(loss_at, f"L ↦ (loss, W), {placement}")
