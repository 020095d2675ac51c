"""Tests of a presearch's criteria: the run's goal, as far as it holds before anything is placed."""

from collections.abc import Sequence

import pytest

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.structure.criteria import Criteria, criteria_of
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tests.costmodel.programs import GRAPHS
from tests.costmodel.test_resources import mixed

EIGHT = load_mesh("dgx-h100")
ONE = EIGHT.part((("gpu", 1),))
ATTENTION = GRAPHS["attention"]()


def criteria(
    objectives: Sequence[str], *constraints: str, mesh: Mesh = ONE, graph: Graph = ATTENTION
) -> Criteria:
    known = known_objectives(graph)
    chosen = known.require(objectives, mesh.device)
    return criteria_of(
        chosen, all_constraints(constraints, mesh, known), mesh, 0.005, known.including(chosen)
    )


def values(found: Criteria, graph: Graph = ATTENTION) -> tuple[float, ...]:
    return found.measure(reference_cost(graph, Placements(), ONE))[0]


def reported(name: str, graph: Graph = ATTENTION) -> float:
    known = known_objectives(graph)
    known = known.including([known.named(name)])
    raw = reference_cost(graph, Placements(), ONE).vector()
    return costs_of(raw, ONE, known)[known.named(name).name]


def test_the_criteria_are_what_the_objectives_are_of_the_plan_on_one_device() -> None:
    names = ("energy_j", "sqrt(compute_flops)*time_s", "time_s")
    found = values(criteria((*names, "peak_memory_bytes")))
    expected = ("time_s", "sqrt(compute_flops)*time_s", "energy_j", "peak_memory_bytes")
    assert found == pytest.approx([reported(name) for name in expected], rel=1e-12)


def test_the_order_of_objectives_means_nothing() -> None:
    names = ("peak_memory_bytes", "compute_flops", "energy_j", "time_s")
    assert values(criteria(names)) == values(criteria(names[::-1]))
    assert criteria(names).is_memory == (False, False, False, True)


def test_what_is_one_number_on_one_device_counts_once() -> None:
    names = ("time_s", "price_usd", "2*time_s", "peak_memory_bytes", "total_memory_bytes")
    assert len(criteria(names).is_memory) == 2
    assert len(criteria(("compute_flops", "peak_compute_flops")).is_memory) == 1


def test_what_rewriting_cannot_change_is_left_out() -> None:
    found = criteria(("traffic_bytes", "time_s", "compute_waste_flops", "gpu", "peak_gpu"), graph=mixed())
    assert values(found, mixed()) == pytest.approx([reported("time_s", mixed())], rel=1e-12)


def test_where_nothing_is_left_it_is_time() -> None:
    ticks = reference_cost(ATTENTION, Placements(), ONE).time_ticks
    assert values(criteria(("traffic_bytes",))) == (ticks,)


def test_a_resource_counts_in_an_expression() -> None:
    text = "time_s + 1e-9*gpu"
    found = values(criteria((text,), graph=mixed()), mixed())
    assert found == pytest.approx([reported(text, mixed())], rel=1e-12)
    assert reported(text, mixed()) > reported("time_s", mixed())


def test_on_one_device_bounds_hold_and_on_several_their_costs_are_criteria() -> None:
    cost = reference_cost(ATTENTION, Placements(), ONE)
    bound = f"energy_j<={reported('energy_j') / 2}"
    alone, (_, violation, _) = (found := criteria(("time_s",), bound)), found.measure(cost)
    assert len(alone.is_memory) == 1
    assert violation == pytest.approx(1.0)

    found = criteria(("time_s",), bound, mesh=EIGHT)
    assert found.measure(cost)[:2] == (
        pytest.approx([reported(name) for name in ("time_s", "energy_j", "peak_memory_bytes")], rel=1e-12),
        0.0,
    ), "the memory of the devices is a bound"


def test_the_cost_of_a_relative_bound_is_a_criterion() -> None:
    found = values(criteria(("compute_flops",), "time_s<=110%"))
    assert found == pytest.approx([reported("time_s"), reported("compute_flops")], rel=1e-12)
