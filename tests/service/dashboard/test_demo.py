"""Tests of a first visit: an empty installation, one button, a finished run, the tour, a plan and its timeline."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.drawing import shades
from tests.service.processes import Service

pytestmark = pytest.mark.slow

SECONDS = 2
COMPILING_MS = 180_000
STEPS = ("The frontier", "One plan", "The sharding", "Why not otherwise, and exports")


def shorten(page: Page) -> None:
    """Change the demo to a smaller budget, after which it executes nothing by itself."""

    def post(route: Route) -> None:
        if route.request.method != "POST":
            return route.fallback()
        body = route.request.post_data_json
        assert body["mesh"] == "dgx-h100" and body["objectives"][0] == "time_s"
        assert 0 < body["budget"]["seconds"] <= 10
        body["budget"] = {"seconds": SECONDS}
        body["verify"] = "dry"  # the button below executes a plan
        return route.continue_(post_data=json.dumps(body))

    page.route("**/v1/runs", post)


def without_runs(page: Page) -> None:
    """Answer that there is no run, as the list is while the demo imports its program."""
    page.route("**/v1/runs?*", lambda route: route.fulfill(json={"items": [], "next": None}))


def test_one_button_leads_from_an_empty_installation_to_a_finished_run(service: Service, visit: Open) -> None:
    page = visit(service, "/", before=shorten)
    expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").all_inner_texts() == ["Run the demo"]

    page.get_by_role("button", name="Run the demo").click()
    progress = page.get_by_role("region", name="The demo")
    expect(progress).to_be_focused()
    expect(progress.get_by_role("listitem")).to_have_count(5)
    expect(progress.locator(".done").first).to_contain_text("491 blocks, 124.4 M parameters")
    page.wait_for_url(re.compile(r"/\?demo=[0-9a-f]{12}$"))
    page.reload()  # it goes on with the run of the address
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}\?tour=1$"), timeout=COMPILING_MS)
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    run = service.get(f"/v1/runs/{run_id}")
    assert (run["status"], run["tags"]) == ("succeeded", ["demo"])

    plans = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    assert plans and all(plan["verified"]["sharding"]["ok"] for plan in plans)
    rows = page.locator("#plans tbody tr")
    expect(rows).to_have_count(len(plans))
    assert {row.get_attribute("data-plan") for row in rows.all()} == {plan["id"] for plan in plans}
    frontier = page.locator("#frontier canvas")
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

    page.get_by_label("with numbers").uncheck()
    page.get_by_role("button", name="Execute on the simulator").click()
    expect(page.locator("#which option")).to_have_count(2)
    expect(page.locator("#execution-status")).to_have_text("succeeded", timeout=COMPILING_MS)
    canvas = page.locator("#timeline canvas")
    expect(canvas).to_be_visible(timeout=COMPILING_MS)
    expect(canvas).to_have_accessible_name(re.compile(r"^Timeline of 8 devices over [\d.]+ ms"))
    expect(page.locator("#accounts-note")).to_contain_text("Memory and traffic are counted independently")
    expect(page.locator("#devices tbody tr")).to_have_count(8)
    expect(page.locator("#devices tbody tr").first.locator("td")).to_have_count(8)
    assert shades(page) > 2, "the timeline is painted"

    trace = page.get_by_role("link", name="For Perfetto").get_attribute("href")
    assert {event["pid"] for event in service.get(str(trace))["traceEvents"]} == set(range(8))

    page.goto(service.address + "/")
    expect(page.locator(f"tr[data-run='{run_id}']")).to_contain_text("succeeded")


def test_the_demo_runs_once_however_often_its_button_is_pressed(service: Service, visit: Open) -> None:
    (run,) = service.get("/v1/runs?tag=demo")["items"]
    page = visit(service, "/?q=nothing", before=shorten)
    page.get_by_role("button", name="Run the demo").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run['id']}?tour=1")
    assert [each["id"] for each in service.get("/v1/runs")["items"]] == [run["id"]]


def test_without_a_worker_the_demo_says_how_to_start_one(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/tour")
    page.get_by_role("button", name="Run the demo and begin").click()
    expect(page.get_by_text("No worker is alive, so the run waits.")).to_be_visible()
    expect(page.locator("#demo-no-worker code")).to_have_text("tapestry worker")
    (run,) = idle_service.get("/v1/runs?tag=demo")["items"]
    other = visit(idle_service, "/?q=nothing")
    other.get_by_role("button", name="Run the demo").click()
    other.wait_for_url(f"**/?q=nothing&demo={run['id']}")
    idle = visit(idle_service, f"/?demo={run['id']}", before=without_runs)
    expect(idle.get_by_role("heading", name="The demo")).to_be_visible()
    expect(idle.get_by_role("heading", name="Nothing here yet")).to_be_hidden()

    idle_service.post(f"/v1/runs/{run['id']}/cancel", json={})
    expect(idle.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("The run was cancelled")
    page.get_by_role("button", name="Run the demo and begin").click()
    page.wait_for_url(re.compile(rf"/tour\?demo=(?!{run['id']})[0-9a-f]{{12}}$"))
    assert len(idle_service.get("/v1/runs?tag=demo")["items"]) == 2


def test_the_tour_goes_by_keyboard_from_the_frontier_to_the_exports(service: Service, visit: Open) -> None:
    page = visit(service, "/tour")
    expect(page.locator("#tour-steps h2")).to_have_text(list(STEPS))
    page.get_by_role("link", name="Begin the tour").press("Enter")
    panel = page.get_by_role("dialog")
    for number, title in enumerate(STEPS, start=1):
        page.wait_for_url(f"**?tour={number}")
        expect(panel).to_have_accessible_name(title)
        expect(panel).to_be_focused()
        expect(page.locator(".tour-target")).to_be_in_viewport()
        page.keyboard.press("Tab")  # to leave
        page.keyboard.press("Tab")  # back, or on where there is no step before
        if number > 1:
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
    expect(panel).to_have_count(0)
    expect(page.locator("#why-not h2")).to_be_focused()
    assert "tour" not in page.url
    page.goto(service.address + "/tour")
    expect(page.get_by_role("link", name="Begin the tour")).to_be_visible()


def test_who_leaves_the_tour_may_go_on_and_is_not_invited_again(service: Service, visit: Open) -> None:
    (run,) = service.get("/v1/runs?tag=demo")["items"]
    page = visit(service, f"/runs/{run['id']}?tour=1&x=energy_j", before=shorten)
    panel = page.get_by_role("dialog")
    panel.get_by_role("button", name="Open the knee").click()
    page.wait_for_url("**/plans/*?tour=2")
    panel.get_by_role("button", name="How it is sharded").click()
    page.reload()
    expect(panel).to_have_accessible_name("The sharding")
    panel.get_by_role("button", name="Back").click()
    expect(panel).to_have_accessible_name("One plan")
    plan = page.url.partition("?")[0]
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.locator("[aria-label=Costs] h2").first).to_be_focused()
    assert page.url == plan

    page.goto(service.address + "/?q=nothing")
    page.get_by_role("button", name="Run the demo").click()
    page.wait_for_url(f"**/runs/{run['id']}")
    expect(page.locator("#figure-checked")).not_to_be_empty()
    expect(panel).to_have_count(0)
    page.goto(service.address + "/tour")
    page.get_by_role("link", name="Go on at step 2").click()
    page.wait_for_url(f"{plan}?tour=2")
    expect(panel).to_have_accessible_name("One plan")
