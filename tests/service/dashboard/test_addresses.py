"""Tests that the address of a page has its view: what was chosen is there again after a reload, and for others."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(service: Service) -> str:
    """Return the id of an ended run."""
    found = posted_run(service, posted_graph(service))
    assert service.wait_for_run(found)["status"] == "succeeded"
    return found


def parameters(page: Page) -> dict[str, str]:
    return dict(part.split("=") for part in page.url.partition("#")[0].partition("?")[2].split("&") if part)


def test_the_address_of_a_run_has_its_view(service: Service, run: str, visit: Open) -> None:
    page = visit(service, f"/runs/{run}?x=nothing&sort=nothing&whole=nothing&over=nothing")
    expect(page.locator("#run")).not_to_have_attribute("inert", "")
    assert page.locator("#over").input_value() == "seconds"
    page.goto(f"{service.address}/runs/{run}")
    page.locator("#over").select_option("evaluations")
    page.locator("#rules-over-time").check()
    page.locator("#all-costs").check()
    page.get_by_text("scatter matrix").click()
    page.locator("#x").select_option("energy_j")
    heads = page.locator("#plans thead")
    for _ in range(2):
        heads.locator("button[data-key=peak_memory_bytes]").click()
    chosen = {
        "over": "evaluations",
        "rules": "1",
        "costs": "1",
        "whole": "matrix",
        "sort": "-peak_memory_bytes",
    }
    assert chosen.items() <= parameters(page).items() and parameters(page)["x"] == "energy_j"
    order = page.locator("#plans tbody tr").evaluate_all("(rows) => rows.map((row) => row.dataset.plan)")

    other = visit(service, page.url.removeprefix(service.address))
    expect(other.locator("#matrix canvas")).to_be_visible()
    expect(other.locator("#parallel")).to_be_hidden()
    expect(other.locator("#rules-time")).to_be_visible()
    for control, value in {"over": "evaluations", "x": "energy_j"}.items():
        expect(other.locator(f"#{control}")).to_have_value(value)
    expect(other.locator("#plans thead button[data-key=price_usd]")).to_be_visible()
    rows = other.locator("#plans tbody tr")
    expect(rows).to_have_count(len(order))
    assert rows.evaluate_all("(rows) => rows.map((row) => row.dataset.plan)") == order

    other.get_by_text("parallel coordinates").click()
    other.locator("#over").select_option("seconds")
    other.locator("#rules-over-time").uncheck()
    assert not {"whole", "over", "rules"} & parameters(other).keys()  # usual choices are not in the address


def test_the_address_of_a_plan_has_its_view(service: Service, run: str, visit: Open) -> None:
    plan = service.get(f"/v1/runs/{run}/frontier")["plans"][0]
    page = visit(service, f"/plans/{plan['id']}")
    page.locator("#sharding").scroll_into_view_if_needed()
    site = page.locator("#sharding-sites option").nth(2).get_attribute("value")
    tensor = page.locator("#sharding-tensors option").nth(1).get_attribute("value")
    assert site and tensor
    page.locator("#sharding-site").fill(site)
    page.locator("#sharding-site").press("Enter")
    page.locator("#sharding-tensor").fill(tensor)
    page.locator("#sharding-tensor").press("Enter")
    page.locator("#matrix-by").select_option("class")
    page.locator("#coloring").select_option("flops")
    page.locator("#search").fill("hidden")
    page.locator("#fold").uncheck()
    page.locator("#execution").scroll_into_view_if_needed()
    page.locator("#timeline-tables").get_by_text("kinds", exact=True).click()
    page.locator("#critical").uncheck()
    page.locator("#memory").scroll_into_view_if_needed()
    page.locator("#memory-role").select_option(index=1)
    role = page.locator("#memory-role").input_value()
    page.locator("#why-not-tied").check()
    page.locator("#why-not-block").fill("hidden")
    page.locator("#why-not-block").press("Enter")
    expect(page.locator("#why-not-table tbody tr").first).to_be_visible()
    assert page.url.endswith("#block=hidden")

    page.reload()
    expect(page.locator("#why-not-table tbody tr").first).to_be_visible()
    expect(page.locator("#sharding-tensor")).to_have_value(tensor)
    expect(page.locator("#sharding-site")).to_have_value(site)
    expect(page.locator("#selected-block h3")).to_have_text(site)
    values = {"matrix-by": "class", "coloring": "flops", "search": "hidden", "why-not-block": "hidden"}
    for control, value in values.items():
        expect(page.locator(f"#{control}")).to_have_value(value)
    expect(page.locator("#why-not-tied")).to_be_checked()
    expect(page.locator("#fold")).not_to_be_checked()
    expect(page.locator("#critical")).not_to_be_checked()
    expect(page.locator("#decision-count")).to_contain_text(" of ")
    page.locator("#execution").scroll_into_view_if_needed()
    expect(page.locator("[name=longest][value=kinds]")).to_be_checked()
    page.locator("#memory").scroll_into_view_if_needed()
    expect(page.locator("#memory-role")).to_have_value(role)


def test_the_addresses_of_other_pages_have_their_views(service: Service, run: str, visit: Open) -> None:
    first, *_, last = (plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"])
    page = visit(service, f"/compare?plans={first},{last}")
    page.locator("#all-costs").check()
    page.get_by_label("search").fill("nowhere")
    page.reload()
    expect(page.locator("#all-costs")).to_be_checked()
    expect(page.locator("#costs tbody tr.muted").first).to_be_visible()
    expect(page.get_by_label("search")).to_have_value("nowhere")
    assert page.url.partition("?")[2] == f"plans={first},{last}&costs=1&decisions=nowhere"

    page = visit(service, "/layouts")
    page.locator("#at").fill("1, 1")
    page.get_by_role("button", name="Describe").click()
    expect(page.locator("#figures")).to_contain_text("at offset")
    page.reload()
    expect(page.locator("#at")).to_have_value("1,1")
    expect(page.locator("#figures")).to_contain_text("[1, 1] at offset")

    graph = service.get(f"/v1/runs/{run}")["graph_id"]
    page = visit(service, f"/graphs/{graph}?color=bytes&site=hidden&parameters=1")
    expect(page.locator("#selected-block h3")).to_have_text("hidden")
    expect(page.locator("#coloring")).to_have_value("bytes")
    expect(page.locator("#parameters")).to_be_checked()
    expect(page.locator("#legend")).to_contain_text("B")
