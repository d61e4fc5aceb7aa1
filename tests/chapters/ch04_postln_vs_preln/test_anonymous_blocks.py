"""The anonymous blocks: the probes that exercise 4.8 suggests tell all four apart, and give its answer."""

import pytest
import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.anonymous_blocks import anonymous_blocks
from addnorm_lib.course.exercises.registry import chapter
from addnorm_lib.layers import AddNorm

BLOCKS = anonymous_blocks()
ANSWER = next(exercise.solve for exercise in chapter(4) if exercise.name == "placements")


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_computes_what_its_placement_says(name):
    x = 5 + torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    expected = AddNorm(8, ANSWER[name])
    torch.testing.assert_close(BLOCKS[name](x, torch.sin), expected(x, torch.sin))


def test_three_probes_identify_the_placement():
    x = 5 + torch.randn(8, generator=torch.Generator().manual_seed(0))
    found = {}
    for name, block in BLOCKS.items():
        read = []

        def spy(z, read=read):
            read.append(z)
            return z**2

        reads_x = torch.equal((block(x, spy), read[0])[1], x)
        norm_behind = torch.allclose(block(x, torch.sin), block(x, lambda z: 1000 * torch.sin(z)), atol=1e-2)
        if not torch.equal(block(x, torch.zeros_like), x):
            found[name] = "post"
        else:
            found[name] = "branch" if reads_x else "sandwich" if norm_behind else "pre"
    assert found == ANSWER


def test_a_block_does_not_say_what_it_is():
    assert [repr(block) for block in BLOCKS.values()] == ["block A", "block B", "block C", "block D"]
