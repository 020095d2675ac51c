"""Tests that the page of a run that has ended shows its proven bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tapestry.optimizer.run.plan import BoundScope, LowerBound
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import request_for

pytestmark = pytest.mark.slow

SCOPE = BoundScope(2, ("gpu.0 x gpu.1",), ("program",), ("all", "gpu:4"), (1,))
BOUNDS = {
    "time_s": LowerBound(8e-4, 1e-3, SCOPE),
    "traffic_bytes": LowerBound(512, 512, SCOPE),
    "device_memory_bytes": LowerBound(2048, None, SCOPE),
}


def test_a_run_that_has_ended_shows_what_no_plan_can_be_below(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    finished = finished_run(two_layers())
    run_id = store.runs.save_finished(replace(finished, result=replace(finished.result, bounds=BOUNDS)))
    store.close()
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#bounds tbody tr")).to_have_count(3)
    rows = [row.inner_text().split("\t") for row in page.locator("#bounds tbody tr").all()]
    assert rows[0] == ["time", "1.000 ms", "0.800 ms", "20 %"]
    assert rows[1] == ["traffic", "512 B", "512 B", "none"]
    assert rows[2][1::2] == ["–", "–"]
    expect(page.locator("#bounds p")).to_contain_text("the 2 structures that the search kept")
    expect(page.locator("#bounds p")).to_contain_text("on all devices, gpu:4, is below these bounds")


def test_a_run_that_has_ended_says_why_and_what_another_minute_would_bring(
    idle_service: Service, visit: Open
) -> None:
    store = Store(idle_service.database_url)
    finished = finished_run(two_layers())
    run_id = store.runs.save_finished(
        replace(finished, result=replace(finished.result, stopped="bound met"), prior="3")
    )
    store.close()
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#making")).to_contain_text(
        "the best plan is proven to be within the gap that was asked for"
    )
    expect(page.locator("#making")).to_contain_text("would lower time by 0.3 %")
    options = page.locator("#request")
    expect(options).to_contain_text("time, peak memory")
    expect(options).to_contain_text("USD per hour of searching")
    expect(options).to_contain_text("snapshot 3 of what earlier runs have learned")
    expect(options).not_to_contain_text("time_s")


def test_a_run_without_bounds_has_no_such_table(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    graph = store.graphs.save(two_layers("waiting"), NOON).id
    run_id = store.runs.submit(request_for(graph), datetime.now(UTC)).id
    store.close()
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#bounds-card")).to_be_hidden()
