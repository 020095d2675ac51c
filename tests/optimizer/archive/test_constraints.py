"""Tests of constraints: written as by people, refused with what is known, explained if nothing satisfies them."""

from dataclasses import replace

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, Constraint, Result, Shortfall, parse_constraint
from tapestry.optimizer.archive.constraints import all_constraints, fits
from tapestry.optimizer.run.search import search
from tapestry.teg.readable import quantity
from tests.costmodel.programs import GRAPHS

EIGHT = load_mesh("dgx-h100")


@pytest.mark.parametrize(
    ("text", "objective", "bound"),
    [
        ("peak_memory_bytes<=60GiB", "peak_memory_bytes", 60 * 2**30),
        ("peak_memory_bytes <= 1.5 GB", "peak_memory_bytes", 1.5e9),
        ("traffic_bytes<=0", "traffic_bytes", 0.0),
        ("total_memory_bytes<=1e3KiB", "total_memory_bytes", 1_024_000),
        ("time_s<=2.5ms", "time_s", 0.0025),
        ("time_s<=3", "time_s", 3.0),
        ("compute_flops<=2Tflop", "compute_flops", 2e12),
        ("energy_j<=1Wh", "energy_j", 3600.0),
        ("price_usd<=0.25USD", "price_usd", 0.25),
    ],
)
def test_bounds_in_any_unit(text: str, objective: str, bound: float) -> None:
    found = parse_constraint(text)
    assert (found.objective, found.bound) == (objective, pytest.approx(bound, rel=1e-15))
    assert parse_constraint(str(found)) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peak_memory_bytes", "is not of the form objective<=number"),
        ("peak_memory_bytes>=3", "is not of the form objective<=number"),
        ("peak_memory_bytes<3", "has '<', but a bound may be reached: write '<='"),
        ("peak_memory_bytes<=many", "is not of the form objective<=number"),
        ("peak_memory_bytes<=-1", "is not of the form objective<=number"),
        ("peak_memory_bytes<=1.2.3", "'1.2.3' is not a number"),
        ("memory_bytes<=1", "there is no objective 'memory_bytes'; did you mean .*total_memory_bytes"),
        ("speed<=1", "there is no objective 'speed'; known are time_s"),
        ("peak_memory_bytes<=60s", "peak_memory_bytes is in B; known units are B, KB"),
        ("time_s<=60GiB", "time_s is in s; known units are s, ms"),
    ],
)
def test_what_is_no_bound_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_constraint(text)


def test_the_devices_capacity_is_a_bound_unless_a_tighter_one_is_given() -> None:
    capacity = Constraint("device_memory_bytes", float(EIGHT.device.memory_bytes), "B")
    assert all_constraints((), EIGHT) == (capacity,)
    assert all_constraints(("time_s<=1",), EIGHT) == (Constraint("time_s", 1.0, "s"), capacity)
    assert all_constraints(("device_memory_bytes<=1GiB",), EIGHT) == (
        Constraint("device_memory_bytes", 2.0**30, "B"),
    )
    assert all_constraints(("device_memory_bytes<=9TiB",), EIGHT)[1] == capacity
    assert all_constraints(("peak_memory_bytes<=1GiB",), EIGHT)[1] == capacity


def test_the_capacity_holds_the_tensors_where_nothing_else_is_known_of_a_device() -> None:
    bare = replace(EIGHT, device=replace(EIGHT.device, context_bytes=None))
    assert all_constraints((), bare) == (
        Constraint("peak_memory_bytes", float(bare.device.memory_bytes), "B"),
    )


def test_a_plan_fits_only_beside_what_the_process_takes() -> None:
    tensors = {"peak_memory_bytes": 1e9}
    needed = tensors | {"device_memory_bytes": 2e9}
    for memory_bytes, is_held in ((2 * 10**9, True), (15 * 10**8, False)):
        mesh = replace(EIGHT, device=replace(EIGHT.device, memory_bytes=memory_bytes))
        assert fits(needed, mesh) is is_held
        assert fits(tensors, mesh)  # costs of an earlier release


def search_within(*constraints: str) -> Result:
    graph = GRAPHS["attention"]()
    return search(graph, EIGHT, budget=Budget(evaluations=1500), islands=1, constraints=constraints, rules=())


def test_every_plan_satisfies_a_bound_that_can_be_kept() -> None:
    free = search_within()
    assert any(p.cost["peak_memory_bytes"] > 2500 for p in free.frontier)
    bound = search_within("peak_memory_bytes<=2500B")
    assert bound.frontier
    assert bound.shortfall is None
    assert all(p.cost["peak_memory_bytes"] <= 2500 and p.feasible for p in bound.frontier)


def test_a_bound_of_zero_can_be_kept() -> None:
    found = search_within("traffic_bytes<=0")
    assert found.frontier
    assert {p.cost["traffic_bytes"] for p in found.frontier} == {0}


def test_an_infeasible_request_names_bound_amount_and_nearest_plan() -> None:
    result = search_within("peak_memory_bytes<=100B", "time_s<=1s")

    assert result.frontier == ()
    shortfall = result.shortfall
    assert shortfall is not None
    assert shortfall.constraint == Constraint("peak_memory_bytes", 100.0, "B")
    needed = shortfall.nearest.cost["peak_memory_bytes"]
    assert shortfall.value == needed > 100
    assert not shortfall.nearest.feasible
    assert shortfall.is_impossible
    proven = result.bounds["peak_memory_bytes"]
    assert 100 < proven.bound <= needed
    assert str(shortfall) == (
        f"no plan satisfies peak memory <= 100 B: the nearest plan needs {quantity(needed, 'B')}, "
        f"{needed / 100:.0f} times as much; at least {quantity(proven.bound, 'B')} is proven for {proven.scope}"
    )


def test_a_limit_that_may_be_in_reach_is_not_called_impossible() -> None:
    free = search_within()
    least = min(plan.cost["peak_memory_bytes"] for plan in free.frontier)
    proven = free.bounds["peak_memory_bytes"].bound
    between = (proven + least) / 2
    assert proven < between < least, "a gap that the search has not closed"
    shortfall = search_within(f"peak_memory_bytes<={between:.0f}B").shortfall
    assert shortfall is not None
    assert not shortfall.is_impossible
    assert str(shortfall).startswith(
        f"no plan was found that satisfies peak memory <= {quantity(round(between), 'B')}: the nearest plan needs "
    )
    assert f"at least {quantity(proven, 'B')} is proven for " in str(shortfall)


@pytest.mark.parametrize(
    ("value", "needs"),
    [
        (99.9 * 2**20, "99.90 MiB, 102,298 times as much"),
        (3.3 * 2**10, "3.300 KiB, 3.3 times as much"),
        (1.0501 * 2**10, "1.050 KiB, 5 % more"),
    ],
)
def test_how_far_a_plan_is_from_a_limit_has_units_and_a_factor(value: float, needs: str) -> None:
    nearest = search_within().frontier[0]
    shortfall = Shortfall(parse_constraint("peak_memory_bytes<=1KiB"), value, nearest)
    assert str(shortfall) == (
        f"no plan was found that satisfies peak memory <= 1.000 KiB: the nearest plan needs {needs}"
    )


@pytest.mark.slow
def test_the_nearest_plan_is_near() -> None:
    """Check that the search works on the violated bound: the nearest plan needs no more than the smallest one."""
    smallest = min(p.cost["peak_memory_bytes"] for p in search_within().frontier)
    shortfall = search_within("peak_memory_bytes<=100B").shortfall
    assert shortfall is not None
    assert shortfall.value <= 1.1 * smallest


@pytest.mark.slow
@pytest.mark.parametrize("unkept", ["time_s<=0", "time_s<=1ns"])
def test_a_zero_bound_that_is_kept_is_not_blamed(unkept: str) -> None:
    """Check that `traffic_bytes<=0`, kept as nothing moves in the nearest plan, is not blamed; the time bound is."""
    shortfall = search_within("traffic_bytes<=0", unkept).shortfall
    assert shortfall is not None
    assert shortfall.constraint == parse_constraint(unkept)
    assert shortfall.nearest.cost["traffic_bytes"] == 0
    assert "no plan satisfies time <= " in str(shortfall)
    assert ": the nearest plan needs " in str(shortfall)
