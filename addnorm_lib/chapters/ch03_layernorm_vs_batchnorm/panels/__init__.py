"""Panels of chapter 3, one file each: numbers, who shares a statistic, batch-mates, leaks, and the sphere."""

from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.axis import axis_panel
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.batch_noise import batch_noise_panel
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.layer_norm import layer_norm_panel
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.leak import leak_panel
from addnorm_lib.chapters.ch03_layernorm_vs_batchnorm.panels.sphere import sphere_panel

__all__ = ["axis_panel", "batch_noise_panel", "layer_norm_panel", "leak_panel", "sphere_panel"]
