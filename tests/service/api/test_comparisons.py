"""Tests of comparisons: hypervolumes on one scale, histories replayed from events, decisions of plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.service.store import NewExecution
from tests.service.api.conftest import Service, complaint
from tests.service.programs import finished_run, plan_by_hand, two_layers
from tests.service.store.submissions import LEASE_S, later, request_for, update_of

KEPT = dict[str, NewExecution]()


def stored(service: Service, *costs: tuple[float, int], seed: int = 0) -> str:
    """Store a run of the command line with plans of these times and memories."""
    finished = finished_run(two_layers())
    plans = tuple(replace(plan_by_hand(two_layers(), *cost), cost_model=COST_MODEL_VERSION) for cost in costs)
    result = replace(finished.result, frontier=plans)
    options = replace(finished.options, seed=seed)
    return service.store.runs.save_finished(
        replace(finished, result=result, options=options, verified={}, executions=KEPT)
    )


def test_hypervolumes_are_relative_to_one_point(service: Service) -> None:
    one, other = stored(service, (1.0, 100), (2.0, 50)), stored(service, (2.0, 100), seed=7)
    found = service.http.get("/v1/comparisons/runs", params={"run": [one, other]}).json()
    assert found["reference"] == pytest.approx({"time_s": 2.2, "peak_memory_bytes": 110.0})
    first, second = found["runs"]
    assert second["hypervolume"] == pytest.approx(0.2 * 10 / (2.2 * 110))
    assert first["hypervolume"] == pytest.approx((1.2 * 10 + 0.2 * 50) / (2.2 * 110))
    assert (first["alone"], second["alone"], first["best"]["time_s"]) == (2, 0, 1.0)
    assert [len(run["points"]) for run in found["runs"]] == [2, 1]
    assert first["history"] is None  # the command line stores no course
    assert {"title": "Seed", "values": ["0", "7"]} in found["differences"]
    swapped = service.http.get("/v1/comparisons/runs", params={"run": [other, one]}).json()
    assert [run["hypervolume"] for run in swapped["runs"]] == [second["hypervolume"], first["hypervolume"]]


def test_the_course_of_a_search_is_computed_again_on_the_common_scale(service: Service) -> None:
    graph = service.store.graphs.save(two_layers(), later(0)).id
    run = service.store.runs.submit(request_for(graph), later(0)).id
    job = service.store.jobs.claim("worker", later(1), LEASE_S)
    assert job is not None and job.subject == run
    slow, fast = (
        replace(plan_by_hand(two_layers(), time_s, 100, split), cost_model=COST_MODEL_VERSION)
        for time_s, split in ((2.0, "(gpu.0, -, -)"), (1.0, "(-, gpu.0, -)"))
    )
    service.store.jobs.checkpoint(job, later(2), LEASE_S, update_of([slow]))
    service.store.jobs.checkpoint(job, later(3), LEASE_S, update_of([fast], [slow.id]))
    other = stored(service, (2.0, 100))
    found = service.http.get("/v1/comparisons/runs", params={"run": [run, other]}).json()
    (first, last), reference = found["runs"][0]["history"], found["reference"]
    assert reference["time_s"] == pytest.approx(2.2)
    assert (first[0], first[1]) == (1.0, pytest.approx(0.2 / 2.2 * 10 / 110))
    assert last[1] == found["runs"][0]["hypervolume"] == pytest.approx(1.2 / 2.2 * 10 / 110)


def test_plans_are_compared_by_costs_parameters_and_blocks(service: Service) -> None:
    run = service.store.runs.save_finished(finished_run(two_layers()))
    plans = [f"{run}-{plan.id}" for plan in service.store.runs.frontier(run)]
    found = service.http.get("/v1/comparisons/plans", params={"plan": plans}).json()
    assert [plan["id"] for plan in found["plans"]] == plans
    assert [plan["cost"]["time_s"] for plan in found["plans"]] == [1e-3, 2e-3]
    (group,) = found["decisions"]["groups"]
    assert (group["name"], group["sites"]) == ("y", ["y"])
    assert [value["strategy"] for value in group["values"]] == ["(gpu.0, -, -)", "(-, gpu.0, -)"]
    assert {"title": "devices", "values": ["all", "all"], "differs": False} in found["parameters"]


@pytest.mark.parametrize("what", ["run", "plan"])
def test_two_to_four_different_ones_are_compared(service: Service, what: str) -> None:
    run = service.store.runs.save_finished(finished_run(two_layers()))
    known = run if what == "run" else f"{run}-{service.store.runs.frontier(run)[0].id}"
    path = f"/v1/comparisons/{what}s"
    for wrong in ([known], [known] * 2, [known] * 5, [known, "x"], []):
        complaint(service.http.get(path, params={what: wrong}), 422, "invalid")
    unknown = "0" * 12 if what == "run" else f"{run}-{'0' * 12}"
    complaint(service.http.get(path, params={what: [known, unknown]}), 404, "unknown_id")
