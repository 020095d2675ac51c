"""Tests of whole journeys: from an empty installation to a chosen, explained, exported plan, by clicks, and by keys."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.drawing import drag_along_the_first_axis
from tests.service.dashboard.keyboard import Keyboard
from tests.service.dashboard.test_demo import COMPILING_MS, shorten
from tests.service.processes import Service

pytestmark = pytest.mark.slow

WAIT_MS = 60_000
RUN = re.compile(r"/runs/[0-9a-f]{12}")
Plans = list[dict[str, Any]]


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Service]:
    """Start a service that has nothing yet."""
    with Service(f"sqlite:///{tmp_path / 'tapestry.db'}", tmp_path / "log") as running:
        yield running


def demo_has_ended(service: Service, page: Page) -> Plans:
    """Wait until the demo leads to its run, which has ended, and return its plans."""
    page.wait_for_url(RUN, timeout=COMPILING_MS)
    expect(page.locator("#status")).to_have_text("succeeded")
    (run,) = service.get("/v1/runs")["items"]
    plans: Plans = service.get(f"/v1/runs/{run['id']}/frontier")["plans"]
    expect(page.locator("#plans tbody tr")).to_have_count(len(plans))
    assert len(plans) > 3
    return plans


def smallest_within(plans: Plans, limit_s: float) -> dict[str, Any]:
    """Return the plan with the smallest peak memory of those that take at most `limit_s`."""
    held = [plan for plan in plans if plan["cost"]["time_s"] <= limit_s]
    assert 0 < len(held) < len(plans), "the bound leaves some plans out"
    return min(held, key=lambda plan: plan["cost"]["peak_memory_bytes"])


def drag_down_to_the_middle(page: Page) -> float:
    """Bound the time by dragging along its axis, and return the bound in seconds, which the address has."""
    drag_along_the_first_axis(page, 0.8, 0.6, 0.5)
    expect(page.locator("#held")).to_contain_text("within the bounds")
    return float(page.url.partition("in.time_s=..")[2].partition("&")[0])


def is_explained(service: Service, page: Page, plan: dict[str, Any]) -> None:
    """Check what the page explains of a plan against what the service computes of it."""
    steps = service.get(f"/v1/plans/{plan['id']}/explanation")["steps"]
    expect(page.locator(".effects tbody tr")).to_have_count(len(steps) + 2, timeout=WAIT_MS)
    expect(page.locator(".effects tbody tr").last).to_contain_text("this plan")
    for words in service.get(f"/v1/plans/{plan['id']}/sharding")["words"]["sentences"]:
        expect(page.locator("#sharding-words")).to_contain_text(words["text"])
    largest = service.get(f"/v1/plans/{plan['id']}/memory")["peak"]["live"][0]
    expect(page.locator("#memory-words")).to_contain_text(f"The largest there is {largest['buffer']} with")


def is_answered(service: Service, page: Page, plan: dict[str, Any], block: str) -> None:
    """Check why a block is not placed otherwise."""
    found = service.get(f"/v1/plans/{plan['id']}/alternatives?block={block}")
    rows = page.locator("#why-not-table tbody tr")
    expect(rows).to_have_count(1 + len(found["alternatives"]), timeout=WAIT_MS)
    expect(rows.nth(1)).to_contain_text(found["alternatives"][0]["verdict"])


def are_exports_of(service: Service, plan: dict[str, Any], files: dict[str, str]) -> None:
    """Check saved files: programs that Python can read, for this plan, and all of its costs."""
    for name, library in (("jax", "jax"), ("torch", "torch")):
        module = ast.parse(files[name])
        assert f"Plan {plan['plan']} for dgx-h100" in str(ast.get_docstring(module))
        imported = {each.name.partition(".")[0] for each in names_imported(module)}
        assert library in imported and "tapestry" not in imported
    rows = {row["objective"]: row for row in csv.DictReader(files["csv"].splitlines())}
    assert {name: float(rows[name]["predicted"]) for name in plan["cost"]} == plan["cost"]
    counted = service.get(f"/v1/plans/{plan['id']}")["verified"]["memory"]["counted"]
    assert float(rows["peak_memory_bytes"]["counted"]) == counted


def names_imported(module: ast.Module) -> Iterator[ast.alias]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from node.names
        elif isinstance(node, ast.ImportFrom):
            yield ast.alias(node.module or "")


def saved(page: Page, tmp_path: Path, act: Callable[[], None]) -> str:
    """Return the text of the file that an act saves."""
    with page.expect_download() as download:
        act()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    return (tmp_path / download.value.suggested_filename).read_text()


def test_by_clicks_from_a_first_visit_to_an_exported_plan(
    empty: Service, visit: Open, tmp_path: Path
) -> None:
    page = visit(empty, "/", before=shorten)
    page.get_by_role("button", name="Run the demo").click()
    plans = demo_has_ended(empty, page)
    page.get_by_role("button", name="Leave the tour").click()

    # Chosen: of the plans in the faster part, the one with the smallest peak memory.
    plan = smallest_within(plans, drag_down_to_the_middle(page))
    rows = page.locator("#plans tbody tr")
    page.locator("#plans thead [data-key=peak_memory_bytes]").click()
    expect(rows.first).to_have_attribute("data-plan", plan["id"])
    frontier = saved(page, tmp_path, page.get_by_role("button", name="CSV of Plans").click)
    assert plan["id"] in {row["plan"] for row in csv.DictReader(frontier.splitlines())}
    rows.first.get_by_role("link").click()
    page.wait_for_url(f"**/plans/{plan['id']}")

    # Explained: what the moves changed, and why a block is not placed otherwise.
    page.get_by_role("button", name="What each move changed").click()
    page.locator("#memory").scroll_into_view_if_needed()
    is_explained(empty, page, plan)
    block = next(iter(empty.get(f"/v1/plans/{plan['id']}")["placements"]["blocks"]))
    page.locator("#why-not-block").click()
    page.keyboard.type(block)
    page.locator("#why-not").get_by_role("button", name="Show").click()
    is_answered(empty, page, plan, block)

    # Exported.
    page.get_by_role("link", name="Export", exact=True).click()
    files = {}
    for name in ("jax", "torch", "csv"):
        button = page.locator("#exports").get_by_role("button", name=name, exact=True)
        files[name] = saved(page, tmp_path, button.click)
    are_exports_of(empty, plan, files)


def test_by_keys_from_a_first_visit_to_an_exported_plan(empty: Service, visit: Open, tmp_path: Path) -> None:
    page = visit(empty, "/", before=shorten)
    keys = Keyboard(page)

    def enter(target: Locator) -> None:
        keys.go_to(target)
        keys.press("Enter")

    expect(page.get_by_role("button", name="Run the demo")).to_be_enabled()
    keys.go_around()
    enter(page.get_by_role("button", name="Run the demo"))
    plans = demo_has_ended(empty, page)
    expect(page.get_by_role("dialog")).to_be_focused()
    keys.press("Escape")  # leaves the tour
    assert keys.go_around() > 2 * len(plans)  # each has a link and a box

    # Chosen: a bound on the time, then the smallest peak memory.
    times = sorted(plan["cost"]["time_s"] for plan in plans)
    field = page.get_by_label(re.compile("^time, at most"))
    keys.go_to(field)
    unit = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[str(field.get_attribute("aria-label")).split(", ")[-1]]
    middle = f"{(times[len(times) // 2] + times[len(times) // 2 + 1]) / 2 / unit:.6f}"
    keys.enter(middle)
    keys.press("Enter")
    plan = smallest_within(plans, float(middle) * unit)
    rows = page.locator("#plans tbody tr")
    enter(page.locator("#plans thead [data-key=peak_memory_bytes]"))
    expect(rows.first).to_have_attribute("data-plan", plan["id"])
    enter(rows.first.get_by_role("link"))
    page.wait_for_url(f"**/plans/{plan['id']}")

    # Explained: why a block is not placed otherwise, and what the moves changed.
    expect(page.locator("#plan")).not_to_have_attribute("inert", "")
    keys.go_around()
    block = next(iter(empty.get(f"/v1/plans/{plan['id']}")["placements"]["blocks"]))
    keys.go_to(page.locator("#why-not-block"))
    keys.enter(block)
    keys.press("Enter")
    is_answered(empty, page, plan, block)
    enter(page.get_by_role("button", name="What each move changed"))
    is_explained(empty, page, plan)

    # Exported, on the way back.
    files = {}
    for name in ("csv", "jax", "torch"):
        keys.go_to(page.locator("#exports").get_by_role("button", name=name, exact=True), "Shift+Tab")
        files[name] = saved(page, tmp_path, lambda: keys.press("Enter"))
    are_exports_of(empty, plan, files)
    keys.go_to(page.locator("#search"), "Shift+Tab")  # above it is a table whose heads stay
