"""The pictures of pages in `docs/images`; `python -m tests.docs.screenshots` takes them in Chromium.

A service on an empty database runs the demo, so they take about a minute. They are pictures of one run: their figures
differ from those of any other in what depends on the machine's speed. Each is taken when its page shows what it is a
picture of; a page that is still loading or waiting is an error.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

from tests.docs.generated import FOLDER
from tests.docs.tutorials import FOLDER as TUTORIALS
from tests.docs.tutorials import Reader
from tests.service.dashboard.conftest import CHROMIUM, FLAGS
from tests.service.dashboard.drawing import shades
from tests.service.processes import Service

IMAGES = FOLDER.parent / "images"
SIZE = {"width": 1400, "height": 900}
WAIT_MS = 900_000
WAITING = re.compile("connecting|connection lost|loading|queued", re.IGNORECASE)
HALF_OF_THE_SEARCH = re.compile(r"^[5-9]\.\d s of 10 s$")


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

        def visit(address: str, scheme: str = "light") -> Page:
            page = browser.new_context(color_scheme=scheme, viewport=SIZE).new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(address, wait_until="networkidle")
            return page

        with Service(f"sqlite:///{folder}/tapestry.db", Path(folder) / "log") as service:
            take_plan(visit, f"{service.address}/plans/{take_run(visit, service)}")
            take_form(visit, service)
        take_tutorials(visit)
        browser.close()


def take_run(visit: Callable[..., Page], service: Service) -> str:
    """Take the pictures of the first visit and of a run; return the id of its knee."""
    page = visit(service.address)
    save(page, "welcome", page.get_by_role("button", name="Run the demo"))
    page.get_by_role("button", name="Run the demo").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    expect(page.locator("#live")).to_have_text("live", timeout=WAIT_MS)
    expect(page.locator("#figure-searched")).to_have_text(HALF_OF_THE_SEARCH, timeout=WAIT_MS)
    save(page, "run-live", *run_contents(page))
    expect(page.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
    dark = visit(page.url, "dark")
    expect(dark.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
    expect(dark.locator("#live")).to_be_hidden(timeout=WAIT_MS)
    save(dark, "run-dark", *run_contents(dark))
    runs = visit(service.address)
    save(runs, "runs", runs.locator("#runs tbody tr", has_text="succeeded").first)
    knee = dark.locator("#plans tbody tr", has=dark.locator(".chip.knee")).get_attribute("data-plan")
    assert knee is not None
    return knee


def run_contents(page: Page) -> tuple[Locator, ...]:
    """Return what is drawn on the page of a run: points of the frontier, the hypervolume, rules, plans."""
    return (
        page.locator("#run:not([inert])"),
        page.locator("#frontier canvas"),
        page.locator("#parallel canvas"),
        page.locator("#history canvas"),
        page.locator("#rules tbody tr").first,
        page.locator("#plans tbody tr").first,
    )


def take_plan(visit: Callable[..., Page], address: str) -> None:
    """Execute a plan, and take the pictures of its page from top to bottom."""
    page = visit(address)
    costs = page.locator("#costs tbody tr").first
    expect(costs).to_be_visible(timeout=WAIT_MS)
    with page.expect_response(
        lambda answer: answer.request.method == "POST" and answer.url.endswith("/executions"), timeout=WAIT_MS
    ) as posted:
        page.get_by_role("button", name="Execute on the simulator").click()
    execution = posted.value.json()["id"]
    save(page, "plan", costs, executed(page, execution))
    dark = visit(address, "dark")
    dark.locator("#which").select_option(execution)
    timeline = executed(dark, execution)
    show(dark.get_by_role("region", name="Execution"))
    save(dark, "plan-dark", timeline)
    show(page.get_by_role("region", name="Decisions", exact=True))
    save(page, "decisions", page.locator("#decisions tbody tr").first)
    page.get_by_role("button", name="What each move changed").click()
    effects = page.locator(".effects tbody tr").first
    expect(effects).to_be_visible(timeout=WAIT_MS)
    page.locator("#decisions .site", has_text="layer_norm").first.click()
    history = page.locator("#block-history li").first
    save(page.get_by_role("region", name="History", exact=True), "history", effects, history)


def take_form(visit: Callable[..., Page], service: Service) -> None:
    """Take the picture of the form for a run, with a program and a mesh chosen."""
    page = visit(f"{service.address}/runs/new")
    expect(page.locator("#stored")).to_be_enabled(timeout=WAIT_MS)
    save(page, "new-run", page.locator("#mesh-facts dd").first, page.locator("#graph-status dd").first)


def executed(page: Page, execution: str) -> Locator:
    """Wait until the page shows this execution, not an earlier one, with its timeline; return the timeline."""
    expect(page.locator("#which")).to_have_value(execution, timeout=WAIT_MS)
    expect(page.locator("#execution-status")).to_have_text("succeeded", timeout=WAIT_MS)
    timeline = page.locator("#timeline canvas")
    expect(timeline).to_be_visible(timeout=WAIT_MS)
    expect(timeline).to_have_accessible_name(re.compile("^Timeline of 8 devices"), timeout=WAIT_MS)
    for _ in range(100):
        if shades(page) > 2:
            return timeline
        page.wait_for_timeout(100)
    raise TimeoutError(f"the timeline of execution {execution} is visible, but nothing is painted on it")


def show(section: Locator) -> None:
    """Scroll so far that a section begins at the top."""
    section.evaluate("element => element.scrollIntoView()")


def take_tutorials(visit: Callable[..., Page]) -> None:
    """Take the pictures of tutorials: of the first run of each that has a frontier to look at."""
    for name in ("vit", "language-model"):
        with tempfile.TemporaryDirectory() as folder:
            for _ in Reader(Path(folder)).follow((TUTORIALS / f"{name}.md").read_text()):
                pass
            with Service(f"sqlite:///{folder}/tapestry.db", Path(folder) / "log") as service:
                run = service.http.get("/v1/runs").json()["items"][-1]["id"]
                page = visit(f"{service.address}/runs/{run}")
                expect(page.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
                save(page, name, *run_contents(page), kind="tutorial")


def save(what: Page | Locator, name: str, *contents: Locator, kind: str = "dashboard") -> None:
    """Save a picture of what is seen of a page, or of a whole section, when these contents are there.

    Raises:
        RuntimeError: the page says that it is still loading, connecting or waiting for something.
    """
    for content in contents:
        expect(content).to_be_visible(timeout=WAIT_MS)
    page = what if isinstance(what, Page) else what.page
    states = page.locator("[role=status], .badge, .empty").all()
    waiting = [text for state in states if state.is_visible() and WAITING.search(text := state.inner_text())]
    if waiting:
        raise RuntimeError(f"no picture {name}: the page still says {', '.join(waiting)}")
    what.screenshot(path=IMAGES / f"{kind}-{name}.png")


if __name__ == "__main__":
    main()
