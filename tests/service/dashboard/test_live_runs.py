"""Tests of many live runs in one browser: all follow their events, no page is kept out, and nothing grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page, expect

from tapestry.optimizer import Progress
from tapestry.service.store import Job, RunUpdate, Store
from tests.service.dashboard.conftest import Open, Watched
from tests.service.processes import Service
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import later, plans, request_for

pytestmark = pytest.mark.slow

RUNS = 20
LEASE_S = 3600.0
HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@dataclass
class Searching:
    """Runs that a test searches itself: it writes what a worker would."""

    store: Store
    jobs: list[Job] = field(default_factory=list)
    step: int = 0

    @property
    def runs(self) -> list[str]:
        return [job.subject for job in self.jobs]

    def advance(self) -> None:
        """Write an update of every run: another plan joins the frontier, and the oldest leaves it."""
        self.step += 1
        (added,) = plans((1e-3 / self.step, 2**20 * self.step))
        removed = (
            [plan.id for plan in plans((1e-3 / (self.step - 2), 2**20 * (self.step - 2)))]
            if self.step > 2
            else []
        )
        progress = Progress("searching", 0.1 * self.step, self.evaluations, 2, 0.25, (1e-3, 1024.0), 0.1)
        found = RunUpdate(b"state", "searching", progress, [added], removed, {"reshard": (self.step, 1)})
        for job in self.jobs:
            self.store.jobs.checkpoint(job, later(self.step), LEASE_S, found)

    @property
    def evaluations(self) -> int:
        return 100 + self.step


@pytest.fixture
def searching(idle_service: Service) -> Iterator[Searching]:
    """Begin runs without a worker."""
    store = Store(idle_service.database_url)
    graph = store.graphs.save(two_layers(), NOON).id
    for seed in range(RUNS):
        store.runs.submit(request_for(graph, seed=seed), NOON)
    jobs = [store.jobs.claim("a test", later(1), LEASE_S) for _ in range(RUNS)]
    found = Searching(store, [job for job in jobs if job is not None])
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
    return {name: metrics[name] for name in ("Nodes", "JSEventListeners")}


def test_twenty_live_runs_are_followed_in_one_browser_and_nothing_grows(
    idle_service: Service, searching: Searching, visit: Open
) -> None:
    first = visit(idle_service, f"/runs/{searching.runs[0]}")
    pages, watched = [first], []
    for run in searching.runs[1:]:
        page = first.context.new_page()
        watched.append(Watched(page, idle_service.address.removeprefix("http://")))
        page.goto(f"{idle_service.address}/runs/{run}")
        pages.append(page)
    for _ in range(4):
        searching.advance()
    for page in pages:
        shows(page, searching.evaluations)
        expect(page.locator("#plans tbody tr")).to_have_count(2)
    before = [held(page) for page in pages]
    for _ in range(8):
        searching.advance()
    for page in pages:
        shows(page, searching.evaluations)
        expect(page.locator("#plans tbody tr")).to_have_count(2)
    for now, then in zip([held(page) for page in pages], before, strict=True):
        assert now["JSEventListeners"] <= then["JSEventListeners"] + 2, (then, now)
        assert now["Nodes"] <= then["Nodes"] + 12, (then, now)
    for one in watched:
        one.check()


def test_a_page_that_nobody_sees_lets_go_of_its_stream_and_takes_it_up_where_it_was(
    idle_service: Service, searching: Searching, visit: Open
) -> None:
    page = visit(idle_service, f"/runs/{searching.runs[0]}")
    searching.advance()
    shows(page, searching.evaluations)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(HIDE, True)
    searching.advance()
    taken_up: list[str | None] = []
    page.on("request", lambda request: taken_up.append(request.headers.get("last-event-id")))
    page.evaluate(HIDE, False)
    shows(page, searching.evaluations)
    (number,) = [number for number in taken_up if number is not None]
    assert number != "0"
    expect(page.locator("#live")).to_have_text("live")
