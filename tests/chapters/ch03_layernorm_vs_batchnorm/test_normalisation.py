"""What norms do to training, and how far a batch's statistics can be trusted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from addnorm_lib import reference
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures import normalisation
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.measures.normalisation import (
    RATES,
    norm_runs,
    steps_to,
    usable_decades,
)
from addnorm_lib.experiments import data
from addnorm_lib.experiments.statistics import slope
from addnorm_lib.experiments.training import train


def test_settings_go_to_the_run_or_to_the_network():
    runs = norm_runs(("layer", None), (0.1, 0.2), steps=7, kind="plain")
    assert [(run.options["norm"], run.lr) for run in runs] == [("layer", 0.1), ("layer", 0.2), (None, 0.1), (None, 0.2)]
    assert all(run.steps == 7 and run.options["kind"] == "plain" and run.options["depth"] == 12 for run in runs)
    sizes = normalisation.batch_size_runs((2, 64), ("batch",), lr=0.02)
    assert [(run.batch_size, run.lr, run.steps) for run in sizes] == [(2, 0.02, 300), (64, 0.02, 300)]


def test_layer_norm_widens_the_range_of_learning_rates_of_a_residual_stack():
    # Medians over five seeds; on ten disjoint sets of seeds: none ≤ 1.00, layer norm ≥ 2.26.
    results = train(norm_runs((None, "layer")), progress=False)
    none, layer = (results.where(norm=norm) for norm in (None, "layer"))
    decades = [np.median(usable_decades(RATES, r.column("train_loss"), 0.5)) for r in (none, layer)]
    assert decades[0] < 1.2 and decades[1] > 2
    assert np.median(steps_to(layer.one(lr=0.1), 0.5)) < 40
    assert all(np.median(steps_to(record, 0.5)) > 70 for record in none)
    # … and at the smallest rate the norm is the slower one.
    assert np.median(none.one(lr=0.001).train_loss) < 1 < 1.5 < np.median(layer.one(lr=0.001).train_loss)


def test_batch_norm_fails_where_the_batch_has_two_digits():
    # Medians over five seeds; on ten disjoint sets of seeds: .554–.618 against .875–.925.
    batch, layer = train(normalisation.batch_size_runs((2,)), workers=1, progress=False)
    assert np.median(batch.test_error) > 0.3 and np.median(layer.test_error) < 0.2


def test_usable_decades_are_read_off_the_line_through_the_losses():
    rates = (0.01, 0.1, 1.0)
    valley, too_high, rising = (1.0, 0.01, 1.0), (0.2, 0.15, 0.3), (0.01, 1.0, math.nan)
    measured = usable_decades(rates, np.transpose([valley, too_high, rising]), 0.1)
    np.testing.assert_allclose(measured, [1.0, 0.0, 0.5], rtol=1e-12)
    assert usable_decades(rates, np.full((3, 1), 0.05), 0.1) == pytest.approx(2)
    assert usable_decades(rates, [[0.05], [math.nan], [0.05]], 0.1) == 0


@given(st.lists(st.floats(1e-3, 10), min_size=2, max_size=6), st.floats(1e-2, 1), st.floats(1, 10))
def test_usable_decades_grow_with_the_limit(losses, limit, factor):
    rates, losses = np.logspace(-3, 0, len(losses)), np.array(losses)[:, None]
    narrow, wide = (usable_decades(rates, losses, value)[0] for value in (limit, factor * limit))
    assert 0 <= narrow <= wide + 1e-9 <= 3 + 2e-9


def test_bad_questions_are_named():
    record = train(norm_runs((None,), (0.01,), steps=5, depth=1, seeds=(0,)), progress=False)[0]
    for question, message in (
        (lambda: usable_decades((0.1, 0.01), np.ones((2, 1)), 1), "learning_rates"),
        (lambda: usable_decades((0.1, 0.2), np.ones(2), 1), "learning_rates"),
        (lambda: steps_to(record, 1.0), "window: 1 to 5"),
        (lambda: normalisation.batch_fluctuation("words"), "source: one of digits, text"),
        (lambda: normalisation.batch_fluctuation(batch_sizes=()), "batch sizes ≥ 1"),
        (lambda: normalisation.mate_spread(reference.layer_norm, (1,)), "batch sizes ≥ 2"),
        (lambda: normalisation.token_statistics(windows=0), "windows: at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            question()


def test_steps_to_is_the_end_of_the_first_window_below_the_limit():
    record = train(norm_runs((None,), (0.01,), steps=4, depth=1, seeds=(0, 1)), progress=False)[0]
    record = replace(record, loss=np.array([[4.0, 1.0, 1.0, 0.5], [4.0, 3.0, 2.0, 2.0]]))
    np.testing.assert_array_equal(steps_to(record, 1.1, window=2), [3, np.inf])


def test_independent_vectors_stray_by_one_over_the_root_of_the_batch():
    sizes = (4, 16, 64)
    for source in ("digits", "shuffled text"):
        strayed = normalisation.batch_fluctuation(source, sizes)
        np.testing.assert_allclose(strayed.mean(axis=0), np.sqrt(1 / np.array(sizes)), rtol=0.05)
    # Neighbouring characters depend on each other: 64 of them are worth about 20.
    text = normalisation.batch_fluctuation("text", sizes)
    assert (64 * (0.125 / text[:, 2]) ** 2).mean() == pytest.approx(20, abs=6)
    assert slope(np.log(sizes), np.log(text)).high < -0.2


def test_one_vector_strays_by_the_whole_standard_deviation():
    np.testing.assert_allclose(normalisation.batch_fluctuation("text", (1,), draws=4000, seeds=(0,)), 1, rtol=0.05)


def test_batch_mates_move_batch_norm_and_nothing_else():
    sizes = (8, 32, 128)
    spread = normalisation.mate_spread(normalisation.batch_norm, sizes, draws=100)
    assert slope(np.log(sizes), np.log(spread)).value == pytest.approx(-0.5, abs=0.06)
    for norm in (reference.layer_norm, reference.rms_norm):
        assert not normalisation.mate_spread(norm, (8,), draws=20).any()


def test_windows_of_text_are_text():
    windows, text = normalisation.windows_of_text(n_train=5, n_test=3), data.load("text")
    assert windows.x_train.shape == (5, 64) and windows.y_test.shape == (3, 64)
    np.testing.assert_array_equal(windows.x_train[[0, -1]], text.x_train[[0, -1]])
    np.testing.assert_array_equal(windows.x_test[:, 1:], windows.y_test[:, :-1])


def test_training_makes_the_tokens_differ_in_scale():
    measured = normalisation.token_statistics(steps=60, windows=4, seeds=(0, 1))
    assert {values.shape for values in measured} == {(2, 256)}

    def variation(std):
        return std.std(axis=1) / std.mean(axis=1)

    # At random embeddings only chance makes σ differ; a few dozen steps of training add to it.
    np.testing.assert_allclose(variation(measured.embedded_std), 1 / math.sqrt(128), rtol=0.25)
    assert (variation(measured.hidden_std) > 1.15 * variation(measured.untrained_std)).all()
