"""Tests that the form leads to the run that has answered the same request, and can search again."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tapestry.service.provenance import versions
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import finished_run, two_layers

pytestmark = pytest.mark.slow


def test_the_form_leads_to_the_run_that_answered_the_same_request(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    finished = finished_run(two_layers())
    options = replace(finished.options, islands=finished.result.islands)
    run_id = store.runs.save_finished(replace(finished, options=options, versions=versions()))
    store.close()

    page = visit(idle_service, f"/runs/new?from={run_id}")
    page.get_by_role("button", name="Start the run").click()
    expect(page).to_have_url(f"{idle_service.address}/runs/{run_id}?reused")
    expect(page.locator("#reused")).to_contain_text("Nothing was searched again.")
    page.get_by_role("link", name="Search again").click()
    expect(page.get_by_label("Search again")).to_be_checked()
    expect(page.locator("#preview")).to_contain_text('"fresh": true')
    page.get_by_role("button", name="Start the run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f]{12}$"))
    assert not page.url.endswith(run_id)
    expect(page.locator("#plan-count")).to_be_empty()
    expect(page.locator("#reused")).to_be_empty()
