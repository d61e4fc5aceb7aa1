"""The benchmark's arithmetic, and one small run of all of it."""

import json

import pytest
import torch

from addnorm_lib.microscope import bench
from addnorm_lib.microscope.bench import Case


@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_floors_are_four_numbers_an_element_and_the_statistics(dtype, size):
    case = Case("layer", dtype, rows=10, features=100)
    assert case.floor("forward") == case.floor("backward") == 10 * (100 * 4 * size + 8)
    assert Case("rms", dtype, 10, 100).floor("forward") == 10 * (100 * 4 * size + 4)
    assert case.floor("both") == 2 * case.floor("forward")


def test_the_grid_keeps_the_bytes_and_adds_decoding_steps():
    grid = bench.cases(torch.device("cpu"), 1, [64, 1024, 2**20], [2], full=True)
    assert {(c.rows, c.features) for c in grid} == {(4096, 64), (256, 1024), (1, 2**20), (2, 64), (2, 1024), (2, 2**20)}
    assert {c.norm for c in grid} == {"layer", "rms"}
    on_a_gpu = bench.cases(torch.device("cuda"), 256, bench.WIDTHS, bench.DECODE, full=False)
    assert len(on_a_gpu) == 8 * 4 * 3 * 2
    large = [c for c in on_a_gpu if c.rows > 64]
    sizes = [(c.rows * c.features * c.dtype.itemsize, c.features * c.dtype.itemsize) for c in large]
    assert all(0 <= 2**28 - size < row for size, row in sizes)


@pytest.mark.slow
def test_a_run_prints_a_table_and_writes_what_was_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the picture needs Matplotlib")
    out, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    arguments = [
        "--device",
        "cpu",
        "--megabytes",
        "1",
        "--features",
        "64",
        "--decode",
        "8",
        "--json",
        str(out),
        "--figure",
        str(picture),
    ]
    results = bench.main(arguments)
    printed = capsys.readouterr().out
    assert "plain torch here" in printed
    by_name = {(r.implementation, r.direction): r for r in results if r.rows == 8}
    assert {(name, way) for name in ("addnorm", "torch eager", "torch.compile") for way in bench.DIRECTIONS} == set(
        by_name
    )
    assert {r.rows for r in results} == {8, 4096}
    for r in results:
        assert r.seconds > 0 and r.error < 1e-5
        assert r.gb_per_s == pytest.approx(
            Case(r.norm, torch.float32, r.rows, r.features).floor(r.direction) / r.seconds / 1e9
        )
        assert r.implementation in printed
    assert by_name["addnorm", "forward"].speed_of_ours == 1.0
    assert len(json.loads(out.read_text())["results"]) == len(results)
    assert picture.read_bytes().startswith(b"\x89PNG")
