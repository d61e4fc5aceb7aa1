"""The roofline's arithmetic, and one measurement of this machine. Which side is faster is no test's business."""

import pytest

from addnorm_lib.microscope.roofline import Machine, call_seconds, measure_machine


def test_the_roof_is_the_lower_of_two():
    machine = Machine("cpu", bandwidth=10.0, arithmetic=40.0)
    assert machine.ridge == 4
    assert [machine.attainable(i) for i in (0.5, 4, 100)] == [5, 40, 40]


def test_a_machine_is_measured():
    machine = measure_machine("cpu")
    assert machine.device == "cpu"
    assert machine.bandwidth > 1e7 and machine.arithmetic > 1e7
    assert machine.ridge == pytest.approx(machine.arithmetic / machine.bandwidth)


def test_calls_are_timed_one_a_number_of_rows():
    times = call_seconds((1, 8), features=4)
    assert len(times) == 2 and min(times) > 0
