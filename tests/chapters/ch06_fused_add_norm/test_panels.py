"""Chapter 6's panels say what is counted."""

import re

import pytest
import torch

from addnorm_lib.chapters.ch06_fused_add_norm import panels
from addnorm_lib.microscope.traffic import add_norm_traffic, moved


@pytest.mark.parametrize(
    ("way", "direction", "dtype", "size"),
    [("fused", "forward", "bfloat16", 2), ("eager", "forward", "float32", 4), ("fused", "backward", "float32", 4)],
)
def test_the_byte_panels_readout_is_the_count(way, direction, dtype, size):
    panel = panels.byte_panel()
    readout = panel.set(features=512, rows=1000, way=way, direction=direction, dtype=dtype, bandwidth=100)
    backward = direction == "backward"
    tensors = {"eager": (5, 6), "fused": (4, 4)}[way][backward]
    assert readout.startswith(f"1000 × 512 {dtype}, {direction}, ") and f", {tensors} tensors; at 100 GB/s" in readout
    seconds = moved(add_norm_traffic(1000, 512, getattr(torch, dtype), way, backward=backward)) / 1e11
    assert f"at least {panels._measured(seconds, panels.SECONDS)}." in readout
    assert seconds == pytest.approx(tensors * 1000 * 512 * size / 1e11, rel=0.01)


@pytest.mark.parametrize(("rows", "features", "block"), [(7, 20, 2), (1, 1, 4), (8, 32, 1), (8, 31, 4), (5, 17, 4)])
def test_the_tile_panel_counts_every_element_once(rows, features, block):
    panel, data, program = panels.tile_panel(), 0, 0
    while "not launched" not in (said := panel.set(rows=rows, features=features, block=block, program=program)):
        words = re.search(r"a tile of (\d+) × (\d+); (\d+) of (\d+) lanes hold data, (\d+) are masked", said)
        height, width, real, lanes, masked = map(int, words.groups())
        assert height * width == lanes == real + masked
        data, program = data + real, program + 1
        if program == panels.ROWS:
            break
    assert data == rows * features
