"""Tests that a rule that misbehaves in a search is named on the run's page, while the search goes on and later."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import request_for, update_of

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"
REFUSAL = {"rule": "acme_cube", "reason": f"its guard fails at {HOSTILE!r}", "hint": "repair it"}


def test_a_refused_rule_is_reported_as_it_happens_and_to_later_visitors(
    idle_service: Service, visit: Open
) -> None:
    store = Store(idle_service.database_url)
    graph = store.graphs.save(two_layers("refusing"), NOON).id
    run_id = store.runs.submit(request_for(graph), datetime.now(UTC)).id
    job = store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None and job.subject == run_id
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#refused")).to_be_empty()

    store.jobs.checkpoint(job, datetime.now(UTC), 600.0, update_of(refused=[REFUSAL]))
    store.close()

    for _ in range(2):
        notice = page.get_by_role("status").filter(has_text="1 rule left out of this search")
        expect(notice.locator("li")).to_have_text(f"acme_cube: {REFUSAL['reason']}What to do: repair it.")
        assert page.locator("main img").count() == 0
        page.reload()
