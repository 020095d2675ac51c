"""Tests of the page that compares: runs and plans beside each other, with one cursor and one thing pointed out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service, eventually
from tests.service.programs import finished_run, two_layers


@pytest.fixture(scope="module")
def runs(service: Service) -> list[str]:
    """Search a program from two seeds."""
    store = Store(service.database_url)
    graph = store.runs.get(store.runs.save_finished(finished_run(two_layers("small")))).graph_id
    store.close()
    found = []
    for seed in range(2):
        budget = {"budget": {"seconds": None, "evaluations": 2000}, "verify": "none", "islands": 1}
        request = {"graph_id": graph, "mesh": "dgx-h100", "seed": seed, "fresh": True, **budget}
        request["objectives"] = ["time_s", "peak_memory_bytes"]
        found.append(str(service.post("/v1/runs", json=request)["id"]))
    for run in found:
        eventually(lambda run=run: service.get(f"/v1/runs/{run}")["status"] == "succeeded", 120, "it ends")  # type: ignore[misc]
    return found


@pytest.fixture
def store(service: Service) -> Iterator[Store]:
    opened = Store(service.database_url)
    yield opened
    opened.close()


def test_runs_are_compared_on_common_axes_and_one_scale(
    service: Service, visit: Open, runs: list[str]
) -> None:
    page = visit(service, f"/compare?runs={','.join(runs)}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 runs")
    expect(page.locator("#subjects a")).to_have_text(runs)
    found = service.get(f"/v1/comparisons/runs?run={runs[0]}&run={runs[1]}")
    points = sum(len(run["points"]) for run in found["runs"])
    expect(page.locator("#frontiers canvas")).to_have_attribute(
        "aria-label", re.compile(f"^{points} plans of 2 runs")
    )
    expect(page.locator("#hypervolume canvas")).to_have_attribute("aria-label", re.compile(runs[1]))
    expect(page.locator("#best tbody tr").filter(has_text="hypervolume")).to_contain_text(
        f"{found['runs'][0]['hypervolume']:.4f}"[:5]
    )
    expect(page.locator("#options")).to_contain_text("Seed")
    page.locator("#y").select_option("time_s")
    assert "y=time_s" in page.url and f"runs={','.join(runs)}" in page.url
    page.locator("#frontiers canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#frontiers .tooltip")).to_contain_text("plan ")
    expect(page.locator("#subjects li.is-pointed")).to_have_count(1)
    expect(page.locator("#best .is-pointed").first).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/plans/[0-9a-f]{12}-"))


def test_what_is_pointed_out_in_one_view_is_pointed_out_in_all(
    service: Service, visit: Open, runs: list[str]
) -> None:
    page = visit(service, f"/compare?runs={','.join(runs)}")
    page.locator("#best td.of-subject").nth(1).hover()
    expect(page.locator("#subjects li").nth(1)).to_have_class("is-pointed")
    marked = page.locator("#options .is-pointed")
    expect(marked.first).to_be_visible()
    assert set(marked.evaluate_all("cells => cells.map((cell) => cell.dataset.subject)")) == {"1"}
    page.locator("#subjects a").nth(0).focus()
    expect(page.locator("#subjects li").nth(0)).to_have_class("is-pointed")


def test_plans_are_compared_with_one_cursor_over_memory_and_timelines(
    service: Service, visit: Open, store: Store, runs: list[str]
) -> None:
    plans = store.runs.frontier(runs[0])
    ids = [f"{runs[0]}-{plan.id}" for plan in (plans[0], plans[-1])]
    assert ids[0] != ids[1]
    page = visit(service, f"/plans/{ids[1]}")
    page.get_by_role("link", name="Compare with the fastest").click()
    expect(page.locator("#subjects a")).to_have_text([plans[0].id, plans[-1].id])
    expect(page.locator("#costs tbody tr").first.locator(".best")).to_have_count(1)
    expect(page.locator("#decisions tbody tr").first).to_be_visible()
    canvas = page.locator("#memory-curves canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("at most"))
    expect(page.locator("#timelines canvas")).to_have_count(2)
    expect(page.locator("#moments")).to_contain_text("lives at the peak")
    before = page.locator("#timelines canvas").evaluate_all("all => all.map((one) => one.toDataURL())")
    canvas.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#moments")).to_contain_text("lives at ")
    expect(page.locator("#moments")).to_contain_text("runs")
    eventually(
        lambda: (
            page.locator("#timelines canvas").evaluate_all("all => all.map((one) => one.toDataURL())")[1]
            != before[1]
        ),
        10,
        "the cursor is in the other views",
    )
    page.locator("#memory-menu summary").click()
    with page.expect_download() as download:
        page.locator("#memory-menu button", has_text="CSV").click()
    rows = [row.split(",") for row in download.value.path().read_text().splitlines()]
    assert rows[0] == ["time (s)", "series", "live (B)"]
    assert {row[1] for row in rows[1:]} == {plans[0].id, plans[-1].id}
    page.get_by_label("search").fill("nothing")
    expect(page.locator("#decisions")).to_contain_text("None is like that.")


def test_what_cannot_be_compared_is_explained(service: Service, visit: Open, runs: list[str]) -> None:
    page = visit(service, "/compare?runs=a,b", expected=("status of 422",), width=390)
    notice = page.locator("#trouble .notice")
    expect(notice).to_contain_text("run 1: ")
    expect(notice).to_contain_text("run 2: ")
    expect(notice).not_to_contain_text("#query")
    expect(notice.locator("li")).to_have_count(0)  # the faults stand above already
    page.goto(f"{service.address}/compare?runs={runs[0]}")
    expect(notice).to_contain_text("1 run cannot be compared: choose at least two.")
    page.get_by_label("Ids, separated").fill(" ".join(runs))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 runs")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_three_can_become_two(service: Service, visit: Open, store: Store, runs: list[str]) -> None:
    third = store.runs.save_finished(replace(finished_run(two_layers("another")), verified={}, executions={}))
    page = visit(service, f"/compare?runs={','.join([*runs, third])}")
    expect(page.locator("#subjects li")).to_have_count(3)
    expect(page.locator("#notes")).to_contain_text("these runs are of different programs")
    expect(page.locator("#best .best")).to_have_count(0)
    page.get_by_role("button", name=f"Leave {third} out").click()
    page.wait_for_url(f"**/compare?runs={','.join(runs)}")
    expect(page.locator("#notes")).not_to_contain_text("different programs")


def test_plans_are_selected_in_the_table_of_a_run(service: Service, visit: Open, runs: list[str]) -> None:
    page = visit(service, f"/runs/{runs[0]}")
    tray = page.get_by_role("region", name="Selected plans")
    boxes = page.locator("#plans").get_by_role("checkbox")
    expect(boxes.first).to_be_visible()
    expect(tray).to_be_hidden()
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    expect(tray).to_contain_text("1 selected")
    expect(tray.get_by_text("Compare")).to_have_attribute("aria-disabled", "true")
    chosen = page.locator("#plans tbody tr").nth(0).get_attribute("data-plan")
    page.locator("#plans thead [data-key=plan]").click()
    expect(page.locator(f'#plans tr[data-plan="{chosen}"] input')).to_be_checked()
    other = page.locator(f'#plans tbody tr:not([data-plan="{chosen}"])').first
    other.get_by_role("checkbox").check()
    expect(tray).to_contain_text("2 selected")
    ids = f"{chosen},{other.get_attribute('data-plan')}"
    expect(tray.get_by_role("link", name="Compare")).to_have_attribute("href", f"/compare?plans={ids}")
    tray.get_by_role("button", name="Clear").click()
    expect(tray).to_be_hidden()
    expect(page.locator("#plans input:checked")).to_have_count(0)
    boxes.nth(0).check()
    boxes.nth(1).check()
    tray.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 plans")
