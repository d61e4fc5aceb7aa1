"""Which placement trains: grids of runs over placement × depth × warm-up × learning rate, and residual × norm."""

from collections.abc import Iterable
from typing import Any

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.experiments.results import Run, split_settings


def _run(options: dict[str, Any], fields: dict[str, Any]) -> Run:
    defaults: dict[str, Any] = {
        "data": "reverse",
        "data_options": {"length": 6, "vocabulary": 8},
        "steps": 200,
        "batch_size": 32,
        "optimiser": "adam",
        "lr": 3e-3,
        "record_every": 50,
        "activations": "encoder.layers.*.add_norm2",
        "responses": "encoder.layers.*.feed_forward",
    }
    return Run(PlacementNet, options, **{**defaults, **fields})


def training_grid(
    placements: Iterable[str] = ("post", "pre"),
    depths: Iterable[int] = (6, 12),
    warmups: Iterable[int] = (0, 100),
    rates: Iterable[float] = (3e-3,),
    **settings: Any,
) -> list[Run]:
    """Return one Run for every placement × depth × warm-up × learning rate: reverse six tokens out of eight kinds.

    Adam, 200 steps of 32 sequences, five seeds; guessing costs ln 8 = 2.08. Xiong et al. 2020, section 4 (there
    translation and BERT). `settings` are fields of Run (`steps`, `seeds`, …) or, failing that, options of PlacementNet.
    """
    options, fields = split_settings(settings)
    depths, warmups, rates = list(depths), list(warmups), list(rates)
    return [
        _run({"placement": placement, "depth": depth, **options}, {"warmup": warmup, "lr": rate, **fields})
        for placement in placements
        for depth in depths
        for warmup in warmups
        for rate in rates
    ]


def text_grid(
    placements: Iterable[str] = ("post", "pre"),
    depths: Iterable[int] = (12,),
    warmups: Iterable[int] = (0, 100),
    rates: Iterable[float] = (3e-3,),
    *,
    length: int = 16,
    **settings: Any,
) -> list[Run]:
    """Return the same grid on real text: causal networks predict the next of `length` characters (`data.text`)."""
    data = {"data": "text", "data_options": {"length": length}}
    options = {"causal": True, "n_tokens": length, "vocabulary": datasets.load("text", length=length).n_outputs}
    return training_grid(placements, depths, warmups, rates, **{"batch_size": 16, **data, **options, **settings})


def ablation(depth: int = 12, placement: str = "pre", **settings: Any) -> list[Run]:
    """Return four Runs on `training_grid`'s task: with and without residual × with and without LayerNorm.

    `residual` and `norm` ("layer" or None) tell them apart in the Results; `settings` as in `training_grid`.
    """
    options, fields = split_settings(settings)
    return [
        _run({"placement": placement, "depth": depth, "residual": residual, "norm": norm, **options}, fields)
        for residual in (False, True)
        for norm in (None, "layer")
    ]
