"""The engine: every seed trains as it would alone, wherever it runs, and stops when it is told to."""

import concurrent.futures as cf
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from addnorm_lib.experiments import data, training
from addnorm_lib.experiments import plain_loop as bench
from addnorm_lib.experiments.depth import DepthNet, depth_runs
from addnorm_lib.experiments.network_stack import build
from addnorm_lib.experiments.plain_loop import plain_loop
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train


class TokenNet(nn.Module):
    """A Transformer layer between an embedding and a readout: a module that only vmap can stack."""

    def __init__(self, d_model: int = 16, vocabulary: int = 7):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d_model)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(d_model, 2, 32, dropout=0.0, batch_first=True)])
        self.readout = nn.Linear(d_model, vocabulary)

    def forward(self, x):
        """Return the logits of every position."""
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.readout(h)


class Unstacked(DepthNet):
    """The same network without its own stacked forward pass."""

    forward_stacked = None


TOKENS = {"length": 5, "vocabulary": 7, "n_train": 64, "n_test": 32}
EQUAL = {
    "plain": Run(DepthNet, {"kind": "plain", "depth": 4}),
    "residual": Run(DepthNet, {"kind": "residual", "depth": 4}),
    "deep residual": Run(DepthNet, {"kind": "residual", "depth": 24}, dtype="float64"),
    "residual, Adam, warm-up": Run(DepthNet, {"depth": 4}, optimiser="adam", lr=1e-3, warmup=20, dtype="float64"),
    "layer norm": Run(DepthNet, {"depth": 8, "norm": "layer"}, dtype="float64"),
    "RMS norm": Run(DepthNet, {"depth": 8, "norm": "rms"}, dtype="float64"),
    "no norm": Run(DepthNet, {"depth": 8, "norm": None, "branch": "1/sqrt(L)"}),
    "shortcut factor": Run(DepthNet, {"depth": 8, "shortcut": 0.9}, dtype="float64"),
    "tanh, orthogonal": Run(DepthNet, {"kind": "plain", "depth": 4, "activation": "tanh", "init": "orthogonal"}),
    "deep plain": Run(DepthNet, {"kind": "plain", "depth": 12}, dtype="float64", lr=0.01),
    "vmap": Run(Unstacked, {"depth": 4}),
    "Transformer": Run(
        TokenNet, data="copy", data_options=TOKENS, batch_size=32, optimiser="adam", lr=1e-3, dtype="float64"
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_every_seed_trains_as_it_would_alone(name):
    run = Run(**{**{f: getattr(EQUAL[name], f) for f in Run.__dataclass_fields__}, "steps": 50, "seeds": (0, 3)})
    record = train(run)[0]
    for i, seed in enumerate(run.seeds):
        np.testing.assert_allclose(record.loss[i], plain_loop(run, seed), rtol=0, atol=1e-5)
    assert not np.allclose(record.loss[0], record.loss[1], atol=1e-3)


def test_the_benchmark_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "--steps", "2", "--seeds", "2", "--depths", "1", "2", "--rounds", "1"])
    bench.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4 runs × 2 seeds × 2 steps") and len(lines) == 9


def test_what_is_recorded_is_what_hooks_on_one_network_see():
    for model in (DepthNet, Unstacked):
        run = Run(model, {"depth": 2}, steps=1, seeds=(0, 5), dtype="float64")
        record = train(run)[0]
        dataset = data.load("digits")
        for i, seed in enumerate(run.seeds):
            network, seen = build(run, seed), {}
            for name, module in network.named_modules():
                module.register_forward_hook(
                    lambda _m, _i, out, name=name, seen=seen: seen.update({name: out.detach()})
                )
            rows = data.batch_indices(len(dataset.x_train), 128, 1, seed)[0]
            x, y = torch.from_numpy(dataset.x_train[rows]).double(), torch.from_numpy(dataset.y_train[rows])
            nn.functional.cross_entropy(network(x), y).backward()
            norms = [float(p.grad.norm()) for name, p in network.named_parameters() if p.ndim >= 2]
            np.testing.assert_allclose(record.gradient_norm[i, 0], norms, rtol=1e-9)
            scales = [float(seen[f"blocks.{l}"].std(correction=0)) for l in range(2)]
            np.testing.assert_allclose(record.activation_std[i, 0], scales, rtol=1e-9)
            responses = [float(seen[f"blocks.{l}.branch"].std(correction=0)) for l in range(2)]
            np.testing.assert_allclose(record.response_std[i, 0], responses, rtol=1e-9)


def test_final_errors_come_from_evaluation_mode():
    run = Run(DepthNet, {"depth": 2}, steps=20, seeds=(0, 1), keep_state=True)
    record, dataset = train(run)[0], data.load("digits")
    for i in range(2):
        network = run.build()
        network.load_state_dict({name: torch.as_tensor(value[i]) for name, value in record.state.items()})
        network.eval()
        for x, y, loss, error in (
            (dataset.x_train, dataset.y_train, record.train_loss, record.train_error),
            (dataset.x_test, dataset.y_test, record.test_loss, record.test_error),
        ):
            logits, target = network(torch.from_numpy(x)).detach(), torch.from_numpy(y)
            assert loss[i] == pytest.approx(float(nn.functional.cross_entropy(logits, target)), rel=1e-5)
            assert error[i] == pytest.approx(float((logits.argmax(1) != target).double().mean()), abs=1e-9)


@pytest.fixture(scope="module")
def expected():
    return train(depth_runs(depths=(1, 3), steps=10, seeds=(0, 1)), workers=1)


def _assert_same(results, expected):
    assert [r.run for r in results] == [r.run for r in expected]
    for name in ("loss", "gradient_norm", "activation_std", "train_loss", "test_error"):
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


def test_local_processes_give_the_same_numbers_and_print_nothing(expected, capfd):
    _assert_same(train([r.run for r in expected], workers=2, progress=False), expected)
    assert capfd.readouterr() == ("", "")


def test_a_callers_threads_give_the_same_numbers(expected):
    with cf.ThreadPoolExecutor(2) as executor:
        _assert_same(train([r.run for r in expected], executor=executor), expected)
    assert torch.get_num_threads() == 1


def test_dask_gives_the_same_numbers(expected):
    distributed = pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        _assert_same(train([r.run for r in expected], executor=client.get_executor()), expected)


def test_a_model_that_only_this_process_knows_trains_in_threads(expected):
    runs = [Run(lambda depth=depth: DepthNet("plain", depth), steps=10, seeds=(0, 1)) for depth in (1, 3)]
    results = train(runs, workers=2)
    for got, depth in zip(results, (1, 3), strict=True):
        np.testing.assert_array_equal(got.loss, expected.one(kind="plain", depth=depth).loss)


def test_divergence_is_recorded_and_does_not_touch_the_other_seeds():
    run = Run(DepthNet, {"depth": 24, "norm": None}, steps=30, lr=0.05, seeds=(0, 1))
    record = train(run)[0]
    assert record.diverged.all() and np.isnan(record.train_loss).all()
    assert np.isfinite(record.loss[:, 0]).all() and np.isnan(record.loss[:, -1]).all()

    class OneBad(nn.Linear):
        def __init__(self):
            super().__init__(64, 10)
            if torch.initial_seed() == 1:
                nn.init.constant_(self.weight, torch.inf)

    mixed = train(Run(OneBad, steps=5, seeds=(0, 1, 2)))[0]
    assert list(mixed.diverged) == [False, True, False]
    alone = train(Run(OneBad, steps=5, seeds=(0, 2)))[0]
    np.testing.assert_allclose(mixed.loss[[0, 2]], alone.loss, atol=1e-6)


def test_floating_targets_mean_regression(monkeypatch):
    monkeypatch.setitem(data.DATASETS, "identity", identity_task)
    record = train(Run(nn.Linear, {"in_features": 4, "out_features": 4}, data="identity", lr=0.3))[0]
    assert (record.train_loss < record.loss[:, 0] / 20).all() and np.isnan(record.test_error).all()


def identity_task():
    x = np.random.default_rng(0).standard_normal((256, 4)).astype(np.float32)
    return data.Dataset(x, x, x[:32], x[:32], n_outputs=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train([]), "runs: one or more Run"),
        (lambda: train([DepthNet]), "runs: one or more Run"),
        (lambda: train(Run(DepthNet, {"kind": "dense"})), "kind: one of 'plain', 'residual' wanted, got 'dense'"),
        (lambda: train(Run(DepthNet, {"depth": 0})), "depth: a whole number of at least 1"),
        (lambda: train(Run("nowhere:Net")), "model: a callable or 'module:name'"),
        (lambda: train(Run(nn.Identity)), "has no parameters"),
        (lambda: train(Run(DepthNet, data="mnist")), "data: one of digits"),
        (lambda: train(Run(DepthNet, batch_size=5000)), "batch_size: 1 to 1438"),
        (lambda: train(Run(DepthNet), device="tpu9"), "device: 'auto' or a device of this machine"),
        (lambda: train(Run(DepthNet), device="cuda:77"), "device: 'auto' or a device of this machine"),
        (lambda: train(Run(DepthNet), workers=0), "workers: at least 1"),
        (lambda: train(Run(DepthNet), executor=4), "executor: a concurrent.futures.Executor"),
    ],
)
def test_bad_input_is_refused_before_any_training(call, message, monkeypatch):
    monkeypatch.setattr(training, "train_run", _nothing_trains)
    with pytest.raises(ValueError, match=message):
        call()


def _nothing_trains(*_arguments, **_options):
    pytest.fail("a run was trained")


def test_a_late_bad_run_is_found_before_the_first_trains(monkeypatch):
    monkeypatch.setattr(training, "train_run", _nothing_trains)
    endless = Run(DepthNet, {"depth": 64}, steps=10_000_000, batch_size=1, seeds=(0,))
    with pytest.raises(ValueError, match="depth"):
        train([endless, Run(DepthNet, {"depth": -1})], workers=1)


def test_a_models_own_error_names_the_run():
    runs = [Run(nn.Linear, {"in_features": 3, "out_features": n}, steps=2) for n in (10, 11)]
    with pytest.raises(RuntimeError) as caught:
        train(runs, workers=2)
    assert any("in_features" in note for note in caught.value.__notes__)


MODELS = """
import os, threading
from pathlib import Path
from addnorm_lib.experiments.depth import DepthNet

class Marking(DepthNet):
    forward_stacked = None

    def forward(self, x):
        if self.training and len(self.blocks) == 3:
            Path(f"training-{os.getpid()}-{threading.get_ident()}").touch()
        return super().forward(x)
"""
SCRIPT = """
import contextlib, threading, time, warnings
from pathlib import Path
from addnorm_lib.experiments import training
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train
from marking import Marking
warnings.simplefilter("ignore")

def local():
    return Marking(depth=1)

class Counting(contextlib.AbstractContextManager):
    # A bar: it is told of the short run once its record is kept.

    def __exit__(self, *_error): ...

    def update(self, n=1):
        Path("counted").touch()

training.progress_bar = lambda *_given: Counting()

if __name__ == "__main__":
    short = Run(Marking if {processes} else local, steps=1, seeds=(0,))
    long = Run(Marking, {{"depth": 3}}, steps=1_000_000, batch_size=2, seeds=(0,))
    results = train([short, long, long], workers={workers}, progress=False)
    print(len(results), results.interrupted, *[r.run.steps for r in results])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and process groups")
@pytest.mark.parametrize(
    ("way", "sent"),
    [
        ("processes", "one process"),
        ("processes", "whole group"),
        ("processes", "kill"),
        ("threads", "one process"),
        ("here", "one process"),
    ],
)
def test_an_interrupt_keeps_what_finished_and_leaves_no_process(way, sent, tmp_path):
    workers = 1 if way == "here" else 3
    (tmp_path / "marking.py").write_text(MODELS)
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT.format(processes=way == "processes", workers=workers)))
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, str(tmp_path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # The short run's record is kept, and as many long runs are under way as there can be.
        deadline = time.monotonic() + 500
        while time.monotonic() < deadline and process.poll() is None:
            if (tmp_path / "counted").exists() and len(list(tmp_path.glob("training-*"))) == max(1, workers - 1):
                break
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        if sent == "whole group":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGKILL if sent == "kill" else signal.SIGINT)
        out, err = process.communicate(timeout=300)
        if sent != "kill":
            assert (out.split(), err) == (["1", "True", "1"], "")
        deadline = time.monotonic() + 150
        while _group_lives(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _group_lives(process.pid)
    finally:
        if _group_lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def _group_lives(group: int) -> bool:
    """Whether a process of that group runs; one that is dead but not yet waited for does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False
