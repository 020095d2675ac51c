"""Pages with all their sections: what is loaded once it is near, comes with a choice, or is folded away."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.processes import Service

UNFOLD = """() => document.querySelectorAll("main details:not(.save-menu, .sites)").forEach(
    (each) => { each.open = true; })"""
EXECUTION_MS = 120_000


def whole_page(visit: Open, service: Service, name: str, address: str, *, width: int = 1400) -> Page:
    """Open a page of `addresses` with all that it can show."""
    page = visit(service, address, width=width)
    page.wait_for_load_state("networkidle")
    if name == "plan":
        for section in ("#memory", "#sharding", "#why-not"):
            page.locator(section).scroll_into_view_if_needed()
        expect(page.locator("#memory-roles tbody tr").first).to_be_visible()
        page.locator("#sharding-site").fill("hidden")
        page.locator("#sharding-site").press("Enter")
        page.locator("#why-not-block").fill("hidden")
        page.locator("#why-not-block").press("Enter")
        page.locator("#why-not-table tbody .site").nth(1).click()
        page.get_by_role("button", name="What each move changed").click()
        expect(page.locator(".effects")).to_be_visible()
        page.get_by_role("button", name="Execute on the simulator").click()
        expect(page.locator("#devices table")).to_be_visible(timeout=EXECUTION_MS)
        page.locator("#show-changes").click()
        expect(page.locator("#changes-table")).to_be_visible()
    page.evaluate(UNFOLD)
    return page
