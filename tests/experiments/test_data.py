"""The data sets: real, seeded, split without overlap; batches that visit every sample."""

import numpy as np
import pytest

from addnorm_lib.experiments import data


def test_digits_are_standardised_on_the_training_part():
    digits = data.load("digits")
    assert digits.x_train.shape == (1438, 64) and digits.x_test.shape == (359, 64)
    assert digits.x_train.dtype == np.float32 and digits.y_train.dtype == np.int64
    varied = digits.x_train.std(axis=0) > 0
    np.testing.assert_allclose(digits.x_train.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(digits.x_train.std(axis=0)[varied], 1, atol=1e-4)
    assert varied.sum() > 55 and set(digits.y_test) == set(range(10))
    assert digits.n_outputs == 10


def test_digits_split_follows_the_seed_and_loses_nothing():
    first, second = data.digits(seed=0), data.digits(seed=1)
    assert not np.array_equal(first.y_test, second.y_test)
    counts = np.bincount(np.concatenate([first.y_train, first.y_test]))
    np.testing.assert_array_equal(counts, np.bincount(np.concatenate([second.y_train, second.y_test])))
    assert np.array_equal(first.x_train, data.digits(seed=0).x_train)


def test_text_predicts_the_next_character_of_real_text():
    text = data.load("text", length=32)
    decode = np.array(list(text.vocabulary))
    assert "".join(decode[text.x_train[0]]) in data.topics_text()
    np.testing.assert_array_equal(text.y_train[:, :-1], text.x_train[:, 1:])
    np.testing.assert_array_equal(text.y_train[:-1, -1], text.x_train[1:, 0])
    assert text.n_outputs == len(text.vocabulary) > 60
    assert text.x_train.size + text.x_test.size > 400_000
    assert 0.09 < len(text.x_test) / (len(text.x_train) + len(text.x_test)) < 0.11


@pytest.mark.parametrize(("name", "turn"), [("reverse", -1), ("copy", 1)])
def test_sequence_tasks(name, turn):
    task = data.load(name, length=5, vocabulary=7, n_train=20, n_test=10, seed=3)
    assert task.x_train.shape == (20, 5) and task.x_test.shape == (10, 5) and task.n_outputs == 7
    np.testing.assert_array_equal(task.y_train, task.x_train[:, ::turn])
    np.testing.assert_array_equal(task.y_test, task.x_test[:, ::turn])
    assert task.x_train.min() == 0 and task.x_train.max() == 6


def test_loading_twice_gives_the_same_object():
    assert data.load("digits") is data.load("digits")
    assert data.load("addnorm_lib.experiments.data:copy", length=3).x_train.shape == (4096, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.load("mnist"), "digits, text, reverse, copy"),
        (lambda: data.load("digits", test_fraction=1.0), "test_fraction: a number between 0 and 1"),
        (lambda: data.load("reverse", length=0), "length: at least 1"),
        (lambda: data.load("text", length=0), "length: at least 1"),
        (lambda: data.batch_indices(10, 11, 5, 0), "batch_size: 1 to 10"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_batches_visit_every_sample_once_an_epoch():
    batches = data.batch_indices(30, 10, 6, seed=5)
    for epoch in (batches[:3], batches[3:]):
        np.testing.assert_array_equal(np.sort(epoch.ravel()), np.arange(30))
    assert not np.array_equal(batches[:3], batches[3:])
    np.testing.assert_array_equal(batches, data.batch_indices(30, 10, 6, seed=5))
    np.testing.assert_array_equal(batches[:4], data.batch_indices(30, 10, 4, seed=5))
