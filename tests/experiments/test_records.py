"""Kept records: found again exactly, by everything that decides them, and harmless where they are broken."""

import dataclasses

import numpy as np
import pytest

from addnorm_lib.experiments import data, records, training
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train

RUNS = [Run(DepthNet, {"depth": depth}, steps=4, seeds=(0, 1), keep_state=True) for depth in (1, 2)]


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ADDNORM_RECORDS", str(tmp_path / "kept"))
    return tmp_path / "kept"


def no_training(*_arguments, **_named):
    raise AssertionError("something is trained")


def test_what_was_trained_is_found_again_bit_for_bit(folder, monkeypatch):
    first = train(RUNS, workers=1)
    assert len(list(folder.glob("*.npz"))) == len(list(folder.iterdir())) == 2
    monkeypatch.setattr(training, "train_run", no_training)
    again = train(RUNS[::-1], workers=1)
    for one, other in zip(first, list(again)[::-1], strict=True):
        assert one.run == other.run
        for field in dataclasses.fields(one):
            if field.name == "state":
                assert one.state.keys() == other.state.keys()
                assert all(np.array_equal(one.state[name], other.state[name]) for name in one.state)
            elif isinstance(getattr(one, field.name), np.ndarray):
                np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_only_what_is_missing_is_trained(folder, monkeypatch):
    train(RUNS[:1])
    trained = []
    real = training.train_run

    def noted(run, *rest, **named):
        trained.append(run)
        return real(run, *rest, **named)

    monkeypatch.setattr(training, "train_run", noted)
    assert train(RUNS, workers=1).values("depth") == [1, 2]
    assert trained == RUNS[1:]


def test_nothing_is_kept_unless_a_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("ADDNORM_RECORDS", raising=False)
    monkeypatch.chdir(tmp_path)
    train(RUNS[:1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"lr": 0.01}, {"seeds": (0, 2)}, {"steps": 5}, {"options": {"depth": 3}}])
def test_another_run_has_another_name(change):
    dataset = data.load("digits")
    assert records.key(RUNS[0], dataset, "cpu") != records.key(dataclasses.replace(RUNS[0], **change), dataset, "cpu")


def test_other_data_device_or_instructions_have_another_name(monkeypatch):
    dataset, name = data.load("digits"), records.key(RUNS[0], data.load("digits"), "cpu")
    assert name == records.key(RUNS[0], dataset, "cpu")
    moved = dataclasses.replace(dataset, x_train=dataset.x_train + 1e-6)
    assert name != records.key(RUNS[0], moved, "cpu")
    assert name != records.key(RUNS[0], dataset, "cuda")
    monkeypatch.setenv("MKL_CBWR", "SOMETHING")
    assert name != records.key(RUNS[0], dataset, "cpu")


def test_a_model_without_a_name_is_not_kept(folder):
    class Local(DepthNet):
        pass

    train(Run(Local, {"depth": 1}, steps=2, seeds=(0,)))
    assert not folder.exists()


def test_a_broken_file_is_trained_anew(folder):
    train(RUNS[:1])
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"not a zip"):
        file.write_bytes(content)
        assert len(train(RUNS[:1])) == 1
        assert file.stat().st_size > len(whole) // 2


def test_a_folder_that_cannot_be_written_keeps_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADDNORM_RECORDS", str(tmp_path / "file"))
    assert len(train(RUNS[:1])) == 1
