"""Tests that plans that compute other values than their program are marked, and so are those that share their rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import expect

from tapestry.service.store import Store
from tapestry.service.verdicts import problem_of
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import NOON, two_layers, verified
from tests.service.store.submissions import plans, request_for, update_of

pytestmark = pytest.mark.slow

SUSPECTS: dict[str, Any] = {"suspects": ["fuse_cells"]}
REFUTED: dict[str, Any] = {"values": {"executed": True, "ok": False, "max_error": {"y": 0.9}}}


def test_refuted_plans_and_those_with_their_rules_are_marked(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    run_id = store.runs.submit(request_for(store.graphs.save(two_layers("wrong"), NOON).id), NOON).id
    job = store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None and job.subject == run_id
    found = plans((1e-3, 2**20), (2e-3, 2**19), (3e-3, 2**18))
    store.jobs.checkpoint(job, datetime.now(UTC), 600.0, update_of(added=found))
    message: list[dict[str, Any]] = [verified(plan) for plan in found]
    checked = {
        plan.id: one | more
        for plan, one, more in zip(found, message, (REFUTED | SUSPECTS, SUSPECTS, {}), strict=True)
    }
    for plan, one in checked.items():
        store.jobs.verified(job, datetime.now(UTC), 600.0, plan, one, None)
    problem = problem_of(checked)
    store.jobs.end_run(job, datetime.now(UTC), "finished", stopped="budget", problem=problem)
    store.close()

    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#figure-checked")).to_have_text("3 of 3, 2 failed or not trusted")
    expect(page.locator("#problem")).to_contain_text("Plans compute other values")
    chips = page.locator("#plans .chip.bad")
    expect(chips.filter(has_text="other values")).to_have_count(1)
    expect(chips.filter(has_text="not trusted")).to_have_count(1)
    page = visit(idle_service, f"/plans/{run_id}-{found[1].id}")
    expect(page.locator("#verification")).to_contain_text("suspected: fuse_cells")
