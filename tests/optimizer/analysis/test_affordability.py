"""Tests of estimates of the seconds that executions take."""

from __future__ import annotations

import pytest

from tapestry.optimizer.analysis import affordability
from tapestry.optimizer.analysis.affordability import (
    MATRIX_SIZE,
    VECTOR_SIZE,
    ComputedWork,
    ExecutionTimer,
    execution_seconds,
    is_affordable,
    work_of_plan,
    work_of_program,
)
from tapestry.service.checking import abstract_plan
from tapestry.teg.flops import graph_flops
from tests.optimizer.clocks import CountingClock
from tests.optimizer.searches import EIGHT
from tests.service.programs import two_layers


def test_others_who_use_the_processor_make_executions_longer() -> None:
    work = ComputedWork(2 * MATRIX_SIZE**3, 0)
    assert ExecutionTimer(CountingClock(), slowdown=3.0).seconds(work) == pytest.approx(3.0)


def test_rates_are_measured_on_a_product_and_a_sum() -> None:
    """Check a clock by which each takes a second."""
    timer = ExecutionTimer(CountingClock())
    assert timer.flops_per_s == 2 * MATRIX_SIZE**3
    assert timer.bytes_per_s == 3 * 4 * VECTOR_SIZE
    assert timer.seconds(ComputedWork(4 * MATRIX_SIZE**3, 0)) == pytest.approx(2.0)
    assert timer.seconds(ComputedWork(0, 12 * VECTOR_SIZE)) == pytest.approx(1.0)


def test_an_execution_that_took_longer_corrects_later_estimates() -> None:
    timer, work = ExecutionTimer(CountingClock()), ComputedWork(2 * MATRIX_SIZE**3, 0)
    timer.note(work, 5.0)
    assert timer.seconds(work) == pytest.approx(5.0)
    timer.note(work, 2.0)
    assert timer.seconds(ComputedWork(4 * MATRIX_SIZE**3, 0)) == pytest.approx(4.0)


def test_a_plan_in_which_all_devices_do_everything_has_the_work_of_as_many_programs() -> None:
    graph = two_layers()
    program, plan = work_of_program(graph), work_of_plan(abstract_plan(graph, EIGHT))
    assert program.flops == graph_flops(graph)
    assert plan.flops == pytest.approx(8 * program.flops, rel=0.01)
    assert plan.moved_bytes == pytest.approx(8 * program.moved_bytes, rel=0.01)


def test_what_is_affordable_follows_from_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = two_layers()
    plan = abstract_plan(graph, EIGHT)
    timer = ExecutionTimer(CountingClock())
    seconds = execution_seconds(timer, graph, [plan])
    assert seconds == pytest.approx(timer.seconds(work_of_program(graph)) + timer.seconds(work_of_plan(plan)))
    assert is_affordable(graph, [plan])
    monkeypatch.setattr(affordability, "LONGEST_EXECUTION_S", 0.0)
    assert not is_affordable(graph, [plan])
