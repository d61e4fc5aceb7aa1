"""Every figure of chapter 4, on small real measurements: its words are computed from its data."""

import pytest

from addnorm_lib.chapters.ch04_postln_vs_preln import figures, measures
from addnorm_lib.course.figures.style import Picture
from addnorm_lib.experiments.placement_training import ablation, training_grid
from addnorm_lib.experiments.training import train

SMALL = {"seeds": (0, 1), "d_model": 16}
SHORT = {"steps": 12, "seeds": (0, 1), "record_every": 12}


def stream(name, **options):
    return measures.stream_statistics(name, **{"depth": 4, "batch": 2, "tokens": 2, **SMALL, **options})


def lemma(name, **options):
    return stream(name, init="simplified", n_heads=1, **options)


@pytest.fixture(scope="module")
def grids():
    def grid(depth, steps):
        runs = training_grid(depths=(1, depth), warmups=(0, 6), **{**SHORT, "steps": steps})
        return train(runs, workers=1, progress=False)

    return grid(2, 12), grid(3, 80)


@pytest.fixture(scope="module")
def ablations():
    return tuple(
        train(ablation(depth=depth, **{**SHORT, "steps": steps}), workers=1, progress=False)
        for depth, steps in ((1, 80), (2, 12))
    )


CASES = {
    "gradient_against_depth": lambda: [
        (measures.gradient_against_depth(depths=(1, 4), **SMALL),),
        (measures.gradient_against_depth(("pre",), depths=(1, 4), **SMALL),),
    ],
    "gradient_by_layer": lambda: [(measures.gradient_by_layer(depth=depth, **SMALL),) for depth in (3, 6)],
    "lemma_bounds": lambda: [
        (lemma("post"), lemma("pre")),
        (lemma("post", depth=8), lemma("sandwich", depth=8)),
    ],
    "streams": lambda: [
        ({"post": stream("post"), "pre": stream("pre")},),
        ({"post": stream("post"), "pre, trained": stream("pre", depth=8)},),
    ],
    "noise_amplification": lambda: [
        (measures.noise_amplification(placements, depths=(1, 2, 4), batch=1, tokens=2, **SMALL), (1, 2, 4))
        for placements in (("post", "pre"), ("pre", "deepnorm"))
    ],
    "rank_collapse": lambda: [
        ({"one": measures.rank_collapse(8, skip=skip, tokens=4, d_model=16, seeds=(0, 1))},) for skip in (True, False)
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_a_description_is_computed_from_the_data(name):
    _compare(*(getattr(figures, name)(*arguments) for arguments in CASES[name]()))


def _compare(one, other):
    assert isinstance(one, Picture)
    assert len(one.description) > 40 and "{" not in one.description
    assert one.description != other.description


@pytest.mark.parametrize("name", ["training_curves", "losses_by_depth"])
def test_trainings_are_described(name, grids):
    one, other = grids
    if name == "training_curves":
        one, other = one.where(depth=2), other.where(depth=1)
    _compare(*(getattr(figures, name)(results) for results in (one, other)))


def test_the_four_fields_of_the_ablation_are_described(ablations):
    _compare(*map(figures.ablation, ablations))


def test_words_say_whether_the_lemma_holds():
    assert "between" in figures.lemma_bounds(lemma("post"), lemma("pre")).description
    assert "outside" in figures.lemma_bounds(lemma("post", depth=8), lemma("sandwich", depth=8)).description


def test_every_placement_has_a_look_of_its_own():
    looks = [(style["marker"], style["linestyle"]) for style in figures.STYLES.values()]
    assert len(set(looks)) == len(looks)
    assert len({figures.placement_name(name) for name in figures.STYLES}) == len(looks)


def test_every_figure_is_tested():
    public = {
        name
        for name, function in vars(figures).items()
        if getattr(function, "__module__", "") == figures.__name__ and not name.startswith("_") and name.islower()
    }
    assert public - {"placement_name", "arm_name"} == {*CASES, "training_curves", "losses_by_depth", "ablation"}
