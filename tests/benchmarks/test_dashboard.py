"""Tests of the benchmark of the dashboard: the runs that it stores and goes on with, and what it counts of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from benchmarks.dashboard import FLAGS, cold_load
from benchmarks.dashboard_runs import KEPT, LiveRuns, PlansOnACurve, chain, stored_run
from tapestry.service.store import Store
from tests.service.dashboard.conftest import CHROMIUM
from tests.service.databases import file_with_tables
from tests.service.processes import Service

pytestmark = pytest.mark.slow

MOST_REQUESTS, MOST_KB = 15, 300


def test_chains_have_the_nodes_that_the_benchmark_names() -> None:
    assert len(chain(3).blocks) == 3 * 8 + 2
    plans = [PlansOnACurve(chain(1)).plan(k) for k in (0, 1, 1)]
    assert plans[0].id != plans[1].id == plans[2].id
    assert plans[0].cost["time_s"] < plans[1].cost["time_s"]
    assert plans[0].cost["peak_memory_bytes"] > plans[1].cost["peak_memory_bytes"]


def test_live_runs_go_on_with_a_frontier_that_does_not_grow(tmp_path: Path) -> None:
    store = Store(file_with_tables(tmp_path / "live.db"))
    live = LiveRuns.begin(store, 2)
    assert len(set(live.ids)) == 2
    for _ in range(KEPT + 3):
        live.advance()
    for run in live.ids:
        assert len(store.runs.frontier(run)) == KEPT
        assert store.runs.get(run).evaluations == live.evaluations
    store.close()


def test_a_cold_load_takes_few_requests_and_bytes_also_of_many_plans(tmp_path: Path) -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with Service(f"sqlite:///{tmp_path / 'cold.db'}", tmp_path / "log", "--no-worker") as service:
        store = Store(service.database_url)
        run = stored_run(store, 500)
        store.close()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            found = cold_load(browser, f"{service.address}/runs/{run}", 500)
            browser.close()
    assert 5 <= found["requests"] <= MOST_REQUESTS
    assert 50 < found["received_kb"] <= MOST_KB
