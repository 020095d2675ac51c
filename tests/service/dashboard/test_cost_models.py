"""Tests that pages say which costs an older cost model has computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import finished_run, two_layers

pytestmark = pytest.mark.slow

OLDER = f"costed by an older model (1; this is {COST_MODEL_VERSION})"


def test_pages_note_plans_of_an_older_cost_model(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    finished = replace(finished_run(two_layers()), executions={})
    first, second = finished.result.frontier
    older = replace(finished.result, frontier=(replace(first, cost_model=1), second))
    run_id = store.runs.save_finished(replace(finished, result=older))
    newer = store.runs.save_finished(finished)
    store.close()

    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#cost-model")).to_have_text(
        f"1 plan {OLDER}. Do not compare these costs with others."
    )
    page = visit(idle_service, f"/plans/{run_id}-{first.id}")
    expect(page.locator("#cost-model")).to_contain_text(OLDER)
    page = visit(idle_service, f"/runs/{newer}")
    expect(page.locator("#plan-count")).to_have_text("2 plans")
    expect(page.locator("#cost-model")).to_be_empty()
