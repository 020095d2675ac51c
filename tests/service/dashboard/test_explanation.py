"""Tests that a plan's page shows its history with effects, and for a block the moves that made it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tapestry.optimizer import explain
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import finished_run, two_layers

pytestmark = pytest.mark.slow

REPLAYING_MS = 120_000


@pytest.fixture(scope="module")
def plan(idle_service: Service) -> str:
    """Save a plan of a finished run, with costs that are its own, and return its id."""
    graph = two_layers()
    run = finished_run(graph)
    found = replace(run.result.frontier[0], cost={})
    found = replace(found, cost=explain(graph, found.moves, run.result.mesh, compute_dtype="bf16").cost)
    store = Store(idle_service.database_url)
    result = replace(run.result, frontier=(found,))
    run_id = store.runs.save_finished(replace(run, result=result, verified={}, executions={}))
    store.close()
    return f"{run_id}-{found.id}"


def test_the_history_is_shown_with_what_each_move_changed(
    idle_service: Service, plan: str, visit: Open
) -> None:
    page = visit(idle_service, f"/plans/{plan}")
    page.get_by_role("button", name="What each move changed").click()
    rows = page.locator(".effects tbody tr")
    expect(rows.first).to_contain_text("as imported", timeout=REPLAYING_MS)
    reported = idle_service.get(f"/v1/plans/{plan}/explanation")
    expect(rows).to_have_count(len(reported["steps"]) + 2)
    expect(rows.last).to_contain_text("this plan")
    changes = sum(step["effect"][name] != 0 for step in reported["steps"] for name in reported["objectives"])
    expect(page.locator(".effects .bar")).to_have_count(changes)
    heads = page.locator(".effects thead th").all_inner_texts()
    assert [head.removesuffix("CSV").strip() for head in heads[:3]] == ["move", "rule", "place"]
    assert heads[-1].startswith("without it")
    assert page.locator(".effects .notice").count() == 0


def test_a_block_lists_its_moves_by_its_name_or_a_click(
    idle_service: Service, plan: str, visit: Open
) -> None:
    page = visit(idle_service, f"/plans/{plan}")
    reported = idle_service.get(f"/v1/plans/{plan}/explanation")
    site = "y"
    page.locator("#decisions .site", has_text=site).click()
    expect(page.locator("#block-history p")).to_contain_text(f"{site} stems from")
    expect(page.locator("#block-history li")).to_have_count(len(reported["blocks"][site]["events"]))
    expect(page.locator("#block-history-site")).to_have_value(site)

    page.locator("#block-history-site").fill("nowhere")
    page.get_by_role("button", name="Its moves").click()
    expect(page.locator("#block-history")).to_have_text("No move met a block “nowhere”.")


def test_a_history_that_cannot_be_replayed_is_reported(idle_service: Service, plan: str, visit: Open) -> None:
    message = {
        "title": "The request cannot be carried out",
        "detail": "there is no rule 'gone'",
        "status": 422,
    }
    page = visit(
        idle_service,
        f"/plans/{plan}",
        expected=("status of 422",),
        before=lambda page: page.route(
            "**/explanation", lambda route: route.fulfill(status=422, json=message)
        ),
    )
    page.get_by_role("button", name="What each move changed").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no rule 'gone'")
    expect(page.get_by_role("button", name="What each move changed")).to_be_enabled()
