"""The dashboard in a browser: cold loads of a page, large diagrams and frontiers, comparisons, and many live runs.

    python -m benchmarks.dashboard [--seconds 60] [--json FILE] [--chromium FILE]

A service of its own is started on an empty database. Its runs are made by hand: 64 and 500 plans with costs along a
curve, of a program of 20 layers. Cold loads are of a browser without a cache, with what CDP counts as received; of
three the one with the median first paint is kept. The diagrams are of chains of products: the page when the service has
computed the drawing before, then all groups open, then panning. The hands point at and bound a frontier, and move over
comparisons of four searched runs of a longer chain and of four of their plans. The live runs are followed by pages of
one browser, while updates of all of them are written as a worker would.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from benchmarks.dashboard_hands import comparison, frontier
from benchmarks.dashboard_runs import KEPT, LiveRuns, chain, searched_run, stored_run
from benchmarks.service_latency import service
from benchmarks.setting import write
from tapestry.service.store import Store

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
PLANS = (64, 500)
POINTED_AT = 2000
COMPARED = 4
COMPARED_LAYERS = 100
LAYERS = {"3,846 nodes": (961, False), "20,002 nodes": (2500, True)}  # and whether parameters are nodes, too
LIVE = 20
UPDATE_S = 0.5
PAN_S = 3.0
REPEATS = 3
WAIT_MS = 120_000
KB = 1000.0
# Opens all groups: the milliseconds until that is painted.
OPENED = """(before) => new Promise((done) => {
  const began = performance.now();
  const status = document.getElementById("shown-nodes");
  const look = () => {
    if (status.textContent === before) return requestAnimationFrame(look);
    return requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
  };
  document.getElementById("open-all").click();
  look();
})"""
# One step of panning per picture; the milliseconds between pictures.
PAN = """(ms) => new Promise((done) => {
  const canvas = document.querySelector("#diagram > canvas");
  const times = [];
  const began = performance.now();
  const step = (now) => {
    times.push(now);
    if (now - began > ms) return done(times.slice(1).map((time, k) => time - times[k]));
    const key = Math.floor(times.length / 20) % 2 ? "ArrowRight" : "ArrowDown";
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def cold_load(browser: Browser, address: str, rows: int) -> dict[str, Any]:
    """Load a page without a cache: requests, bytes received, first paint, and the time until its table is whole."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    received: list[float] = []
    requests: list[str] = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    session.on("Network.requestWillBeSent", lambda event: requests.append(event["request"]["url"]))
    began = time.perf_counter()
    page.goto(address)
    page.locator("#plans tbody tr").nth(rows - 1).wait_for(timeout=WAIT_MS)
    complete_ms = 1e3 * (time.perf_counter() - began)
    page.wait_for_load_state("networkidle")
    found = {
        "requests": len(requests),
        "received_kb": sum(received) / KB,
        "first_contentful_paint_ms": page.evaluate(PAINTED),
        "complete_ms": complete_ms,
    }
    context.close()
    return found


def diagram(browser: Browser, address: str, has_parameters: bool) -> dict[str, Any]:
    """Open the page of a large program, then all of its groups, and pan."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    took = []
    for _ in range(2):  # the second time, the service has the drawing
        began = time.perf_counter()
        page.goto(address)
        page.locator("#shown-nodes", has_text="nodes for").wait_for(timeout=WAIT_MS)
        took.append(1e3 * (time.perf_counter() - began))
    if has_parameters:
        page.locator("#parameters").check()
    page.locator("#diagram > canvas").first.scroll_into_view_if_needed()
    before = page.locator("#shown-nodes").inner_text()
    open_ms = page.evaluate(OPENED, before)
    between = page.evaluate(PAN, 1e3 * PAN_S)
    found = {
        "first_page_ms": took[0],
        "page_ms": took[1],
        "open_all_ms": open_ms,
        "shown": page.locator("#shown-nodes").inner_text(),
        "pan_frames_per_s": 1e3 * len(between) / sum(between),
        "pan_slowest_frame_ms": max(between),
    }
    context.close()
    return found


def hands(browser: Browser, store: Store, address: str) -> dict[str, Any]:
    """Point at and bound a large frontier, and move over comparisons of runs and of plans."""
    run = stored_run(store, POINTED_AT)
    compared = [searched_run(store, COMPARED_LAYERS, seed) for seed in range(COMPARED)]
    plans = [plan.id for plan in store.runs.frontier(compared[0])[:COMPARED]]
    return {
        f"{POINTED_AT:,} plans": frontier(browser, f"{address}/runs/{run}", POINTED_AT),
        f"{COMPARED} runs": comparison(
            browser, f"{address}/compare?runs={','.join(compared)}", "#best table"
        ),
        f"{COMPARED} plans": comparison(
            browser, f"{address}/compare?plans={','.join(plans)}", "#memory-curves canvas"
        ),
    }


def held(session: CDPSession) -> dict[str, float]:
    """Count what a page holds after a collection of garbage."""
    session.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    names = {"heap_mb": "JSHeapUsedSize", "nodes": "Nodes", "listeners": "JSEventListeners"}
    return {name: metrics[key] / (1e6 if name == "heap_mb" else 1) for name, key in names.items()}


def live(browser: Browser, address: str, runs: LiveRuns, seconds: float) -> dict[str, Any]:
    """Follow all live runs in pages of one browser for a while, and count what the pages hold before and after."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    complaints: list[str] = []
    pages: list[tuple[Page, CDPSession]] = []
    for run in runs.ids:
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/runs/{run}")
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        pages.append((page, session))
    for _ in range(KEPT):  # until frontiers are as large as they become
        runs.advance()
    _advance(runs, pages, seconds / 6)
    before = [held(session) for _, session in pages]
    updates = _advance(runs, pages, seconds)
    after = [held(session) for _, session in pages]
    context.close()
    return {
        "pages": len(pages),
        "seconds": seconds,
        "updates_of_each": updates,
        "console_errors": len(complaints),
        "sum_before": {name: sum(one[name] for one in before) for name in before[0]},
        "sum_after": {name: sum(one[name] for one in after) for name in after[0]},
    }


def _advance(runs: LiveRuns, pages: Sequence[tuple[Page, CDPSession]], seconds: float) -> int:
    """Write updates for so long, and wait until every page shows the last; return how many."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        runs.advance()
        count += 1
        pages[0][0].wait_for_timeout(1e3 * UPDATE_S)
    for page, _ in pages:
        page.locator("#figure-evaluations", has_text=f"{runs.evaluations:,}").wait_for(timeout=WAIT_MS)
    return count


def measure(seconds: float, chromium: str) -> dict[str, Any]:
    """Measure all parts, with live runs for `seconds`; of repeated loads the median by first paint is kept."""
    document: dict[str, Any] = {"cold_load": {}, "diagram": {}, "hands": {}}
    with (
        tempfile.TemporaryDirectory(prefix="tapestry-bench-") as folder,
        service(Path(folder), "--no-worker") as client,
        sync_playwright() as playwright,
    ):
        store = Store(f"sqlite:///{Path(folder) / 'bench.db'}")
        address = str(client.base_url).rstrip("/")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for count in PLANS:
            run = stored_run(store, count)
            loads = [cold_load(browser, f"{address}/runs/{run}", count) for _ in range(REPEATS)]
            loads.sort(key=lambda one: float(one["first_contentful_paint_ms"]))
            document["cold_load"][f"{count} plans"] = loads[REPEATS // 2] | _answer(client, run)
        for name, (layers, has_parameters) in LAYERS.items():
            graph = store.graphs.save(chain(layers), datetime.now(UTC)).id
            document["diagram"][name] = diagram(browser, f"{address}/graphs/{graph}", has_parameters)
        document["hands"] = hands(browser, store, address)
        document["live"] = live(browser, address, LiveRuns.begin(store, LIVE), seconds)
        browser.close()
        store.close()
    return document


def _answer(client: httpx.Client, run: str) -> dict[str, float]:
    """Return the bytes of the frontier as it is sent, and as it is."""
    path = f"/v1/runs/{run}/frontier"
    sent, plain = (client.get(path, headers={"Accept-Encoding": kind}) for kind in ("gzip", "identity"))
    return {
        "frontier_kb": sent.num_bytes_downloaded / KB,
        "frontier_plain_kb": plain.num_bytes_downloaded / KB,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and store the figures if a file is requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--chromium", default=CHROMIUM, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    document = measure(options.seconds, options.chromium)
    for part, found in document.items():
        for name, figures in found.items() if part != "live" else [("live", found)]:
            print(f"{part:10} {name:13} {figures}")
    write(options.json, document)


if __name__ == "__main__":
    main()
