"""The identity experiment: a block can be the identity, the kinds differ as they should, the best rate is kept."""

from typing import get_args

import pytest
import torch

from addnorm_lib.chapters.ch01_residual.measures.identity import IdentityStack, Kind, identity_losses, normal_vectors

KINDS = get_args(Kind)


def test_the_target_is_the_input():
    dataset = normal_vectors(d_model=3, n_train=5, n_test=2)
    assert dataset.x_train.shape == (5, 3) and dataset.n_outputs == 3
    assert (dataset.x_train == dataset.y_train).all() and (dataset.x_test == dataset.y_test).all()


@torch.no_grad()
def test_every_kind_can_be_the_identity_exactly():
    x = torch.from_numpy(normal_vectors().x_train)
    for kind in KINDS:
        stack = IdentityStack(kind, depth=3)
        for first, _relu, last in stack.blocks:
            eye = torch.eye(16)
            first.weight.copy_(torch.cat([eye, -eye]))
            last.weight.copy_(torch.cat([eye, -eye], dim=1) if kind == "plain" else 0 * last.weight)
        assert torch.equal(stack(x), x)


def test_scaled_is_residual_with_a_smaller_start():
    def last_weight(kind, depth):
        torch.manual_seed(0)
        return IdentityStack(kind, depth).blocks[0][2].weight

    assert torch.equal(last_weight("residual", 1), last_weight("scaled", 1))
    torch.testing.assert_close(last_weight("scaled", 4), last_weight("residual", 4) / 2)


def test_the_best_learning_rate_is_kept_for_each_kind_and_depth():
    rates, options = (1e-5, 1e-2), {"seeds": (0, 1, 2), "steps": 15}
    both = identity_losses((1, 2), learning_rates=rates, **options)
    alone = [identity_losses((1, 2), learning_rates=(rate,), **options) for rate in rates]
    assert both.depths == (1, 2) and tuple(both.losses) == KINDS
    for kind, losses in both.losses.items():
        assert losses.shape == (2, 3)
        for row in range(2):
            medians = [one.losses[kind][row].median() for one in alone]
            assert losses[row].median() == min(medians)
            assert medians[0] != medians[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: IdentityStack("dense", 2), "kind: one of plain, residual, scaled wanted, got 'dense'"),
        (lambda: identity_losses((0,)), "depth: at least 1 wanted, got 0"),
        (lambda: identity_losses((2,), seeds=()), "seeds: one or more different numbers"),
        (lambda: identity_losses(()), "depths, learning_rates: one or more wanted"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
