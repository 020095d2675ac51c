"""Tests of what goes wrong while somebody works: a broken file, and a server that starts again under an open page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tapestry.service.store import Store
from tapestry.teg.document import dumps
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_live_runs import Searching, shows
from tests.service.dashboard.test_pages import posted_graph
from tests.service.processes import ROOT, Service
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import later, request_for

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
    expect(page.get_by_label("Seconds of searching")).to_have_value("7")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    run = idle_service.get(f"/v1/runs/{page.url.rpartition('/')[2]}")
    assert (run["graph"], run["budget"]["seconds"]) == ("chosen before", 7.0)


def test_what_happens_while_the_server_is_away_is_shown_when_it_is_back(tmp_path: Path, visit: Open) -> None:
    with Service(f"sqlite:///{tmp_path / 'tapestry.db'}", tmp_path / "log", "--no-worker") as service:
        store = Store(service.database_url)
        run = store.runs.submit(request_for(store.graphs.save(two_layers(), NOON).id), NOON).id
        job = store.jobs.claim("a test", later(1), 3600.0)
        assert job is not None and job.subject == run
        searching = Searching(store, [job])
        for _ in range(3):
            searching.advance()
        page = visit(service, f"/runs/{run}", expected=("ERR_CONNECTION_REFUSED",))
        shows(page, searching.evaluations)
        page.evaluate("window.wasNotReloaded = true")
        field = page.get_by_label(re.compile("^time, at least"))
        field.fill("0.001")
        field.press("Enter")
        service.stop()
        expect(page.locator("#live")).to_contain_text("connection lost")
        for _ in range(3):  # a worker goes on without the server
            searching.advance()
        service.start()
        expect(page.locator("#live")).to_have_text("live")
        shows(page, searching.evaluations)
        plans = {plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]}
        rows = page.locator("#plans tbody tr")
        expect(rows).to_have_count(len(plans))
        assert {row.get_attribute("data-plan") for row in rows.all()} == plans
        searching.advance()
        shows(page, searching.evaluations)
        expect(field).to_have_value("0.001")
        assert page.evaluate("window.wasNotReloaded") is True
        store.close()
