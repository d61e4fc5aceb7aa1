"""Grids of trainings over placements, and what they show."""

import numpy as np
import torch

from addnorm_lib.experiments import data, placement_training
from addnorm_lib.experiments.network_stack import build
from addnorm_lib.experiments.training import train


def test_grids_name_their_runs():
    runs = placement_training.training_grid(("post", "deepnorm"), (2, 3), (0, 5), (1e-3, 1e-2), steps=7, d_model=16)
    assert len(runs) == 16 and all(run.steps == 7 and run.options["d_model"] == 16 for run in runs)
    assert {(r.value("placement"), r.value("depth"), r.warmup, r.lr) for r in runs} == {
        (p, d, w, lr) for p in ("post", "deepnorm") for d in (2, 3) for w in (0, 5) for lr in (1e-3, 1e-2)
    }
    assert [(r.value("residual"), r.value("norm")) for r in placement_training.ablation(2)] == [
        (False, None),
        (False, "layer"),
        (True, None),
        (True, "layer"),
    ]


def test_text_is_predicted_causally():
    run = placement_training.text_grid(("pre",), (1,), (0,), steps=20, seeds=(0,))[0]
    record = train(run)[0]
    assert record.loss[0, 0] > 4 > record.train_loss[0]
    net = build(run, 0)
    x = torch.from_numpy(data.load("text", length=16).x_test[:2])
    y = x.clone()
    y[:, 9] = (y[:, 9] + 1) % 90
    assert torch.equal(net(x)[:, :9], net(y)[:, :9]) and not torch.equal(net(x)[:, 9:], net(y)[:, 9:])


def test_a_grid_trains_what_it_names():
    """That Post-LN wants warm-up at twelve layers and Pre-LN does not is claimed, and trained for, in chapter 4."""
    results = train(placement_training.training_grid(depths=(2,), warmups=(0, 20), steps=40, seeds=(0, 1)), workers=1)
    loss = {(p, w): results.one(placement=p, warmup=w).loss for p in ("post", "pre") for w in (0, 20)}
    for place in ("post", "pre"):
        at_once, warmed = loss[place, 0], loss[place, 20]
        np.testing.assert_array_equal(at_once[:, 0], warmed[:, 0])  # the same weights and the same batch
        assert np.all(at_once[:, 5:10].mean(1) < warmed[:, 5:10].mean(1))  # small steps get less far at first
        assert np.all(warmed[:, -1] < warmed[:, 0] - 0.3) and np.all(at_once[:, -1] < at_once[:, 0] - 0.3)
    assert np.all(loss["post", 0][:, 0] != loss["pre", 0][:, 0])
