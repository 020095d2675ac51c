"""Tests of the bounds of a result: they hold for what is found, say for what they hold, and miss what has none."""

from __future__ import annotations

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.run.search import search
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS

pytestmark = pytest.mark.slow

EIGHT = load_mesh("dgx-h100")


def searched(name: str, *objectives: str, **others: object) -> Result:
    keywords = {"budget": Budget(evaluations=2000), "islands": 1, **others}
    return search(GRAPHS[name](), EIGHT, objectives, **keywords)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", one_in(3, GRAPHS))
def test_no_plan_that_is_found_is_below_a_bound(name: str) -> None:
    names = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j", "device_memory_bytes")
    result = searched(name, *names)
    assert tuple(result.bounds) == names
    for objective, bound in result.bounds.items():
        assert bound.best == pytest.approx(min(plan.cost[objective] for plan in result.frontier), rel=1e-9)
        assert 0 <= bound.bound <= bound.best
        assert bound.gap == pytest.approx(1 - bound.bound / bound.best if bound.best else 0.0)


def test_a_scope_names_what_was_searched() -> None:
    scope = searched("attention", "time_s", rules=(), devices="all").bounds["time_s"].scope
    assert (scope.structures, scope.devices) == (1, ("all",))
    assert scope.views == ("gpu.0 x gpu.1 x gpu.2",)
    assert "program" in scope.schedule_orders
    whole = searched("attention", "time_s", budget=Budget(evaluations=5000)).bounds["time_s"].scope
    assert whole.devices == ("all", "gpu:1", "gpu:2", "gpu:4")


def test_a_cost_with_a_limit_is_bounded_too_and_a_product_of_costs_is_not() -> None:
    result = searched(
        "attention", "time_s*energy_j", "traffic_bytes", constraints=("peak_memory_bytes<=1MiB",)
    )
    assert set(result.bounds) >= {"traffic_bytes", "peak_memory_bytes"}
    assert not any("*" in name for name in result.bounds)


def test_the_same_evaluations_give_the_same_bounds() -> None:
    first, second = (searched("convolutions", "time_s", "energy_j", seed=3).bounds for _ in range(2))
    assert first == second


def test_there_are_none_where_nothing_was_searched() -> None:
    assert searched("attention", "time_s", should_stop=lambda: True).bounds == {}
