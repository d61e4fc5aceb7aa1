"""Random branches at initialisation keep the size that they promise."""

import pytest
import torch

from addnorm_lib.chapters.ch01_residual.measures.stacks import mlp_branches, relu_layers


def test_random_stacks_keep_their_promises():
    x = torch.randn(1000, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def mean_square(make, size=1, **options):
        # One draw of the weights scatters by about 15 %, so the mean of 20 by about 3 %.
        return sum(make(1, 64, seed=s, **options)[0](size * x).square().mean().item() for s in range(20)) / 20

    assert mean_square(relu_layers) == pytest.approx(1, rel=0.12)
    assert mean_square(mlp_branches, scale=0.5) == pytest.approx(0.25, rel=0.12)
    assert mean_square(mlp_branches, 100, scale=0.5, layer_norm=True) == pytest.approx(0.25, rel=0.12)
    # Each function keeps its own weights, and the seed decides them.
    one, two = relu_layers(2, 8)
    again = relu_layers(2, 8)[0]
    assert not torch.equal(one(x[:, :8]), two(x[:, :8]))
    assert torch.equal(one(x[:, :8]), again(x[:, :8]))
    for make in (relu_layers, mlp_branches):
        with pytest.raises(ValueError, match="depth and d_model: at least 1 wanted, got 0 and 4"):
            make(0, 4)
