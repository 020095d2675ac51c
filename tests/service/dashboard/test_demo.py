"""Tests of a first visit: an empty installation, one button, points that appear, a plan, its timeline."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.drawing import shades
from tests.service.processes import Service

pytestmark = pytest.mark.slow

SECONDS = 3
COMPILING_MS = 180_000


def shorten(page: Page) -> None:
    """Change the demo to a smaller budget, after which it executes nothing by itself."""

    def post(route: Route) -> None:
        if route.request.method != "POST":
            return route.fallback()
        body = route.request.post_data_json
        assert body["mesh"] == "dgx-h100" and body["objectives"][0] == "time_s"
        body["budget"] = {"seconds": SECONDS}
        assert body["execution_seconds"] > 60
        body["verify"] = "dry"  # the button below executes a plan
        return route.continue_(post_data=json.dumps(body))

    page.route("**/v1/runs", post)


def test_from_an_empty_installation_to_the_timeline_of_a_plan(service: Service, visit: Open) -> None:
    page = visit(service, "/", before=shorten)
    expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").all_inner_texts() == ["Run the demo"]

    page.get_by_role("button", name="Run the demo").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    run_id = page.url.rpartition("/")[2]
    page.evaluate("window.wasNotReloaded = true")

    frontier = page.locator("#frontier canvas")
    expect(frontier).to_be_visible(timeout=COMPILING_MS)
    expect(page.locator("#status")).to_contain_text("running")
    expect(page.locator("#status")).to_have_text("succeeded", timeout=COMPILING_MS)
    assert page.evaluate("window.wasNotReloaded") is True

    plans = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    rows = page.locator("#plans tbody tr")
    expect(rows).to_have_count(len(plans))
    assert {row.get_attribute("data-plan") for row in rows.all()} == {plan["id"] for plan in plans}
    expect(frontier).to_have_accessible_name(
        re.compile(rf"^{len(plans)} plans, time across and peak memory up")
    )
    expect(page.locator("#figure-checked")).to_have_text(f"{len(plans)} of {len(plans)}")

    frontier.focus()
    page.keyboard.press("ArrowRight")  # the first from the left: the fastest
    expect(page.locator("#frontier .tooltip")).to_contain_text(plans[0]["plan"])
    expect(page.locator("#plans tr.is-pointed")).to_have_attribute("data-plan", plans[0]["id"])
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/plans/{run_id}-[0-9a-f]{{12}}$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Plan {plans[0]['plan']}")

    page.get_by_role("button", name="Execute on the simulator").click()
    expect(page.locator("#which option")).to_have_count(2)
    expect(page.locator("#execution-status")).to_have_text("succeeded", timeout=COMPILING_MS)
    canvas = page.locator("#timeline canvas")
    expect(canvas).to_be_visible(timeout=COMPILING_MS)
    expect(canvas).to_have_accessible_name(re.compile(r"^Timeline of 8 devices over [\d.]+ ms"))
    expect(page.locator("#devices tbody tr")).to_have_count(8)
    assert shades(page) > 2, "the timeline is painted"

    trace = page.get_by_role("link", name="For Perfetto").get_attribute("href")
    assert {event["pid"] for event in service.get(str(trace))["traceEvents"]} == set(range(8))

    page.goto(service.address + "/")
    expect(page.locator(f"tr[data-run='{run_id}']")).to_contain_text("succeeded")
