"""Tests of pages with input from strangers, with failures, and in dark mode."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tapestry.hardware import load_mesh
from tapestry.hardware.mesh_text import mesh_text
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import dumps
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.exchanges import named
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service
from tests.service.programs import two_layers

pytestmark = pytest.mark.slow

HOSTILE = """<img src=x onerror="document.title='broken'"><b>bold</b>"""
NOT_FOUND = ("status of 404",)
ENDING_MS = 120_000


@pytest.fixture(scope="module")
def hostile_run(service: Service) -> str:
    """Return the id of an ended run of a program whose names contain markup; no rule removes them."""
    run_id = posted_run(service, posted_graph(service, HOSTILE, HOSTILE), rules=[])
    assert service.wait_for_run(run_id)["status"] == "succeeded"
    return run_id


def test_names_from_strangers_are_text_on_every_page(service: Service, hostile_run: str, visit: Open) -> None:
    run = service.get(f"/v1/runs/{hostile_run}")
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]["id"]
    places = {
        "/": f"tr[data-run='{hostile_run}'] .name a",
        f"/runs/{hostile_run}": "h1",
        f"/plans/{plan}": "#subject a",
        f"/plans/{plan}#decisions": "#decisions tbody th:has-text('img')",
        f"/graphs/{run['graph_id']}": "h1",
        "/runs/new": "#stored option",
    }
    for path, place in places.items():
        page = visit(service, path)
        expect(page.locator(place).first).to_contain_text(HOSTILE)
        assert page.locator("main img, main b").count() == 0
        assert page.title() != "broken"


def test_a_failed_run_shows_its_reason(service: Service, visit: Open) -> None:
    run_id = posted_run(service, posted_graph(service), constraints=["peak_memory_bytes<=1B"])
    page = visit(service, f"/runs/{run_id}")
    expect(page.locator("#status")).to_have_text("failed", timeout=ENDING_MS)
    problem = service.get(f"/v1/runs/{run_id}")["problem"]
    expect(page.get_by_role("alert")).to_contain_text(problem["detail"])
    expect(page.locator("#frontier-card")).to_be_hidden()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


def test_dark_by_the_system_light_by_choice_and_remembered(
    service: Service, hostile_run: str, visit: Open
) -> None:
    page = visit(service, f"/runs/{hostile_run}", scheme="dark")
    expect(page.locator("#frontier canvas")).to_be_visible()
    background = "getComputedStyle(document.body).backgroundColor"
    font = "getComputedStyle(document.body).color"
    assert (page.evaluate(background), page.evaluate(font)) == ("rgb(15, 19, 26)", "rgb(230, 234, 241)")
    page.get_by_label("Colors").select_option("light")
    assert (page.evaluate(background), page.evaluate(font)) == ("rgb(245, 246, 248)", "rgb(26, 32, 44)")
    page.reload()
    assert page.evaluate(background) == "rgb(245, 246, 248)"


def test_the_plans_table_is_sorted_by_a_click_and_saved_as_csv(
    service: Service, hostile_run: str, visit: Open, tmp_path: Path
) -> None:
    plans = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"]
    page = visit(service, f"/runs/{hostile_run}")
    memory = page.locator("#plans th").filter(has_text="peak memory")
    memory.get_by_role("button").first.click()
    expect(memory).to_have_attribute("aria-sort", "ascending")
    shown = [row.get_attribute("data-plan") for row in page.locator("#plans tbody tr").all()]
    order = sorted(plans, key=lambda plan: (plan["cost"]["peak_memory_bytes"], plan["id"]))
    assert shown == [plan["id"] for plan in order]

    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of Plans").click()
    download.value.save_as(tmp_path / "frontier.csv")
    head, *lines = (tmp_path / "frontier.csv").read_text().splitlines()
    assert head.startswith("plan,time_s,peak_memory_bytes,") and head.endswith(
        ",cost_model,feasible,devices,micro_batches,stages,schedule,recomputed_blocks,offloaded_bytes,moves,origin,seed"
    )
    assert {line.partition(",")[0] for line in lines} == {plan["id"] for plan in plans}


def test_a_lost_connection_is_reported_and_taken_up_after_the_last_event(tmp_path: Path, visit: Open) -> None:
    """Check that the service may stop while a page shows a run, and come back."""
    with Service(f"sqlite:///{tmp_path / 'tapestry.db'}", tmp_path / "log", "--no-worker") as service:
        run_id = posted_run(service, posted_graph(service))
        page = visit(service, f"/runs/{run_id}", expected=("ERR_CONNECTION_REFUSED",))
        expect(page.locator("#live")).to_have_text("live")
        taken_up: list[str | None] = []
        page.on("response", lambda answer: taken_up.append(answer.request.headers.get("last-event-id")))
        service.stop()
        expect(page.locator("#live")).to_contain_text("connection lost")
        service.start()
        expect(page.locator("#live")).to_have_text("live")
        assert [number for number in taken_up if number is not None] == ["1"]
        service.post(f"/v1/runs/{run_id}/cancel")
        expect(page.locator("#status")).to_have_text("cancelled")
        expect(page.locator("#live")).to_have_text("ended")


def test_without_a_worker_a_banner_says_how_to_start_one(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/")
    expect(page.locator("#banner")).to_contain_text("No worker is alive")
    expect(page.locator("#banner code")).to_have_text("tapestry worker")


@pytest.mark.parametrize("what", ["run", "plan"])
def test_what_is_not_there_is_reported(idle_service: Service, visit: Open, what: str) -> None:
    page = visit(idle_service, f"/{what}s/abcdefabcdef", expected=NOT_FOUND)
    expect(page.get_by_role("alert")).to_contain_text(f"There is no {what} “abcdefabcdef”")


def test_an_address_of_no_page_has_a_page(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/nowhere", expected=NOT_FOUND)
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")


def test_the_form_follows_the_import_of_a_large_program(
    service: Service, visit: Open, tmp_path: Path
) -> None:
    file = tmp_path / "program.json"
    file.write_text(dumps(two_layers("by a worker")) + " " * (8 * 2**20))
    page = visit(service, "/runs/new")
    page.get_by_text("upload", exact=True).click()
    page.locator("#file").set_input_files(file)
    expect(page.locator("#graph-status")).to_contain_text("Chosen: by a worker")
    (found,) = service.get("/v1/imports")["items"]
    assert found["status"] == "succeeded"

    file.write_text("[" + " " * (8 * 2**20))
    page.locator("#file").set_input_files(file)
    expect(page.locator("#graph-status").get_by_role("alert")).to_contain_text("this is no program")


def test_a_run_by_the_form_whose_faults_stand_at_their_fields(
    idle_service: Service, visit: Open, tmp_path: Path
) -> None:
    file = tmp_path / "program.json"
    file.write_text(dumps(two_layers("by the form")))
    page = visit(idle_service, "/runs/new", expected=("status of 422",))
    page.get_by_text("upload", exact=True).click()
    page.locator("#file").set_input_files(file)
    expect(page.locator("#graph-status")).to_contain_text("Chosen: by the form")

    page.get_by_label("Seconds of searching").fill("-1")
    page.get_by_role("button", name="Add a constraint").click()
    page.get_by_label("at most").fill("2")
    page.locator("#advanced summary").click()
    page.get_by_label("Start from").fill("feedfeedfeed")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator("[data-fault='/budget/seconds']")).to_contain_text(
        "expected a number above 0 and at most 3,600, not -1"
    )
    expect(page.locator("[data-fault='/start_from']")).to_contain_text("feedfeedfeed")
    expect(page.get_by_label("Seconds of searching")).to_have_attribute("aria-invalid", "true")

    page.get_by_label("Seconds of searching").fill("2.5")
    page.get_by_label("Start from").fill("")
    page.get_by_label("Nodes, joined by its network").fill("2")
    page.get_by_label("Priority among the runs that wait").fill("-3")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    run = idle_service.get(f"/v1/runs/{page.url.rpartition('/')[2]}")
    assert (run["graph"], run["mesh"], run["status"]) == ("by the form", "2x-dgx-h100", "queued")
    assert (run["constraints"], run["priority"]) == (["peak_memory_bytes<=2GiB"], -3)
    assert run["budget"] == {"seconds": 2.5, "evaluations": None, "deadline_seconds": None}
    expect(page.get_by_role("heading", level=1)).to_have_text("by the form")


def test_an_own_mesh_may_be_a_file(idle_service: Service, visit: Open, tmp_path: Path) -> None:
    page = visit(idle_service, "/runs/new", expected=("status of 422",))
    page.get_by_text("own", exact=True).click()
    text = page.locator("#mesh-json")
    text.fill("name = ")
    expect(page.locator("#mesh-message")).to_contain_text("This is no TOML")
    text.fill(mesh_text(load_mesh("n300")))
    expect(page.locator("#preview")).to_contain_text('"topology"')
    expect(page.locator("#mesh-message")).to_be_empty()
    (tmp_path / "mine.toml").write_text(mesh_text(load_mesh("n300")).replace('"n300"', '"mine"', 1))
    page.get_by_label("Read it from a file").set_input_files(tmp_path / "mine.toml")
    expect(page.locator("#preview")).to_contain_text('"mine"')


def test_a_run_on_different_nodes_names_their_devices(idle_service: Service, visit: Open) -> None:
    run_id = posted_run(idle_service, posted_graph(idle_service), mesh="dgx-h100+dgx-a100")
    page = visit(idle_service, f"/runs/{run_id}")
    expect(page.locator("#mesh")).to_contain_text(
        "node 2 × gpu 8, h100-sxm5-80gb and a100-sxm4-80gb (80 GB each)"
    )


def test_another_like_this_asks_for_the_same(service: Service, idle_service: Service, visit: Open) -> None:
    mesh = service.get("/v1/meshes/dgx-a100") | {"name": "ours"}
    mesh.pop("device_count")
    first = posted_run(
        idle_service,
        posted_graph(idle_service),
        mesh=mesh,
        objectives=["time_s", "price_usd"],
        constraints=["time_s<=5ms"],
        budget={"evaluations": 700},
        seed=3,
        pins={"y": "[gpu.0, -]"},
        devices="all",
    )
    page = visit(idle_service, f"/runs/{first}")
    command = page.get_by_role("region", name="The command that asks again, a text that scrolls")
    command.focus()  # with all figures of a mesh it is long
    page.keyboard.press("End")
    assert command.evaluate("it => it.scrollHeight > 1000 && it.clientHeight <= 0.6 * innerHeight + 1")
    page.get_by_role("link", name="Another like this").click()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}$"))
    second = page.url.rpartition("/")[2]
    assert second != first
    same = (
        "graph_id",
        "objectives",
        "constraints",
        "budget",
        "seed",
        "pins",
        "devices",
        "rules",
    )
    one, other = idle_service.get(f"/v1/runs/{first}"), idle_service.get(f"/v1/runs/{second}")
    assert [one[name] for name in same] == [other[name] for name in same]
    meshes = [without_sources(idle_service.get(run["links"]["mesh"])) for run in (one, other)]
    assert meshes[0] == meshes[1]


def without_sources(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: without_sources(value) for name, value in document.items() if name != "sources"}
    return [without_sources(value) for value in document] if isinstance(document, list) else document


def test_what_a_device_holds_is_broken_down(service: Service, hostile_run: str, visit: Open) -> None:
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]["id"]
    page = visit(service, f"/plans/{plan}")
    expect(page.locator("#costs p")).to_contain_text("The fullest device holds")
    for term in service.get(f"/v1/plans/{plan}")["memory"]:
        expect(page.locator("#costs p")).to_contain_text(term.removesuffix("_bytes").replace("_", " "))


def test_the_error_of_the_time_is_shown(service: Service, hostile_run: str, visit: Open) -> None:
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]
    time = plan["time"]
    note = visit(service, f"/plans/{plan['id']}").locator("#time-interval")
    expect(note).to_contain_text("with a probability of 90 %")
    expect(note).to_contain_text(time["classes"][0]["name"])
    page = visit(service, f"/runs/{hostile_run}")
    expect(page.locator(".plan-table thead [aria-sort]", has_text="time").locator(".under")).to_have_text(
        "90 % interval"
    )
    row = page.locator(f'.plan-table tr[data-plan="{plan["id"]}"]')
    low, high = re.search(r"([\d.]+) to ([\d.]+)", row.inner_text()).groups()  # type: ignore[union-attr]
    assert float(high) / float(low) == pytest.approx(time["high"] / time["low"], rel=0.05)


def test_leads_are_shown_with_what_they_rest_on(service: Service, hostile_run: str, visit: Open) -> None:
    plans = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"]
    page = visit(service, f"/runs/{hostile_run}")
    expect(page.locator(".plan-table thead [data-key=lead]")).to_be_visible()
    for plan in plans:
        row = page.locator(f'.plan-table tr[data-plan="{plan["id"]}"]')
        lead = plan["lead"]
        expect(row).to_contain_text("leads by" if lead["seconds"] > 0 else "behind")
        expect(row).to_contain_text(f", on {named(lead['rests_on'])}")
        assert row.get_by_text("within the error").count() == lead["within_error"]
    for plan in (plans[0], plans[-1]):
        note = visit(service, f"/plans/{plan['id']}").locator("#lead")
        way = "faster" if plan["lead"]["seconds"] > 0 else "slower"
        expect(note).to_contain_text(f"It is {way} than {plan['lead']['other'].partition('-')[2]} by")
        certain = "within" if plan["lead"]["within_error"] else "beyond"
        expect(note).to_contain_text(f"{certain} the error of the model")
        expect(note).to_contain_text(f"The lead rests on {named(plan['lead']['rests_on'])}.")


def test_the_explicit_graph_is_saved(service: Service, hostile_run: str, visit: Open, tmp_path: Path) -> None:
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]["id"]
    page = visit(service, f"/plans/{plan}")
    with page.expect_download() as download:
        page.get_by_role("button", name="teg", exact=True).click()
    assert download.value.suggested_filename == f"{plan}.teg.json"
    download.value.save_as(tmp_path / "explicit.json")
    assert json.loads((tmp_path / "explicit.json").read_text()) == service.get(f"/v1/plans/{plan}/graph")
    expect(page.get_by_role("button", name="teg", exact=True)).to_be_enabled()


@pytest.mark.parametrize("path", ["/", "/runs/new", "/rules", "/layouts", "run", "plan", "graph"])
def test_narrow_pages_do_not_scroll_sideways(
    service: Service, hostile_run: str, visit: Open, path: str
) -> None:
    run = service.get(f"/v1/runs/{hostile_run}")
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]["id"]
    known = {"run": f"/runs/{hostile_run}", "plan": f"/plans/{plan}", "graph": f"/graphs/{run['graph_id']}"}
    page = visit(service, known.get(path, path), width=400)
    page.wait_for_load_state("networkidle")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0


# Tables that are wider than their part of the page, each with both widths.
CUT = """() => [...document.querySelectorAll(".table-frame, .sharding-aside")]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => `${one.ariaLabel}: ${one.scrollWidth} in ${one.clientWidth}`)"""


@pytest.mark.parametrize("width", [1100, 1400])
@pytest.mark.parametrize("path", ["/", "run", "plan"])
def test_no_table_is_cut(service: Service, hostile_run: str, visit: Open, path: str, width: int) -> None:
    plan = service.get(f"/v1/runs/{hostile_run}/frontier")["plans"][0]["id"]
    known = {"run": f"/runs/{hostile_run}", "plan": f"/plans/{plan}"}
    page = visit(service, known.get(path, path), width=width)
    page.wait_for_load_state("networkidle")
    expect(page.locator("table").first).to_be_visible()
    assert page.evaluate(CUT) == []


def test_rows_are_cards_on_a_phone(service: Service, hostile_run: str, visit: Open) -> None:
    page = visit(service, f"/runs/{hostile_run}", width=390)
    row = page.locator(".plan-table tbody tr").first
    expect(row).to_be_visible()
    for cell in row.get_by_role("cell").all():
        if (box := cell.bounding_box()) is not None:
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    time = row.locator("[data-column^='time']")
    assert time.evaluate("(one) => getComputedStyle(one, '::before').content").startswith('"time, ')
    expect(page.get_by_role("table", name="Plans").get_by_role("columnheader", name="lead")).to_be_visible()
    page.goto(f"{service.address}/")
    run = page.locator(f"tr[data-run='{hostile_run}']")
    names = run.evaluate("(one) => [...one.cells].map((cell) => cell.dataset.column ?? '')")
    assert names[:4] == ["", "Status", "", "Mesh"]


def test_the_navigation_fits_windows_of_any_width(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/layouts")
    for width in (390, *range(400, 1000, 20)):
        page.set_viewport_size({"width": width, "height": 700})
        end = page.evaluate(
            "Math.max(...[...document.querySelectorAll('.top *')].map((one) => one.getBoundingClientRect().right))"
        )
        assert end <= width, width
        assert page.evaluate("document.querySelector('.top nav').scrollWidth <= innerWidth"), width


@pytest.mark.parametrize("path", ["/", "/runs/new", "/layouts"])
def test_every_field_has_a_name(idle_service: Service, visit: Open, path: str) -> None:
    page = visit(idle_service, path)
    page.wait_for_load_state("networkidle")
    nameless = """() => [...document.querySelectorAll("input, select, textarea, button, a")]
        .filter((one) => !one.hidden && !one.labels?.length && !one.getAttribute("aria-label"))
        .filter((one) => !one.textContent.trim())
        .map((one) => one.outerHTML)"""
    assert page.evaluate(nameless) == []


def test_many_outputs_of_a_program_are_folded(idle_service: Service, visit: Open) -> None:
    outputs = page_of_outputs(idle_service, visit, 2)
    expect(outputs).to_have_text("Outputs: y0, y1")
    outputs = page_of_outputs(idle_service, visit, 21)
    expect(outputs.locator("summary")).to_have_text("21 outputs")
    expect(outputs.locator("details > div")).to_be_hidden()
    outputs.locator("summary").click()
    expect(outputs.locator("details > div")).to_be_visible()
    expect(outputs).to_contain_text("y19, y20")


def page_of_outputs(service: Service, visit: Open, count: int) -> Locator:
    """Open the page of a program with so many outputs, and return what it says of them."""
    b = GraphBuilder("outputs")
    x = b.source("x", (4, 4), "float32")
    for k in range(count):
        b.sink(x, site=f"y{k}")
    answer = service.post(
        "/v1/graphs", content=dumps(b.build()), headers={"Content-Type": "application/json"}
    )
    return visit(service, f"/graphs/{answer['id']}").locator("#sinks")


def test_a_rewritten_program_says_of_which_it_was_made(idle_service: Service, visit: Open) -> None:
    source = posted_graph(idle_service, HOSTILE, HOSTILE)
    move = {"rule": "fuse_after_contract", "place": "active"}
    made = idle_service.post(f"/v1/graphs/{source}/rewrites", json={"moves": [move]})["graph"]
    page = visit(idle_service, f"/graphs/{made['id']}")
    reported = page.get_by_role("region", name="Made from")
    expect(reported.locator(".moves li")).to_have_count(1)
    expect(reported.locator(".moves li")).to_contain_text("fuse_after_contract")
    expect(reported.locator(".moves .place")).to_have_text("active")
    expect(reported.get_by_role("link")).to_have_attribute("href", f"/graphs/{source}")
    page = visit(idle_service, f"/graphs/{source}")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.locator("#history")).to_be_hidden()
