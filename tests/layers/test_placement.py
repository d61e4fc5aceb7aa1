"""Where the norm stands, written once: the function in plain operators is what `AddNorm` does on an open sum."""

from typing import get_args

import pytest
import torch

from addnorm_lib.layers import PLACEMENTS, AddNorm, Placement, residual_block


def test_every_placement_has_its_places():
    assert tuple(PLACEMENTS) == get_args(Placement)
    assert len(set(PLACEMENTS.values())) == len(PLACEMENTS) and all(map(any, PLACEMENTS.values()))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("place", PLACEMENTS)
def test_it_is_what_add_norm_does(place, norm):
    block = AddNorm(8, place, norm, alpha=1.3).double()
    for parameter in block.parameters():
        parameter.data.normal_()
    x, sublayer = torch.randn(2, 3, 8, dtype=torch.float64), torch.nn.Linear(8, 8).double()
    got = residual_block(place, x, sublayer, block.norm, outer_norm=block.outer_norm, add=lambda x, f: 1.3 * x + f)
    torch.testing.assert_close(got, block(x, sublayer))


def test_without_an_outer_norm_the_one_norm_stands_in_both_places():
    calls = []
    residual_block("sandwich", torch.ones(2), lambda z: z, lambda z: calls.append(z) or z)
    assert len(calls) == 2
    with pytest.raises(KeyError, match="nowhere"):
        residual_block("nowhere", torch.ones(2), lambda z: z, lambda z: z)
