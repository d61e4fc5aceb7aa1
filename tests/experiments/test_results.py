"""Runs refuse what cannot be trained; results are found again, by name and in a file."""

import numpy as np
import pytest
from torch import nn

from addnorm_lib.experiments.depth import DepthNet, depth_runs
from addnorm_lib.experiments.results import Results, Run
from addnorm_lib.experiments.training import train


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps: a whole number of at least 1"),
        ({"steps": 1.5}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"record_every": 0}, "record_every"),
        ({"warmup": -1}, "warmup"),
        ({"seeds": ()}, "seeds: one or more different"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"seeds": (-1,)}, "seeds"),
        ({"lr": 0.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"momentum": 1.0}, "momentum"),
        ({"optimiser": "lion"}, "optimiser: one of sgd, adam"),
        ({"schedule": "cosine"}, "schedule: one of constant, inverse_sqrt"),
        ({"schedule": "inverse_sqrt"}, "warmup: at least 1"),
        ({"dtype": "float16"}, "dtype"),
        ({"model": 7}, "model: a callable"),
    ],
)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Run(**{"model": DepthNet, **fields})


def test_the_learning_rate_warms_up_and_falls():
    flat = Run(DepthNet, lr=0.4, warmup=4)
    assert [flat.learning_rate(step) for step in range(6)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    falling = Run(DepthNet, lr=0.4, warmup=4, schedule="inverse_sqrt")
    assert falling.learning_rate(3) == pytest.approx(0.4) and falling.learning_rate(15) == pytest.approx(0.2)


def test_an_importable_model_is_kept_as_its_name():
    assert Run(DepthNet).model == "addnorm_lib.experiments.depth:DepthNet"
    assert isinstance(Run(DepthNet, {"depth": 3}).build(), DepthNet)
    assert callable(Run(lambda: nn.Linear(64, 10)).model)


@pytest.fixture(scope="module")
def results():
    return train(depth_runs(depths=(1, 2), steps=3, seeds=(4, 7), record_every=2, keep_state=True), workers=1)


def test_records_are_found_by_fields_and_options(results):
    assert results.one(kind="plain", depth=2).run.options == {"kind": "plain", "depth": 2}
    assert results.where(kind="residual").values("depth") == [1, 2]
    assert results.column("train_loss").shape == (4, 2)
    assert len(results + results) == 8
    with pytest.raises(KeyError, match="2 records with"):
        results.one(depth=2)


def test_one_file_brings_everything_back(results, tmp_path):
    path = tmp_path / "runs.npz"
    results.save(path)
    again = Results.load(path)
    assert len(again) == 4 and not again.interrupted and list(tmp_path.iterdir()) == [path]
    for old, new in zip(results, again, strict=True):
        assert new.run == old.run and new.weights == old.weights and new.seconds == old.seconds
        for name in ("loss", "recorded", "gradient_norm", "activation_std", "response_std", "test_error", "diverged"):
            np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
            assert getattr(new, name).dtype == getattr(old, name).dtype
        assert new.state.keys() == old.state.keys()
        assert all(np.array_equal(new.state[name], old.state[name]) for name in old.state)


def test_a_model_without_a_name_cannot_be_saved(tmp_path):
    unnamed = train(Run(lambda: nn.Linear(64, 10), steps=1, seeds=(0,)))
    with pytest.raises(ValueError, match="no importable name"):
        unnamed.save(tmp_path / "runs.npz")


def test_shapes_are_as_documented(results):
    record = results.one(kind="residual", depth=2)
    assert record.loss.shape == (2, 3) and list(record.recorded) == [0, 2]
    expected = ("stem.weight", "blocks.0.branch.linear.weight", "blocks.1.branch.linear.weight", "readout.weight")
    assert record.weights == expected
    assert record.gradient_norm.shape == (2, 2, 4)
    assert record.activation_std.shape == record.response_std.shape == (2, 2, 2)
    assert np.isfinite(record.gradient_norm).all() and (record.activation_std > 0).all()
