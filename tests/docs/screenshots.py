"""The pictures of the dashboard in `docs/images`; `python -m tests.docs.screenshots` takes them in Chromium.

A service on an empty database runs the demo, so they take about a minute. They are pictures of one run: their figures
differ from those of any other in what depends on the machine's speed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

from tests.docs.generated import FOLDER
from tests.service.dashboard.conftest import CHROMIUM, FLAGS
from tests.service.processes import Service

IMAGES = FOLDER.parent / "images"
SIZE = {"width": 1400, "height": 900}
WAIT_MS = 900_000
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
            save(visit(f"{service.address}/runs/new"), "new-run")
        browser.close()


def take_run(visit: Callable[..., Page], service: Service) -> str:
    """Take the pictures of the first visit and of a run; return the id of its knee."""
    page = visit(service.address)
    save(page, "welcome")
    page.get_by_role("button", name="Run the demo").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    expect(page.locator("#figure-searched")).to_have_text(HALF_OF_THE_SEARCH, timeout=WAIT_MS)
    save(page, "run-live")
    expect(page.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
    page.wait_for_load_state("networkidle")
    save(visit(page.url, "dark"), "run-dark")
    save(visit(service.address), "runs")
    knee = page.locator("#plans tbody tr", has=page.locator(".chip.knee")).get_attribute("data-plan")
    assert knee is not None
    return knee


def take_plan(visit: Callable[..., Page], address: str) -> None:
    """Execute a plan, and take the pictures of its page from top to bottom."""
    page = visit(address)
    page.get_by_role("button", name="Execute on the simulator").click()
    expect(page.locator("#execution-status")).to_have_text("succeeded", timeout=WAIT_MS)
    expect(page.locator("#timeline canvas")).to_be_visible(timeout=WAIT_MS)
    save(page, "plan")
    dark = visit(address, "dark")
    expect(dark.locator("#timeline canvas")).to_be_visible(timeout=WAIT_MS)
    show(dark.get_by_role("region", name="Execution"))
    save(dark, "plan-dark")
    show(page.get_by_role("region", name="Decisions", exact=True))
    save(page, "decisions")
    page.get_by_role("button", name="What each move changed").click()
    expect(page.locator(".effects tbody tr").first).to_be_visible(timeout=WAIT_MS)
    page.locator("#decisions .site", has_text="layer_norm").first.click()
    expect(page.locator("#block-history li").first).to_be_visible(timeout=WAIT_MS)
    save(page.get_by_role("region", name="History"), "history")


def show(section: Locator) -> None:
    """Scroll so far that a section begins at the top."""
    section.evaluate("element => element.scrollIntoView()")


def save(what: Page | Locator, name: str) -> None:
    """Save a picture of what is seen of a page, or of a whole section."""
    what.screenshot(path=IMAGES / f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
