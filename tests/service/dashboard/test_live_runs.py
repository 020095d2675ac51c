"""Tests of many live runs in one browser: all follow their events, no page is kept out, and nothing grows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from benchmarks.dashboard_runs import LiveRuns
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open, Watched
from tests.service.processes import Service

pytestmark = pytest.mark.slow

RUNS = 20
ALLOWED = {"JSEventListeners": 2, "Nodes": 12}
HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def live(idle_service: Service) -> Iterator[LiveRuns]:
    """Begin runs without a worker."""
    store = Store(idle_service.database_url)
    found = LiveRuns.begin(store, RUNS, kept=2)
    assert len(found.jobs) == RUNS
    yield found
    store.close()


def shows(page: Page, evaluations: int) -> None:
    expect(page.locator("#figure-evaluations")).to_have_text(f"{evaluations}")


def held(page: Page) -> dict[str, float]:
    """Count what a page holds once what is let go of is gone."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return {name: metrics[name] for name in ALLOWED}


def grown(rounds: list[dict[str, float]]) -> list[str]:
    """Say what a page held more of after every round: what opens late grows once, a leak always."""
    found = []
    for name, more in ALLOWED.items():
        counts = [held_then[name] for held_then in rounds]
        if all(now > then for then, now in pairwise(counts)) and counts[-1] > counts[0] + more:
            found.append(f"{name}: {counts}")
    return found


def test_twenty_live_runs_are_followed_in_one_browser_and_nothing_grows(
    idle_service: Service, live: LiveRuns, visit: Open
) -> None:
    first = visit(idle_service, f"/runs/{live.ids[0]}")
    pages, watched = [first], []
    for run in live.ids[1:]:
        page = first.context.new_page()
        watched.append(Watched(page, idle_service.address.removeprefix("http://")))
        page.goto(f"{idle_service.address}/runs/{run}")
        pages.append(page)
    rounds: list[list[dict[str, float]]] = [[] for _ in pages]
    for _ in range(4):
        for _ in range(4):
            live.advance()
        for page, counted in zip(pages, rounds, strict=True):
            shows(page, live.evaluations)
            expect(page.locator("#plans tbody tr")).to_have_count(2)
            counted.append(held(page))
    assert [grown(counted) for counted in rounds] == [[] for _ in pages]
    for one in watched:
        one.check()


def test_a_page_that_nobody_sees_lets_go_of_its_stream_and_takes_it_up_where_it_was(
    idle_service: Service, live: LiveRuns, visit: Open
) -> None:
    page = visit(idle_service, f"/runs/{live.ids[0]}")
    live.advance()
    shows(page, live.evaluations)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(HIDE, True)
    live.advance()
    taken_up: list[str | None] = []
    page.on("request", lambda request: taken_up.append(request.headers.get("last-event-id")))
    page.evaluate(HIDE, False)
    shows(page, live.evaluations)
    (number,) = [number for number in taken_up if number is not None]
    assert number != "0"
    expect(page.locator("#live")).to_have_text("live")
