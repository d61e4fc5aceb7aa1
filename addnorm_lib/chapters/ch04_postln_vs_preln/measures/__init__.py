"""What chapter 4 measures, one module a question."""

from addnorm_lib.chapters.ch04_postln_vs_preln.measures.gradients import (
    Gradients,
    gradient_against_depth,
    gradient_by_layer,
)
from addnorm_lib.chapters.ch04_postln_vs_preln.measures.perturbation import noise_amplification
from addnorm_lib.chapters.ch04_postln_vs_preln.measures.ranks import rank_collapse
from addnorm_lib.chapters.ch04_postln_vs_preln.measures.streams import (
    StreamStatistics,
    stream_of_record,
    stream_statistics,
)

__all__ = [
    "Gradients",
    "StreamStatistics",
    "gradient_against_depth",
    "gradient_by_layer",
    "noise_amplification",
    "rank_collapse",
    "stream_of_record",
    "stream_statistics",
]
