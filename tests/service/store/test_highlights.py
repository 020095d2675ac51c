"""Tests of what lists show of runs: best values follow the frontier, curves are thinned where they bend least."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.service.store import Store
from tapestry.service.store.highlights import MOST_POINTS, best_values, extended, put_best, trend_of
from tests.service.programs import finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of


def test_a_short_curve_is_kept_and_a_long_one_keeps_its_ends_and_its_corner() -> None:
    corner = [(float(k), float(min(k, 70))) for k in range(200)]
    assert trend_of(corner[:MOST_POINTS]) == [list(point) for point in corner[:MOST_POINTS]]
    thinned = trend_of(corner)
    assert len(thinned) == MOST_POINTS
    assert [0.0, 0.0] in thinned and [70.0, 70.0] in thinned and thinned[-1] == [199.0, 70.0]
    assert thinned == sorted(thinned)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33])
def test_a_curve_never_has_more_points_than_it_may(count: int) -> None:
    trend = trend_of((float(k), 0.5) for k in range(count))
    assert len(trend) == min(count, MOST_POINTS)
    assert extended(trend, 99.0, 0.75)[-1] == [99.0, 0.75]


def test_best_values_are_those_of_the_plans_that_have_them() -> None:
    costs = [{"time_s": 2.0, "x": 1.0}, {"time_s": 1.0, "x": 3.0}, {"time_s": 3.0}]
    best = best_values(costs, ("x", "y"))
    assert best == {"best": {"x": 1.0, "time_s": 1.0}, "least_time_s": 1.0, "least_memory_bytes": None}
    assert best_values((), ("x",))["best"] == {}


def test_the_database_finds_the_best_values_of_whatever_is_an_objective(store: Store) -> None:
    name = "time_s * (peak_memory_bytes / 2)"
    found = finished_run(two_layers())
    costly = [
        replace(plan, cost={**plan.cost, name: value})
        for plan, value in zip(found.result.frontier, (7, 5), strict=True)
    ]
    result, options = (
        replace(found.result, frontier=tuple(costly)),
        replace(found.options, objectives=(name,)),
    )
    run = store.runs.save_finished(replace(found, result=result, options=options, verified={}, executions={}))
    stored = store.runs.get(run).best
    with store._database.writing() as connection:
        put_best(connection, run)
    assert store.runs.get(run).best == stored == {name: 5, "time_s": 1e-3, "peak_memory_bytes": 2**19}


def test_best_values_follow_the_frontier_of_a_run_that_goes_on(store: Store) -> None:
    graph = store.graphs.save(two_layers(), later(0)).id
    run = store.runs.submit(request_for(graph), later(0)).id
    job = store.jobs.claim("worker", later(1), LEASE_S)
    assert job is not None
    slow, small = plans((2e-3, 1024), (3e-3, 512))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([slow, small]))
    assert store.runs.get(run).best == {"time_s": 2e-3, "peak_memory_bytes": 512}
    (fast,) = plans((1e-3, 2048))
    store.jobs.checkpoint(job, later(3), LEASE_S, update_of([fast], [small.id]))
    summary = store.runs.get(run)
    assert summary.best == {"time_s": 1e-3, "peak_memory_bytes": 1024}
    assert summary.trend == ((1.0, 0.25), (1.0, 0.25))
    assert store.runs.page()[0] == summary
