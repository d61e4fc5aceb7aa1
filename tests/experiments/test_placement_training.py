"""Grids of trainings over placements, and what they show."""

import numpy as np
import pytest
import torch

from addnorm_lib.experiments import data, placement_training
from addnorm_lib.experiments.training import build, train


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


@pytest.mark.slow
def test_at_twelve_layers_pre_trains_and_post_wants_warm_up():
    runs = [
        *placement_training.training_grid(("post",), (12,), (0, 100)),
        *placement_training.training_grid(("pre",), (12,), (0,)),
    ]
    results = train(runs)
    loss = {(p, w): results.one(placement=p, warmup=w).train_loss for p, w in (("post", 0), ("post", 100), ("pre", 0))}
    assert np.median(loss["post", 0]) > 1.2
    assert np.median(loss["post", 100]) < 0.4
    assert loss["pre", 0].max() < 0.05
