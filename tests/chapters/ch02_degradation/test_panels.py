"""Chapter 2's training bench."""

from addnorm_lib.chapters.ch02_degradation import panels


def test_the_training_bench_trains_when_asked_and_keeps_earlier_curves():
    bench = panels.training_bench()
    bench.set(depth=2, kind="residual")
    before = bench.readout
    first = bench.set(train=True)
    assert first != before and "residual, L = 2" in first and "final loss" in first
    assert bench.values["train"] is False
    assert "plain, L = 3" in bench.set(depth=3, kind="plain", train=True)
    drawn = [artist for artist in bench._canvas.moving if hasattr(artist, "get_xdata") and len(artist.get_xdata())]
    assert len(drawn) == 2
