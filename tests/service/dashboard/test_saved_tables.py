"""Tests that every table of figures is saved as CSV, with the values of the API in base units."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from benchmarks.dashboard_runs import LiveRuns
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.whole_pages import whole_page
from tests.service.processes import Service
from tests.service.programs import NOON, costed_run, finished_run, two_layers

pytestmark = pytest.mark.slow

RUNS = 27
PER_PAGE = 25

UNSAVED = """() => [...document.querySelectorAll("main table")].flatMap((table) => {
    if (!table.checkVisibility()) return [];
    const [button, ...others] = table.querySelectorAll("thead .csv");
    const isNamed = table.ariaLabel && button?.ariaLabel === `CSV of ${table.ariaLabel}`;
    return isNamed && !others.length ? [] : [table.outerHTML.slice(0, 300)];
})"""
# Figures without a value for the file, but for tables of which the file has more than is shown.
WORTHLESS = """(own) => [...document.querySelectorAll("main td.number")].filter((cell) =>
    /\\d/.test(cell.innerText) && cell.dataset.value === undefined && !own.includes(cell.closest("table").ariaLabel))
    .map((cell) => cell.outerHTML.slice(0, 200))"""
OWN_FILES = ["Runs", "Plans", "Batches", "Entries"]
# Every file of the page at once, by its button: browsers save at most ten in a row.
FILES = """async () => {
    const parts = [];
    const original = URL.createObjectURL;
    URL.createObjectURL = (blob) => (parts.push(blob), original.call(URL, blob));
    const found = {};
    for (const button of document.querySelectorAll("main .csv")) if (button.checkVisibility()) {
        parts.length = 0;
        button.click();
        while (!parts.length) await new Promise((resolve) => setTimeout(resolve, 10));
        found[button.ariaLabel] = [...(found[button.ariaLabel] ?? []), await parts[0].text()];
    }
    URL.createObjectURL = original;
    return found;
}"""


def parsed(text: str) -> list[dict[str, str]]:
    """Parse a file: heads that differ, and rows of as many cells."""
    heads, *rows = csv.reader(io.StringIO(text))
    assert len(set(heads)) == len(heads) and all(heads), heads
    return [dict(zip(heads, row, strict=True)) for row in rows]


def saved(page: Page, label: str, name: str) -> list[dict[str, str]]:
    """Save the table of that label as a file of that name by keys, and read it."""
    button = page.get_by_role("button", name=f"CSV of {label}", exact=True)
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == name
    return parsed(download.value.path().read_text())


@pytest.fixture
def store(idle_service: Service) -> Iterator[Store]:
    opened = Store(idle_service.database_url)
    yield opened
    opened.close()


def test_every_table_of_every_page_is_saved(service: Service, addresses: dict[str, str], visit: Open) -> None:
    for name, address in addresses.items():
        page = whole_page(visit, service, name, address)
        assert page.evaluate(UNSAVED) == [], name
        assert page.evaluate(WORTHLESS, OWN_FILES) == [], name
        for label, texts in page.evaluate(FILES).items():
            assert len(texts) == 1, f"{label} are two buttons of {name}"
            assert parsed(texts[0]), label


def test_all_runs_that_match_are_saved_not_the_page_alone(
    idle_service: Service, store: Store, visit: Open
) -> None:
    for k in range(RUNS):
        run = replace(finished_run(two_layers("kept")), created_at=NOON + timedelta(hours=k), executions={})
        store.runs.save_finished(run)
    store.runs.save_finished(finished_run(two_layers("another")))
    page = visit(idle_service, "/?q=kept&sort=created")
    expect(page.locator(".runs-table tbody tr")).to_have_count(PER_PAGE)
    rows = saved(page, "Runs", "runs.csv")
    answer = idle_service.get("/v1/runs?q=kept&sort=created&limit=200")
    assert [row["run"] for row in rows] == [run["id"] for run in answer["items"]]
    assert len(rows) == RUNS and {row["program"] for row in rows} == {"kept"}
    for row, run in zip(rows, answer["items"], strict=True):
        assert float(row["least time_s"]) == run["best"]["time_s"]
        assert int(row["least peak_memory_bytes"]) == run["best"]["peak_memory_bytes"]
        assert float(row["seconds"]) == run["seconds"] and int(row["plans"]) == run["front"]
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".runs-table tbody tr")).to_have_count(RUNS - PER_PAGE)
    assert saved(page, "Runs", "runs.csv") == rows


def test_rules_bounds_and_plans_of_a_run_are_saved_as_the_api_has_them(
    idle_service: Service, store: Store, visit: Open
) -> None:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    run = idle_service.get(f"/v1/runs/{run_id}")
    page = visit(idle_service, f"/runs/{run_id}")
    rules = saved(page, "Rules", f"{run_id}.rules.csv")
    assert {row["rule"]: {name: int(row[name]) for name in ("applied", "improved")} for row in rules} == run[
        "rule_statistics"
    ]
    (bound,) = saved(page, "Proven bounds", f"{run_id}.proven-bounds.csv")
    known = run["bounds"]["time_s"]
    assert bound["objective"] == "time"
    assert {
        name: float(bound[f"{name} ({unit})"])
        for name, unit in (("best", "s"), ("proven bound", "s"), ("gap", "share"))
    } == {
        "best": known["best"],
        "proven bound": known["bound"],
        "gap": known["gap"],
    }
    plans = idle_service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    rows = saved(page, "Plans", f"{run_id}.plans.csv")
    assert {row["plan"]: float(row["time_s"]) for row in rows} == {
        plan["id"]: plan["cost"]["time_s"] for plan in plans
    }


def test_accounts_and_times_of_a_plan_are_saved_as_the_api_has_them(
    idle_service: Service, store: Store, visit: Open
) -> None:
    run = costed_run(two_layers())
    plan_id = f"{store.runs.save_finished(run)}-{run.result.frontier[0].id}"
    plan = idle_service.get(f"/v1/plans/{plan_id}")
    schedule = idle_service.get(f"/v1/plans/{plan_id}/schedule")
    page = visit(idle_service, f"/plans/{plan_id}")
    page.locator("#execution").scroll_into_view_if_needed()
    accounts = saved(
        page,
        "Predicted, counted and measured costs",
        f"{plan_id}.predicted-counted-and-measured-costs.csv",
    )
    names = {"time": "time_s", "peak memory": "peak_memory_bytes", "traffic": "traffic_bytes"}
    assert {names[row["name"]]: float(row["predicted"]) for row in accounts if row["name"] in names} == {
        name: plan["cost"][name] for name in names.values()
    }
    assert {row["name"]: row["unit"] for row in accounts}.items() >= {"time": "s", "traffic": "B"}.items()
    longest = saved(page, "What takes longest", f"{plan_id}.what-takes-longest.csv")
    assert sorted(int(row["bytes (B)"]) for row in longest) == sorted(
        copy["traffic_bytes"] for copy in schedule["copies"]
    )
    costs = {row["name"]: row for row in saved(page, "Costs", f"{plan_id}.costs.csv")}
    assert float(costs["device memory"]["this plan"]) == plan["cost"]["device_memory_bytes"]


def test_a_failure_to_save_is_reported_beside_the_button(
    idle_service: Service, store: Store, visit: Open
) -> None:
    store.runs.save_finished(finished_run(two_layers("unread")))
    page = visit(idle_service, "/?q=unread", expected=("Failed to load resource",))
    expect(page.locator(".runs-table tbody tr")).to_have_count(1)
    page.route("**/v1/runs?*limit=200*", lambda route: route.abort())
    page.get_by_role("button", name="CSV of Runs").click()
    expect(page.locator(".runs-table thead [role=status]")).to_contain_text("Not saved: ")


def test_who_is_on_a_button_of_a_table_stays_there_while_the_run_goes_on(
    idle_service: Service, store: Store, visit: Open
) -> None:
    live = LiveRuns.begin(store, 1, kept=2)
    page = visit(idle_service, f"/runs/{live.ids[0]}")
    live.advance()
    expect(page.locator("#figure-evaluations")).to_have_text(f"{live.evaluations}")
    for place in ("#rules .csv", "#rules .about >> nth=-1", "#plans .csv", "#plans .about >> nth=0"):
        button = page.locator(place)
        button.focus()
        before = page.locator("#rules td").first.inner_text()
        live.advance()
        expect(page.locator("#figure-evaluations")).to_have_text(f"{live.evaluations}")
        expect(page.locator("#rules td").first).not_to_have_text(before)
        expect(button).to_be_focused()
