"""The increments experiment: seeds train apart, the shares begin at 1/(l + 1), training teaches something."""

import pytest
import torch

from addnorm_lib.experiments.increments import branch_shares_in_training, standardised_digits
from addnorm_lib.experiments.stacks import mlp_branches, relu_layers

SMALL = {"depth": 3, "d_model": 16, "steps": 12, "batch": 32}


def test_a_seeds_shares_do_not_depend_on_the_other_seeds():
    together = branch_shares_in_training(seeds=(5, 0), **SMALL)
    for i, seed in enumerate((5, 0)):
        alone = branch_shares_in_training(seeds=(seed,), **SMALL)
        torch.testing.assert_close(alone.before[0], together.before[i], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alone.after[0], together.after[i], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together.before[0], together.before[1])


def test_it_is_deterministic_and_leaves_the_global_seed_alone():
    state = torch.get_rng_state()
    first, second = (branch_shares_in_training(seeds=(0,), **SMALL) for _again in range(2))
    assert torch.equal(first.after, second.after)
    assert torch.equal(first.accuracy, second.accuracy)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_shares_begin_at_one_over_l_plus_one_and_training_teaches():
    result = branch_shares_in_training(depth=4, seeds=range(3), steps=40)
    assert result.before.shape == result.after.shape == (3, 4)
    # relu's output has a mean, which is no variance over examples: the law holds to a few tenths, not exactly.
    law = 1 / torch.arange(2, 6)
    torch.testing.assert_close(result.before.mean(dim=0), law, rtol=0.3, atol=0)
    assert (result.accuracy > 0.8).all()
    untrained = branch_shares_in_training(depth=4, seeds=range(3), steps=1)
    assert (untrained.accuracy < 0.6).all()


def test_the_digits_are_centred():
    pixels, labels = standardised_digits()
    assert pixels.shape == (1797, 64) and set(labels.tolist()) == set(range(10))
    assert pixels.mean(dim=0).abs().max() < 1e-5
    assert pixels.std(dim=0).max() < 1


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"steps": 0}, {"seeds": ()}])
def test_bad_input_is_named(wrong):
    with pytest.raises(ValueError, match="depth, steps, seeds: at least one wanted"):
        branch_shares_in_training(**{**SMALL, "seeds": (0,), **wrong})


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
