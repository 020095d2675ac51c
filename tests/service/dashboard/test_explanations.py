"""Tests that figures explain themselves: on every page each has a button, and what that says is no empty text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tapestry.service.dashboard import STATIC
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_pages import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow

LEAST_LETTERS = 20
MARK = re.compile(r'data-explain="([^"]+)"')
# Heads of columns of figures, names of single figures, rows of figures of what is compared.
FIGURES = ", ".join(
    (
        "thead th.number:not(.of-subject)",
        "thead th[colspan]",
        "dl.figures dt",
        ".subject-table tbody tr:has(td.number) > th",
        "[data-explain]",
    )
)
WITHOUT = """(figures) => [...document.querySelectorAll(figures)]
    .filter((one) => one.checkVisibility() && !one.querySelector(".about"))
    .map((one) => one.outerHTML.slice(0, 200))"""
TEXTS = """() => [...document.querySelectorAll("main .about")].map((button) => {
    button.click();
    const shown = document.querySelector("#explanation:popover-open");
    const [title, text, unit] = shown ? [...shown.children].map((part) => part.textContent) : [];
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.click();
    return { name: button.dataset.about, title, text, unit, isOpen };
})"""


@pytest.fixture(scope="module")
def addresses(service: Service) -> dict[str, str]:
    """Return the addresses of all pages that have figures, of two ended runs and a batch."""
    graph = posted_graph(service)
    run, other = (posted_run(service, graph, seed=seed) for seed in (0, 1))
    body = {"graphs": [graph], "meshes": ["dgx-h100"], "seeds": [0], "budget": {"evaluations": 2000}}
    batch = service.post("/v1/batches", json=body)["id"]
    assert {service.wait_for_run(each)["status"] for each in (run, other)} == {"succeeded"}
    plans = [plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]]
    return {
        "runs": "/",
        "run": f"/runs/{run}",
        "plan": f"/plans/{plans[0]}",
        "program": f"/graphs/{graph}",
        "compared plans": f"/compare?plans={plans[0]},{plans[-1]}",
        "compared runs": f"/compare?runs={run},{other}",
        "batches": "/batches",
        "batch": f"/batches/{batch}",
        "rules": "/rules",
        "mesh": "/devices?mesh=dgx-h100",
        "device": "/devices?device=h100-sxm5-80gb",
        "layouts": "/layouts",
        "new run": "/runs/new",
    }


def test_every_figure_of_every_page_is_explained(
    service: Service, addresses: dict[str, str], visit: Open
) -> None:
    missing: dict[str, list[str]] = {}
    for name, address in addresses.items():
        page = visit(service, address)
        page.wait_for_load_state("networkidle")
        if name == "plan":  # sections that are loaded once they are near, and figures that come with a choice
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
        missing[name] = page.evaluate(WITHOUT, FIGURES)
        found = page.evaluate(TEXTS)
        assert found, f"{name} explains nothing"
        for each in found:
            assert each["isOpen"] and each["title"] and each["unit"].removeprefix("Unit: "), each
            assert len(each["text"]) >= LEAST_LETTERS and each["text"].endswith("."), each
    assert not any(missing.values()), missing


def test_an_explanation_is_opened_and_closed_by_keys_clicks_and_touch(
    service: Service, addresses: dict[str, str], visit: Open
) -> None:
    page = visit(service, addresses["run"], width=390)
    expect(page.locator("#run")).not_to_have_attribute("inert", "")
    buttons = page.locator(".progress-card .about")
    shown = page.locator("#explanation")
    hypervolume = buttons.nth(5)
    hypervolume.focus()
    page.keyboard.press("Enter")
    expect(shown).to_contain_text("The share of the objective space")
    expect(hypervolume).to_have_attribute("aria-expanded", "true")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = shown.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(hypervolume).to_be_focused()
    expect(hypervolume).to_have_attribute("aria-expanded", "false")

    searched, evaluations = buttons.nth(0), buttons.nth(1)
    evaluations.click()
    expect(shown).to_contain_text("candidate plans")
    searched.click()  # beside it
    expect(shown).to_contain_text("How long the search has run")
    searched.click()
    expect(shown).to_be_hidden()
    evaluations.click()
    page.get_by_role("heading", level=1).click()
    expect(shown).to_be_hidden()
    evaluations.click()
    page.keyboard.press("Tab")
    expect(shown).to_be_hidden()


def test_all_explanations_that_templates_name_are_there() -> None:
    texts = (STATIC / "scripts" / "explanations.js").read_text()
    known = {
        quoted or plain for quoted, plain in re.findall(r'^  (?:"([^"]+)"|([\w-]+)): \[', texts, re.MULTILINE)
    }
    templates = STATIC.parent / "templates"
    named = [name for path in templates.glob("*.html") for name in MARK.findall(path.read_text())]
    assert len(named) > 20 and len(known) > 80
    assert [name for name in named if name.lower() not in known] == []
