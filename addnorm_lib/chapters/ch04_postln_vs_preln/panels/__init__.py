"""Panels of chapter 4, one file each: where the norm stands, the warm-up bench, the shortcut through the norms."""

from addnorm_lib.chapters.ch04_postln_vs_preln.panels.first_gradients import placement_panel
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.jacobian import jacobian_panel
from addnorm_lib.chapters.ch04_postln_vs_preln.panels.warmup import warmup_bench

__all__ = ["jacobian_panel", "placement_panel", "warmup_bench"]
