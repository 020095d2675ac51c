"""Tests of figures and names for people: the texts that scripts write, in the browser that runs them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tapestry.service.dashboard import STATIC
from tapestry.service.plan_differences import name_without_numbers
from tapestry.teg.readable import column, quantity


def source_of(name: str) -> str:
    """Return a script as one without imports and exports, for a page that has what it imports."""
    lines = (STATIC / "scripts" / name).read_text().splitlines(keepends=True)
    return "".join(line.removeprefix("export ") for line in lines if not line.startswith("import "))


SOURCE = source_of("units.js") + source_of("site-names.js")


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """Open a page that has the module's functions."""
    found = browser.new_page()
    found.add_script_tag(content=SOURCE)
    return found


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (0.002684779971, "s"),
        (1.5, "s"),
        (0.0000071, "s"),
        (436086272, "B"),
        (1023, "B"),
        (80e9, "B"),
        (0, "B"),
        (295590339584, "flop"),
        (4.521905316016, "J"),
        (0.000028783507, "USD"),
        (1234567, ""),
        (0, "s"),
        (7, ""),
        (0.25, ""),
        (7.8e-4, ""),
        (0.3, "B"),
        (999.96, "J"),
        (2e-8, "USD"),
        (1e300, "J"),
        (4.2e-12, "J s"),
    ],
)
def test_quantities_are_those_of_the_command_line(page: Page, value: float, unit: str) -> None:
    shown = page.evaluate("([value, unit]) => quantity(value, unit)", [value, unit])
    assert shown == quantity(value, unit).replace(" us", " µs").replace(" uUSD", " µUSD")


def test_a_column_has_one_unit_and_equally_many_decimals(page: Page) -> None:
    texts = """() => {
      const values = [0.0026, 0.0125, 0.00004];
      const scale = column(values, "s");
      return [scale.name, values.map(scale.write)];
    }"""
    assert page.evaluate(texts) == ["ms", ["2.60", "12.50", "0.04"]]


@pytest.mark.parametrize(
    "values", [[7.8e-4, 8.125e-4, 0], [0.25, 4e-5, 0], [0.12, 2e-6], [5, 700], [5, 0.5], [3 * 2**30, 1]]
)
@pytest.mark.parametrize("unit", ["", "J"])
def test_columns_are_those_of_the_command_line(page: Page, values: list[float], unit: str) -> None:
    shown = page.evaluate(
        "([values, unit]) => { const c = column(values, unit); return [c.name, values.map(c.write)]; }",
        [values, unit],
    )
    name, texts = column(values, unit)
    assert shown == [name.replace("uJ", "µJ"), texts]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.21, "3.2 s"), (59, "59 s"), (60, "1 min"), (250, "4 min 10 s"), (7500, "2 h 5 min"), (3599.9, "1 h")],
)
def test_durations(page: Page, seconds: float, text: str) -> None:
    assert page.evaluate("duration", seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (7e-6, "< 0.1 %"), (0.0049, "0.5 %"), (0.31, "31 %")],
)
def test_shares(page: Page, share: float, text: str) -> None:
    assert page.evaluate("percent", share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "59 s ago"), (3599, "59 min ago"), (90000, "yesterday"), (200000, "2 days ago")],
)
def test_ages(page: Page, seconds: int, text: str) -> None:
    now = "Date.parse('2026-01-02T12:00:00Z')"
    assert page.evaluate(f"s => age('2026-01-02T12:00:00Z', {now} + 1000 * s)", seconds) == text


@pytest.mark.parametrize(
    ("script", "call", "text"),
    [
        ("cost-table.js", "comparison(1535172)", "over × 1,000"),
        ("cost-table.js", "comparison(12.3)", "× 12"),
        ("drawing/changes-section.js", "difference(1e9, 1e9 - 7)", "−less than 0.001 %"),
        ("drawing/changes-section.js", "difference(1000, 1100)", "+10.0 %"),
    ],
)
def test_comparisons(browser: Browser, script: str, call: str, text: str) -> None:
    page = browser.new_page()
    page.add_script_tag(content=source_of("units.js") + source_of(script))
    assert page.evaluate(call) == text
    page.close()


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("h.3.mlp", "h.*.mlp"),
        ("node_add_7", "node_add"),
        ("node_add", "node_add"),
        ("node_addmm_8.bias~fused.47b02026", "node_addmm.bias~fused"),
        ("node_addmm_12.bias~fused.17ba778d", "node_addmm.bias~fused"),
        ("m.transformer.h.10.attn.c_attn.weight", "m.transformer.h.*.attn.c_attn.weight"),
    ],
)
def test_equal_layers_have_one_name_as_in_comparisons(page: Page, site: str, name: str) -> None:
    assert page.evaluate("site => nameWithoutNumbers(site)", site) == name == name_without_numbers(site)
