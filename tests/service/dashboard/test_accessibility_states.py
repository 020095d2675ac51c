"""Tests by axe-core of pages in use: open dialogs, trays and menus, answers, errors, and lists without members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_accessibility import GRAVE
from tests.service.dashboard.test_pages import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow

WAIT_MS = 120_000


@pytest.fixture(scope="module")
def known(service: Service) -> dict[str, str]:
    """Return the ids of a program, of a run that ended and of one that failed, and of a plan."""
    graph = posted_graph(service)
    run = posted_run(service, graph, verify="none")
    failed = posted_run(service, graph, constraints=["peak_memory_bytes<=1B"])
    assert [service.wait_for_run(each)["status"] for each in (run, failed)] == ["succeeded", "failed"]
    plan = service.get(f"/v1/runs/{run}/frontier")["plans"][0]["id"]
    return {"graph": graph, "run": run, "failed": failed, "plan": plan}


def labels_are_edited(page: Page) -> None:
    page.locator("#runs").get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Tags and notes").click()
    expect(page.locator("dialog[open]")).to_be_visible()


def deletion_is_confirmed(page: Page) -> None:
    page.locator("#runs").get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Delete…").click()
    expect(page.locator("dialog[open]")).to_be_visible()


def list_is_empty(page: Page) -> None:
    expect(page.locator("#none")).to_be_visible()


def plans_are_selected(page: Page) -> None:
    boxes = page.locator("#plans").get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_label("scatter matrix").check()
    page.locator("#rules-over-time").check()
    page.locator("#save-frontier summary").click()
    expect(page.locator("#selection")).to_be_visible()


def reason_is_shown(page: Page) -> None:
    expect(page.get_by_role("alert")).to_be_visible()


def plan_is_explained(page: Page) -> None:
    page.locator("#why-not-block").fill("y")
    page.locator("#why-not").get_by_role("button", name="Show").click()
    page.locator("#why-not-table tbody button").nth(1).click(timeout=WAIT_MS)
    page.get_by_role("button", name="What each move changed").click()
    expect(page.locator(".effects")).to_be_visible(timeout=WAIT_MS)
    page.locator("#timeline-menu summary").click()
    page.get_by_text("Bytes by device").click()
    page.locator("#find-block").fill("y")
    page.locator("#find-block").press("Enter")
    expect(page.locator("#selected-block h3")).to_be_visible()


def alternatives_are_refused(page: Page) -> None:
    expect(page.locator("#why-not-problem [role=alert]")).to_be_visible(timeout=WAIT_MS)


def block_is_not_found(page: Page) -> None:
    page.fill("#find-block", "nothing")
    expect(page.locator("#found-blocks")).to_contain_text("no block")


def form_has_faults(page: Page) -> None:
    page.get_by_label("Seconds of searching").fill("-1")
    page.get_by_role("button", name="Add a constraint").click()
    page.get_by_label("at most").fill("2")
    page.locator("#advanced summary").click()
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator("[data-fault='/budget/seconds']")).not_to_be_empty()


def comparison_is_refused(page: Page) -> None:
    expect(page.locator("#trouble .notice")).to_be_visible()


STATES: dict[str, Callable[[Page], None]] = {
    "/?": labels_are_edited,
    "/": deletion_is_confirmed,
    "/?q=nothing": list_is_empty,
    "/runs/{run}": plans_are_selected,
    "/runs/{failed}": reason_is_shown,
    "/plans/{plan}": plan_is_explained,
    "/plans/{plan}#block=nowhere": alternatives_are_refused,
    "/graphs/{graph}": block_is_not_found,
    "/runs/new?graph={graph}": form_has_faults,
    "/compare?runs={run}": comparison_is_refused,
}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
@pytest.mark.parametrize("path", STATES)
def test_nothing_grave_is_found_in_any_state(
    service: Service,
    known: dict[str, str],
    visit: Open,
    path: str,
    scheme: Literal["light", "dark"],
    width: int,
) -> None:
    expected = ("status of 4",)
    page = visit(service, path.format(**known), scheme=scheme, width=width, expected=expected)
    STATES[path](page)
    grave = [each for each in Axe().run(page).response["violations"] if each["impact"] in GRAVE]
    assert not grave, "\n".join(f"{each['id']}: {each['nodes'][0]['html'][:300]}" for each in grave)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_nothing_grave_is_found_in_an_empty_installation(
    idle_service: Service, visit: Open, scheme: Literal["light", "dark"], width: int
) -> None:
    page = visit(idle_service, "/", scheme=scheme, width=width)
    expect(page.get_by_role("button", name="Run the demo")).to_be_visible()
    assert [each for each in Axe().run(page).response["violations"] if each["impact"] in GRAVE] == []
