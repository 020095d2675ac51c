"""Tests of the lists of runs and batches: found, sorted, labeled and deleted by clicks, the state in the address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tapestry.service.store import NewBatchEntry, Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers
from tests.service.store.submissions import request_for

NAMES = ("encoder", "decoder", "classifier")


@pytest.fixture
def store(idle_service: Service) -> Iterator[Store]:
    opened = Store(idle_service.database_url)
    for run in opened.runs.page(200):
        if run.status == "succeeded":
            opened.deletions.run(run.id)
    yield opened
    opened.close()


@pytest.fixture
def runs(store: Store) -> dict[str, str]:
    """Store a run of each program, an hour apart, the later the faster."""
    found = {}
    for k, name in enumerate(NAMES):
        finished = finished_run(two_layers(name))
        plans = (plan_by_hand(two_layers(name), 3e-3 / (k + 1), 2**20 * (k + 1)),)
        result = replace(finished.result, frontier=plans)
        saved = replace(
            finished, result=result, created_at=NOON + timedelta(hours=k), verified={}, executions={}
        )
        found[name] = store.runs.save_finished(saved)
    return found


def test_runs_are_searched_sorted_and_filtered_in_the_address(
    idle_service: Service, visit: Open, store: Store, runs: dict[str, str]
) -> None:
    store.runs.change(runs["encoder"], tags=["good"], notes="the first\nof all")
    page = visit(idle_service, "/")
    names = page.locator("td.name > a")
    expect(names).to_have_text(list(NAMES[::-1]))
    page.locator("button[data-sort=time]").click()
    expect(page.get_by_role("columnheader", name="Least time")).to_have_attribute("aria-sort", "ascending")
    expect(names).to_have_text(list(NAMES[::-1]))
    page.locator("button[data-sort=time]").click()
    expect(names).to_have_text(list(NAMES))
    assert page.url.endswith("?sort=-time")
    page.get_by_label("Search", exact=True).fill("coder")
    expect(names).to_have_text(["encoder", "decoder"])
    page.locator("button.tag", has_text="good").click()
    expect(names).to_have_text(["encoder"])
    expect(page.locator(".note")).to_have_text("the first")
    assert sorted(page.url.partition("?")[2].split("&")) == ["q=coder", "sort=-time", "tag=good"]
    page.reload()
    expect(names).to_have_text(["encoder"])
    expect(page.get_by_label("Search", exact=True)).to_have_value("coder")
    page.get_by_label("Search", exact=True).fill("nothing")
    page.get_by_role("button", name="All runs").click()
    expect(names).to_have_text(list(NAMES))
    page.go_back()
    expect(page.locator("#none")).to_be_visible()


def test_a_row_has_least_values_and_a_curve(idle_service: Service, visit: Open, runs: dict[str, str]) -> None:
    page = visit(idle_service, "/?q=encoder", width=390)
    row = page.locator(f"tr[data-run='{runs['encoder']}']")
    expect(row.locator("td").nth(4)).to_have_text("3.000 ms")
    expect(row.locator("td").nth(5)).to_have_text("1.000 MiB")
    expect(row.get_by_role("img", name=re.compile("hypervolume 0.500 of 1"))).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_selected_runs_are_tagged_compared_and_deleted(
    idle_service: Service, visit: Open, store: Store, runs: dict[str, str]
) -> None:
    page = visit(idle_service, "/", expected=("status of 409",))
    for name in NAMES[:2]:
        page.get_by_role("checkbox", name=f"of {name}").check()
    expect(page.locator("#selected")).to_have_text("2 runs selected")
    expect(page.get_by_role("link", name="Compare")).to_have_attribute(
        "href", f"/compare?runs={runs['encoder']},{runs['decoder']}"
    )
    page.get_by_role("button", name="Tags and notes").click()
    page.get_by_label("Add tags").fill("mine, long run")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert store.runs.tags() == {"long run": 2, "mine": 2}
    expect(page.locator("button.tag")).to_have_text(["long run", "mine"] * 2)

    graph = store.runs.get(runs["decoder"]).graph_id
    execution = store.executions.submit(
        store.runs.frontier(runs["decoder"])[0].key, backend="dry", values=False, seed=None, created_at=NOON
    ).id
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#deleted-runs li")).to_have_text(
        [f"{name} on dgx-h100, 1 plan {runs[name]}" for name in NAMES[:2]]
    )
    page.locator("#confirm-deletion").click()
    expect(page.locator("#deletion-trouble")).to_contain_text(f"execution {execution} of a plan of run")
    expect(page.locator("#deleted-runs li")).to_have_text([f"decoder on dgx-h100, 1 plan {runs['decoder']}"])
    page.keyboard.press("Escape")
    expect(page.locator("td.name > a")).to_have_text(["classifier", "decoder"])
    expect(page.locator("#selected")).to_have_text("1 run selected")
    assert store.graphs.get(graph).name == "decoder"
    page.get_by_role("button", name="Tags and notes").click()
    expect(page.get_by_label("Tags", exact=True)).to_have_value("long run, mine")
    page.get_by_label("Notes", exact=True).fill("needed")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note")).to_have_text("needed")
    with store._database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM leases")
        connection.exec_driver_sql("DELETE FROM executions")


def test_a_batch_of_one_run_is_marked_and_has_its_least_values(
    idle_service: Service, visit: Open, store: Store, runs: dict[str, str]
) -> None:
    request = request_for(store.runs.get(runs["encoder"]).graph_id)
    store.batches.submit("single", [NewBatchEntry(request.graph_id, "dgx-h100", 0, request)], NOON)
    page = visit(idle_service, "/batches")
    row = page.get_by_role("row").filter(has_text="single").first
    expect(row.get_by_text("one run")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of Batches").click()
    assert download.value.path().read_text().startswith("batch,name,entries,queued,")
    listed = idle_service.get("/v1/batches")["items"][0]
    assert listed["statuses"] == {"queued": 1} and listed["best"] == {}
    store.runs.request_cancel(store.batches.entries(listed["id"])[0].run_id or "", NOON)
    store.deletions.batch(listed["id"], with_runs=True)


def test_a_batch_has_its_table_and_its_progress(idle_service: Service, visit: Open, store: Store) -> None:
    graph = store.graphs.save(two_layers("batched"), NOON).id
    entries = [
        NewBatchEntry(graph, "dgx-h100", 0, request_for(graph)),
        NewBatchEntry(graph, "mine", 1, None, {"title": "no", "detail": "there is no mesh 'mine'"}),
    ]
    batch = store.batches.submit("night", entries, NOON).id
    page = visit(idle_service, "/batches")
    row = page.get_by_role("row").filter(has_text="night").first
    expect(row).to_contain_text("queued: 1")
    expect(row).to_contain_text("failed: 1")
    expect(row.get_by_role("cell").nth(3)).to_have_text("50 %")
    expect(row.get_by_text("one run")).to_have_count(0)
    page.get_by_role("link", name="night").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("night")
    expect(page.locator("#entries tbody tr")).to_have_count(2)
    expect(page.locator("#entries")).to_contain_text("there is no mesh 'mine'")
    expect(page.locator("#counts")).to_contain_text("queued: 1")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
    page.get_by_role("button", name="mesh").click()
    expect(page.get_by_role("columnheader", name="mesh")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Cancel all").click()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
    page.get_by_role("link", name="In the list of runs").click()
    expect(page.locator("td.name > a")).to_have_text(["batched"])
    expect(page.locator("#batch-chip")).to_contain_text(batch)
    page.get_by_role("button", name="Runs of all batches").click()
    expect(page.locator("#batch-chip")).to_be_empty()
    page.goto(f"{idle_service.address}/batches/{batch}")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_label("also its runs").check()
    page.locator("#confirm-deletion").click()
    page.wait_for_url("**/batches")
    assert store.batches.page() == () and not store.runs.page(50, search="batched")
