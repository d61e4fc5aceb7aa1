"""The benchmark's arithmetic, and one small run of all of it."""

import json

import pytest
import torch

from addnorm_lib.fused import bench
from addnorm_lib.fused.bench import Case


@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_floors_are_four_numbers_an_element_and_the_statistics(dtype, size):
    case = Case("layer", dtype, rows=10, features=100)
    assert case.floor("forward") == case.floor("backward") == 10 * (100 * 4 * size + 8)
    assert Case("rms", dtype, 10, 100).floor("forward") == 10 * (100 * 4 * size + 4)


def test_the_grid_keeps_the_number_of_elements():
    grid = bench.cases(torch.device("cpu"), 2**16, [64, 1024, 2**20], full=True)
    assert {(c.rows, c.features) for c in grid} == {(1024, 64), (64, 1024), (1, 2**20)}
    assert {c.norm for c in grid} == {"layer", "rms"}


@pytest.mark.slow
def test_a_run_prints_a_table_and_writes_what_was_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the picture needs Matplotlib")
    out, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    arguments = [
        "--device",
        "cpu",
        "--elements",
        "8192",
        "--features",
        "64",
        "--json",
        str(out),
        "--figure",
        str(picture),
    ]
    results = bench.main(arguments)
    printed = capsys.readouterr().out
    assert "plain torch here" in printed
    by_name = {(r.implementation, r.direction): r for r in results}
    assert {("addnorm", "forward"), ("addnorm", "backward"), ("torch eager", "forward")} <= set(by_name)
    for r in results:
        assert r.seconds > 0 and r.error < 1e-5
        assert r.gb_per_s == pytest.approx(
            Case(r.norm, torch.float32, r.rows, r.features).floor(r.direction) / r.seconds / 1e9
        )
        assert r.implementation in printed
    assert by_name["addnorm", "forward"].speed_of_ours == 1.0
    assert len(json.loads(out.read_text())["results"]) == len(results)
    assert picture.read_bytes().startswith(b"\x89PNG")
