"""Tests of all pages, at rest and in use: nothing grave for axe-core, light and dark, wide and on a phone; and from a
phone to a wide screen nothing is too wide, and no text is printed over another."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.appearance import CONTRAST, SIDEWAYS, grave, printed_over
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow

WAIT_MS = 120_000
HEIGHT = 900
WIDE, PHONE = 1400, 390
WIDTHS = (PHONE, WIDE, 2560)
REFUSED = ("status of 4",)


@pytest.fixture(scope="module")
def known(service: Service) -> dict[str, str]:
    """Return the ids of a program, of runs that ended and of one that failed, of plans and of a batch."""
    graph = posted_graph(service)
    run, other = (posted_run(service, graph, seed=seed) for seed in (0, 1))
    failed = posted_run(service, graph, constraints=["peak_memory_bytes<=1B"])
    batch = {"graphs": [graph], "meshes": ["dgx-h100"], "seeds": [0], "budget": {"evaluations": 2000}}
    made = service.post(
        "/v1/batches", content=json.dumps(batch), headers={"Content-Type": "application/json"}
    )
    states = [service.wait_for_run(each)["status"] for each in (run, other, failed)]
    assert states == ["succeeded", "succeeded", "failed"]
    plans = [plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]]
    ids = {"graph": graph, "run": run, "other": other, "failed": failed, "batch": made["id"]}
    return ids | {"plan": plans[0], "last": plans[-1]}


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
    page.locator("#execution").scroll_into_view_if_needed()
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


PAGES = (
    "/",
    "/runs/{run}",
    "/runs/{run}?tour=1",
    "/runs/nowhere",
    "/plans/{plan}",
    "/graphs/{graph}",
    "/batches",
    "/batches/{batch}",
    "/compare?plans={plan},{last}",
    "/compare?runs={run},{other}",
    "/rules",
    "/devices",
    "/devices?device=h200-sxm-141gb",
    "/layouts",
    "/runs/new",
    "/tour",
    "/login",
    "/nowhere",
)

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


def found_in_both_schemes(page: Page) -> list[str]:
    """Return what is grave in the scheme of the page, and which contrasts are too low in the other."""
    found = grave(page)
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    page.emulate_media(color_scheme="light" if is_dark else "dark")
    return found + grave(page, CONTRAST)


def look_at_all_of(page: Page) -> None:
    """Scroll to the end, so that whatever waits until it is in view is loaded."""
    page.wait_for_load_state("networkidle")
    page.evaluate(
        "() => document.querySelectorAll('main .card, footer').forEach((one) => one.scrollIntoView())"
    )
    page.wait_for_load_state("networkidle")
    page.evaluate("() => scrollTo(0, 0)")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_readable_in_every_appearance(
    service: Service, known: dict[str, str], visit: Open, path: str
) -> None:
    page = visit(service, path.format(**known), width=WIDE, expected=REFUSED)
    look_at_all_of(page)
    found = found_in_both_schemes(page)
    page.set_viewport_size({"width": PHONE, "height": HEIGHT})
    found += found_in_both_schemes(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        found += [f"{width} px: {first!r} over {second!r}" for first, second in printed_over(page)]
        if wider := page.evaluate(SIDEWAYS):
            found.append(f"{width} px: {wider} px too wide")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("path", STATES)
def test_nothing_grave_is_found_in_any_state(
    service: Service, known: dict[str, str], visit: Open, path: str, width: int
) -> None:
    scheme = "light" if width == WIDE else "dark"
    page = visit(service, path.format(**known), scheme=scheme, width=width, expected=REFUSED)
    STATES[path](page)
    found = found_in_both_schemes(page)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_nothing_grave_is_found_in_an_empty_installation(
    idle_service: Service, visit: Open, width: int
) -> None:
    page = visit(idle_service, "/", width=width)
    expect(page.get_by_role("button", name="Run the demo")).to_be_visible()
    assert found_in_both_schemes(page) == []


def test_texts_that_are_printed_over_each_other_are_found(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules", width=WIDE)
    page.wait_for_load_state("networkidle")
    assert printed_over(page) == []
    page.locator("h1").evaluate("(one) => { one.style.marginBottom = '-40px'; }")
    assert any("Rules" in pair for pair in printed_over(page))
