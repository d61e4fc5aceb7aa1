"""The identity experiment: every seed trains as if alone, and the best learning rate is kept for each kind."""

from typing import get_args

import pytest
import torch

from addnorm_lib.experiments.identity import Kind, identity_losses, train_on_identity

KINDS = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seeds_loss_does_not_depend_on_the_other_seeds(kind):
    together = train_on_identity(kind, 3, 3e-3, seeds=(4, 0, 7), steps=20)
    for i, seed in enumerate((4, 0, 7)):
        torch.testing.assert_close(
            train_on_identity(kind, 3, 3e-3, seeds=(seed,), steps=20)[0], together[i], rtol=1e-5, atol=1e-6
        )
    assert len(set(together.tolist())) == 3


def test_it_is_deterministic_and_leaves_the_global_seed_alone():
    state = torch.get_rng_state()
    first, second = (train_on_identity("residual", 2, 3e-3, seeds=(0, 1), steps=10) for _again in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_kinds_differ_as_they_should():
    # "scaled" at depth 1 is "residual"; and training lowers every kind's loss.
    one, other = (train_on_identity(kind, 1, 1e-3, seeds=(0,), steps=5) for kind in ("residual", "scaled"))
    assert torch.equal(one, other)
    for kind in KINDS:
        early, late = (train_on_identity(kind, 2, 1e-2, seeds=range(3), steps=steps) for steps in (1, 60))
        assert (late < 0.5 * early).all()


def test_the_best_learning_rate_is_kept_for_each_kind_and_depth():
    rates = (1e-5, 1e-2)
    result = identity_losses((1, 2), learning_rates=rates, seeds=(0, 1, 2), steps=15)
    assert result.depths == (1, 2)
    assert tuple(result.losses) == KINDS
    for kind, losses in result.losses.items():
        assert losses.shape == (2, 3)
        for depth, kept in zip(result.depths, losses, strict=True):
            runs = [train_on_identity(kind, depth, rate, seeds=(0, 1, 2), steps=15) for rate in rates]
            assert kept.median() == min(run.median() for run in runs)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("dense", 2, 1e-3), {}, "kind: one of plain, residual, scaled wanted, got 'dense'"),
        (("plain", 0, 1e-3), {}, "got depth 0 and 5 seeds"),
        (("plain", 2, 1e-3), {"seeds": ()}, "got depth 2 and 0 seeds"),
    ],
)
def test_bad_input_is_named(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        train_on_identity(*arguments, **options)
