"""Tests of what goes wrong while somebody works: a broken file, and a server that starts again under an open page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from benchmarks.dashboard_runs import LiveRuns
from tapestry.service.store import Store
from tapestry.teg.document import dumps
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.posting import posted_graph
from tests.service.dashboard.test_live_runs import shows
from tests.service.processes import ROOT, Service
from tests.service.programs import two_layers

pytestmark = pytest.mark.slow

MODEL = ROOT / "examples" / "models" / "gpt2_small_b1_s1024.onnx"


def test_a_broken_file_is_refused_with_place_and_remedy_and_nothing_is_lost(
    idle_service: Service, visit: Open, tmp_path: Path
) -> None:
    graph = posted_graph(idle_service, "chosen before")
    document = dumps(two_layers())
    broken = {
        "reference.json": (
            document.replace('"inputs":["hidden"]', '"inputs":["nowhere"]'),
            "/blocks/4/inputs/0",
        ),
        "cut.json": (document[: len(document) // 2], "is the file whole"),
        "cut.onnx": (MODEL.read_bytes()[:2000], "truncated"),
        "notes.txt": (
            "a text",
            "expected ONNX (.onnx), PyTorch (.pt2), StableHLO (.mlir) or a TEG document (.json)",
        ),
    }
    page = visit(idle_service, "/runs/new", expected=("status of 4",))
    page.locator("#stored").select_option(graph)
    page.get_by_label("Seconds of searching").fill("7")
    page.get_by_text("upload", exact=True).click()
    status = page.locator("#graph-status")
    for name, (content, place) in broken.items():
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        page.locator("#file").set_input_files(file)
        expect(status.get_by_role("alert")).to_contain_text(place)
        expect(status).to_contain_text("Still chosen: chosen before")
        expect(status.get_by_role("listitem").filter(has_not_text="/blocks/")).to_have_count(0)
    expect(page.get_by_label("Seconds of searching")).to_have_value("7")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    run = idle_service.get(f"/v1/runs/{page.url.rpartition('/')[2]}")
    assert (run["graph"], run["budget"]["seconds"]) == ("chosen before", 7.0)


def test_no_program_but_the_one_that_is_read_is_searched(
    idle_service: Service, visit: Open, tmp_path: Path
) -> None:
    posted_graph(idle_service, "the newest")
    file = tmp_path / "mine.json"
    file.write_text(dumps(replace(two_layers(), name="mine")))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page = visit(idle_service, "/runs/new", expected=("status of 4",))
    status, start = page.locator("#graph-status"), page.get_by_role("button", name="Start the run")
    expect(status).to_contain_text("Chosen: the newest")
    page.get_by_text("upload", exact=True).click()
    page.locator("#file").set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"a text"}
    )
    expect(status).to_contain_text("No program is chosen.")
    start.click()
    expect(page.locator("[data-fault='/graph_id']")).to_have_text("choose a program")
    page.route("**/v1/graphs*", hold)
    page.locator("#file").set_input_files(file)
    expect(status).to_contain_text("mine.json")
    start.click()
    expect(page.locator("[data-fault='/graph_id']")).to_contain_text("wait until mine.json is read")
    held[0].continue_()
    expect(status).to_contain_text("Chosen: mine")
    start.click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    assert idle_service.get(f"/v1/runs/{page.url.rpartition('/')[2]}")["graph"] == "mine"


def test_an_error_of_a_script_is_not_called_one_of_the_service(idle_service: Service, visit: Open) -> None:
    graph = posted_graph(idle_service)
    page = visit(
        idle_service, f"/graphs/{graph}", before=lambda page: page.route("**/v1/graphs/*", answer_nothing)
    )
    expect(page.get_by_role("alert")).to_contain_text("This page met an error of its own")
    expect(page.get_by_role("alert")).to_contain_text("Reload the page.")
    page.close()  # what it shows is no text for people
    page = visit(
        idle_service,
        f"/graphs/{graph}",
        before=lambda page: page.route("**/v1/graphs/*", lambda route: route.abort()),
        expected=("ERR_FAILED",),
    )
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")


def answer_nothing(route: Route) -> None:
    """Answer a document that lacks everything, as another release might."""
    route.fulfill(json={})


def test_what_happens_while_the_server_is_away_is_shown_when_it_is_back(tmp_path: Path, visit: Open) -> None:
    with Service(f"sqlite:///{tmp_path / 'tapestry.db'}", tmp_path / "log", "--no-worker") as service:
        store = Store(service.database_url)
        live = LiveRuns.begin(store, 1, kept=2)
        (run,) = live.ids
        for _ in range(3):
            live.advance()
        page = visit(service, f"/runs/{run}", expected=("ERR_CONNECTION_REFUSED",))
        shows(page, live.evaluations)
        page.evaluate("window.wasNotReloaded = true")
        field = page.get_by_label(re.compile("^time, at least"))
        field.fill("0.001")
        field.press("Enter")
        service.stop()
        expect(page.locator("#live")).to_contain_text("connection lost")
        for _ in range(3):  # a worker goes on without the server
            live.advance()
        service.start()
        expect(page.locator("#live")).to_have_text("live")
        shows(page, live.evaluations)
        plans = {plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]}
        rows = page.locator("#plans tbody tr")
        expect(rows).to_have_count(len(plans))
        assert {row.get_attribute("data-plan") for row in rows.all()} == plans
        live.advance()
        shows(page, live.evaluations)
        expect(field).to_have_value("0.001")
        assert page.evaluate("window.wasNotReloaded") is True
        store.close()
