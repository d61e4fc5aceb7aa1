"""The bytes of Add & Norm: those that the formula needs, counted from the operators that run."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from addnorm_lib.fused.shapes import choose_config, count_programs, next_power_of_2
from addnorm_lib.microscope.bench import Case
from addnorm_lib.microscope.traffic import add_norm_traffic, count, large_tensors, moved

LARGE = {  # (how, backward, keep_sum): tensors read, tensors written
    ("written out", False, True): (9, 6),
    ("eager", False, False): (3, 2),
    ("eager", False, True): (3, 2),
    ("eager", True, False): (2, 1),
    ("eager", True, True): (4, 2),
    ("fused", False, False): (2, 1),
    ("fused", False, True): (2, 2),
    ("fused", True, False): (2, 1),
    ("fused", True, True): (3, 1),
}


@pytest.mark.parametrize(("case", "tensors"), LARGE.items())
@pytest.mark.parametrize(("rows", "features"), [(1, 64), (33, 40), (40, 33)])
def test_how_many_tensors_are_read_and_written(case, tensors, rows, features):
    how, backward, keep_sum = case
    traffic = add_norm_traffic(rows, features, torch.float32, how, backward=backward, keep_sum=keep_sum)
    assert large_tensors(traffic, rows, features) == tensors


@given(st.integers(1, 5000), st.integers(2, 5000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_the_fused_kernels_move_the_benchmarks_floor_and_the_parameters(rows, features, dtype):
    case = Case("layer", dtype, rows, features)
    parameter = features * dtype.itemsize
    # forward reads weight and bias; backward reads weight and writes both gradients
    for backward, parameters in ((False, 2), (True, 3)):
        traffic = add_norm_traffic(rows, features, dtype, "fused", backward=backward)
        assert moved(traffic) == case.floor("backward" if backward else "forward") + parameters * parameter


def test_eight_operations_an_element_and_two_a_row():
    operations = sum(a.operations for a in add_norm_traffic(30, 50, torch.float32, "written out"))
    assert operations == 8 * 30 * 50 + 2 * 30


def test_views_move_nothing_and_an_input_counts_once():
    x = torch.zeros(4, 6, device="meta")
    assert count(lambda: x.t().reshape(2, 3, 4).transpose(0, 1)[0]) == []
    (square,) = count(lambda: x * x)
    assert (square.operator, square.read, square.written, square.moved) == ("mul", 96, 96, 192)


def test_a_real_run_is_counted_like_one_without_data():
    def run(x):
        return torch.nn.functional.layer_norm(x + x, (6,))

    assert count(run, torch.randn(4, 6)) == count(run, torch.zeros(4, 6, device="meta"))


@given(st.integers(1, 10**6))
def test_the_next_power_of_two(n):
    power = next_power_of_2(n)
    assert power & (power - 1) == 0 and power / 2 < n <= power


@pytest.mark.parametrize("features", [1024, 4096, 8192])
def test_partial_sums_are_few_bytes_beside_the_tensors(features):
    rows = 2**26 // features
    programs = count_programs(rows, choose_config(features, torch.bfloat16), 132)
    assert 16 * programs * features < 0.05 * Case("layer", torch.bfloat16, rows, features).floor("backward")
