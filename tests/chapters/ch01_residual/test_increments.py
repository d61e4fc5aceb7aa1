"""The increments experiment: the shares begin at 1/(l + 1), they are those of the network, training teaches."""

import pytest
import torch

from addnorm_lib.chapters.ch01_residual.measures.increments import branch_shares_in_training
from addnorm_lib.experiments import data
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import build
from addnorm_lib.probes import branch_shares


def test_the_shares_before_training_are_those_of_the_network():
    result = branch_shares_in_training(depth=3, seeds=(5, 0), steps=2)
    dataset = data.load("digits")
    run = Run(DepthNet, {"kind": "residual", "depth": 3, "norm": "layer"})
    for i, seed in enumerate((5, 0)):
        network = build(run, seed)
        rows = data.batch_indices(len(dataset.x_train), run.batch_size, 1, seed)[0]
        with torch.no_grad():
            h = network.stem(torch.from_numpy(dataset.x_train[rows]))
            shares = branch_shares([block.branch for block in network.blocks], h)
        torch.testing.assert_close(result.before[i], shares.double(), rtol=1e-4, atol=0)


def test_the_shares_begin_at_one_over_l_plus_one_and_training_teaches():
    result = branch_shares_in_training(depth=4, seeds=range(3), steps=60)
    assert result.before.shape == result.after.shape == (3, 4)
    # relu's output has a mean, which is no variance over examples: the law holds to a few tenths, not exactly.
    law = 1 / torch.arange(2.0, 6.0, dtype=torch.float64)
    torch.testing.assert_close(result.before.mean(dim=0), law, rtol=0.3, atol=0)
    assert (result.accuracy > 0.8).all()
    assert not torch.allclose(result.before, result.after, rtol=0.01)
    assert (branch_shares_in_training(depth=4, seeds=range(3), steps=2).accuracy < 0.6).all()


@pytest.mark.parametrize(
    ("wrong", "words"), [({"depth": 0}, "depth"), ({"steps": 1}, "steps: at least 2"), ({"seeds": ()}, "seeds")]
)
def test_bad_input_is_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        branch_shares_in_training(**{"depth": 2, "seeds": (0,), "steps": 2, **wrong})
