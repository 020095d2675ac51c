"""Tests that figures explain themselves: on every page each has a button, and what that says is no empty text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tapestry.service.dashboard import STATIC
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.whole_pages import whole_page
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
# Beside these: names of facts with a number, except sentences and code, and rows of tables in whose columns figures
# have different units, unless the rows are named by their explanations.
WITHOUT = """(figures) => {
    const units = (cells) => new Set(cells.map((cell) => cell.dataset.unit));
    const isMixed = (table) => [...table.tHead.rows[0].cells].some((_, k) =>
        units([...table.tBodies[0].rows].flatMap((row) => row.cells[k]?.dataset.value ? [row.cells[k]] : [])).size > 1);
    const facts = [...document.querySelectorAll("dl.facts dt:not(#sharding-words *, :has(+ dd code))")]
        .filter((one) => /\\d/.test(one.nextElementSibling.innerText));
    const tables = [...document.querySelectorAll("main table:not(.figure-table, .subject-table, .effects)")]
        .filter(isMixed);
    const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody th[scope=row]")]);
    return [...document.querySelectorAll(figures), ...facts, ...rows]
        .filter((one) => one.checkVisibility() && !one.querySelector(".about"))
        .map((one) => one.outerHTML.slice(0, 200) + (one.nextElementSibling?.innerText ?? ""));
}"""
TEXTS = """() => [...document.querySelectorAll("main .about")].map((button) => {
    button.click();
    const shown = document.querySelector("#explanation:popover-open");
    const [title, text, unit] = shown ? [...shown.children].map((part) => part.textContent) : [];
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.click();
    return { name: button.dataset.about, title, text, unit, isOpen };
})"""


def test_every_figure_of_every_page_is_explained(
    service: Service, addresses: dict[str, str], visit: Open
) -> None:
    missing: dict[str, list[str]] = {}
    for name, address in addresses.items():
        page = whole_page(visit, service, name, address)
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
