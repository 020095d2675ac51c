"""Tests of the pages of runs that came to no good end: cancelled before their plans were checked, or without a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import plans, request_for, update_of

pytestmark = pytest.mark.slow

EMPTY = ("Frontier", "Hypervolume", "Plans")


def test_a_cancelled_run_shows_its_share_of_the_budget_and_that_its_plans_stay_unverified(
    idle_service: Service, visit: Open
) -> None:
    store = Store(idle_service.database_url)
    run_id = store.runs.submit(request_for(store.graphs.save(two_layers("cut"), NOON).id), NOON).id
    job = store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None and job.subject == run_id
    found = plans((1e-3, 2**20), (2e-3, 2**19))
    store.jobs.checkpoint(job, datetime.now(UTC), 600.0, update_of(added=found))
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#plans tbody tr")).to_have_count(2)
    store.jobs.end_run(job, datetime.now(UTC), "cancelled", stopped="cancelled")
    store.close()

    notice = "cancelled after 1.0 s of 10 s of searching. The 2 plans found until then are kept, not verified, and will"
    for _ in range(2):  # live, and read again
        expect(page.locator("#cancelled")).to_contain_text(notice)
        expect(page.locator("#progress")).to_have_attribute("aria-valuenow", "10")
        page.reload()
    page.locator("#cancelled").get_by_role("link", name="Search again").click()
    expect(page).to_have_url(re.compile(rf"/runs/new\?from={run_id}&fresh"))
    page.goto(f"{idle_service.address}/plans/{run_id}-{found[0].id}")
    expect(page.locator("#verification")).to_have_text(
        "Not verified, and it will not be: its run was cancelled before."
    )


def test_a_run_that_has_used_its_budget_is_full_and_one_that_ended_before_is_not(
    idle_service: Service, visit: Open
) -> None:
    store = Store(idle_service.database_url)
    finished = finished_run(two_layers())
    early = replace(finished.result, stopped="bound met", seconds=0.3)
    for result, share in ((finished.result, "100"), (early, "20")):
        run_id = store.runs.save_finished(replace(finished, result=result))
        page = visit(idle_service, f"/runs/{run_id}")
        expect(page.locator("#progress")).to_have_attribute("aria-valuenow", share)
        expect(page.locator("#cancelled")).to_be_empty()
    store.close()


def test_a_run_that_failed_without_a_plan_has_no_empty_charts(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    run_id = store.runs.submit(request_for(store.graphs.save(two_layers("large"), NOON).id), NOON).id
    job = store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None and job.subject == run_id
    page = visit(idle_service, f"/runs/{run_id}")
    for name in EMPTY:
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    expect(page.get_by_text("A point is a plan: click it")).to_be_hidden()
    problem = {"title": "No feasible plan", "detail": "too large", "code": "no_feasible_plan"}
    store.jobs.end_run(job, datetime.now(UTC), "failed", stopped="budget", problem=problem)
    store.close()
    expect(page.locator("#problem")).to_contain_text("too large")
    for name in EMPTY:
        expect(page.get_by_role("region", name=name, exact=True)).to_be_hidden()
    expect(page.get_by_role("region", name="Rules", exact=True)).to_be_visible()


def test_cancelling_is_confirmed_first(idle_service: Service, visit: Open) -> None:
    run_id = posted_run(idle_service, posted_graph(idle_service))
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#queue")).to_contain_text("This run is next. No worker is there to begin it.")
    expect(page.locator("#queue code")).to_have_text("tapestry worker")
    expect(page.locator("#no-plans")).to_have_text(
        "The first plans appear here once a worker has begun the run."
    )
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancellation")
    dialog.get_by_role("button", name="Let it go on").click()
    expect(dialog).to_be_hidden()
    assert idle_service.get(f"/v1/runs/{run_id}")["status"] == "queued"
    page.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#status")).to_have_text("cancelled")
    expect(dialog).to_be_hidden()
    expect(page.locator("#queue")).to_be_hidden()
    expect(page.locator("#cancelled")).to_contain_text(
        "This run was cancelled before it began. It found no plan."
    )
    assert idle_service.get(f"/v1/runs/{run_id}")["status"] == "cancelled"
