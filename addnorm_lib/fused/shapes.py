"""Tiles and programs for the kernels: pure functions, which need no Triton."""

import functools
from typing import NamedTuple

import torch


class Tile(NamedTuple):
    """A program's tile, its warps, and how many iterations of its loop are in flight. Wide: `columns` < D."""

    rows: int
    columns: int
    warps: int
    stages: int = 1


class Config(NamedTuple):
    """Tiles for forward, backward and finalize; programs a streaming multiprocessor runs of backward."""

    forward: Tile
    backward: Tile
    programs_per_sm: int
    finalize: Tile


def next_power_of_2(n: int) -> int:
    """Return the least power of two that is at least n: a tile's sides must be powers of two."""
    return 1 << (n - 1).bit_length()


@functools.lru_cache(maxsize=1024)
def choose_config(D: int, dtype: torch.dtype, two_gradients: bool = False) -> Config:
    """Return the tiles for rows of D features whose sum has `dtype`; from these alone, so that bits never depend on M.

    `two_gradients`: backward writes x's gradient and residual's to separate buffers (dropout, alpha, or a wider
    residual). The rule is sixteen numbers a thread, or eight in float64; in backward half as many for two gradients
    or in float64 (where eight spill 16 to 32 bytes under Triton 3.7). ptxas for compute capabilities 7.5, 8.0, 9.0 and
    10.0 then finds registers for everything:

    - forward: a whole row up to 16384 features, at most 64 registers for each of 1024 threads; twice as wide spills
      with a float32 sum over bfloat16 x, so wider rows go in chunks.
    - backward: s, dy, gamma and the two sums are five numbers an element, so sixteen elements take a thread's share of
      128 registers when 512 threads fill a multiprocessor: with one row of 8192 features, two programs of 4096, and so
      on. Wider rows go in chunks. (Sixteen elements and two gradients spill 8 to 72 bytes.)

    No timing on a GPU has gone into these numbers yet.
    """
    unit = 8 if dtype is torch.float64 else 16
    columns = next_power_of_2(D)

    def whole(unit: int, fewest_warps: int, stages: int) -> Tile:
        warps = max(fewest_warps, columns // (32 * unit))
        return Tile(max(1, 32 * unit * warps // columns), columns, warps, stages)

    forward = whole(unit, 4, 1) if columns <= 1024 * unit else Tile(1, 256 * unit, 8)
    per_thread = unit // 2 if two_gradients or dtype is torch.float64 else unit
    backward = whole(per_thread, 1, 2) if columns <= 512 * per_thread else Tile(4, 64 * unit, 16, 2)
    return Config(forward, backward, programs_per_sm=16 // backward.warps, finalize=Tile(64, 32, 4))


def count_programs(M: int, config: Config, multiprocessors: int) -> int:
    """Return how many programs share backward's M rows.

    As many as the GPU holds, but each with eight tiles or more, for every program adds 16 bytes a feature to read and
    write; and no multiprocessor goes idle for that.
    """
    tiles = -(-M // config.backward.rows)
    most = multiprocessors * config.programs_per_sm
    return max(1, min(tiles, most, max(multiprocessors, tiles // 8)))
