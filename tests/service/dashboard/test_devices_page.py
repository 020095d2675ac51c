"""Tests of the page of devices and meshes: found, drawn beside what was measured, reached by keys and by address."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow


def cells(page: Page, row: str) -> list[str]:
    """Return the texts of a row of a table."""
    return page.locator(row).evaluate("row => [...row.cells].map(cell => cell.textContent)")  # type: ignore[no-any-return]


def saved(page: Page, section: str, form: str) -> str:
    """Save a drawing or its figures, and return the text of the file."""
    page.locator(f"{section} .save-menu summary").first.click()
    with page.expect_download() as download:
        page.locator(f"{section} .save-menu").first.get_by_role("button", name=form).click()
    return Path(download.value.path()).read_text()


def test_a_mesh_is_drawn_with_its_links_and_measured_collectives(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?mesh=dgx-h100")
    expect(page.locator("#mesh h2")).to_have_text("dgx-h100")
    expect(page.locator("#catalog [aria-pressed=true]")).to_contain_text("dgx-h100")
    assert cells(page, "#mesh tbody tr >> nth=0") == ["gpu", "8", "switch", "450 GB/s", "450 GB/s", "7 µs"]
    file = tomllib.loads(Path("hardware/meshes/dgx-h100.toml").read_text())["axes"][0]
    (table,) = (each for each in file["collectives"] if each["members"] == 8)
    first = cells(page, "#collectives .measured-sizes tbody tr >> nth=0")
    assert first[:5] == [
        "256 B",
        "in switch",
        f"{table['seconds'][0] * 1e6:.2f} µs",
        f"{table['seconds'][0] * 1e6:.2f} µs",
        "0 %",
    ]
    expect(page.locator("#collectives")).to_contain_text(table["source"])
    expect(page.locator("[aria-label=Figures]")).to_contain_text(file["sources"]["bandwidth_bytes_per_s"])

    page.select_option("#collectives [aria-label=Collective]", "broadcast.8")
    expect(page.locator("#collectives")).to_contain_text(
        "No measurement of broadcast among 8 lies in the project"
    )
    expect(page).to_have_url(re.compile("mesh=dgx-h100&axis=gpu&collective=broadcast.8&show=rate$"))
    svg = saved(page, "#mesh", "SVG")
    assert all(f">{k}</text>" in svg for k in range(8))
    rows = saved(page, "#collectives", "CSV").splitlines()
    assert rows[0].startswith("bytes (B),predicted (s),from figures alone (s)")
    assert rows[1].startswith("256,")

    page.get_by_role("link", name="h100-sxm5-80gb").click()
    expect(page.locator("#device h2")).to_have_text("h100-sxm5-80gb")


def test_an_address_leads_to_a_curve_between_nodes(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?mesh=aws-p5&axis=node&collective=all_reduce.2.8&show=time")
    expect(page.locator("#collectives [aria-label=Axis]")).to_have_value("node")
    expect(page.locator("#collectives [aria-label=Collective]")).to_have_value("all_reduce.2.8")
    expect(page.locator("#collectives canvas")).to_have_attribute(
        "aria-label", re.compile("^time of all-reduce of 2 × 8, measured between nodes")
    )


def test_a_device_is_compared_with_what_was_measured(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?device=h200-sxm-141gb")
    expect(page.locator("#measured header")).to_contain_text("254 measured; median error")
    expect(page.locator("#measured")).to_contain_text("The figures of the device were not fitted to them")
    page.select_option("#measured [aria-label='Class of kernels']", "softmax")
    measured = json.loads(Path("benchmarks/results/h200-calibration.json").read_text())["probes"]
    softmax = {name: seconds for name, seconds in measured.items() if name.startswith("softmax")}
    expect(page.locator("#measured tbody tr")).to_have_count(len(softmax))
    page.click("#measured th [data-key=measured_s]")
    names = page.locator("#measured tbody th").all_text_contents()
    assert names == sorted(softmax, key=lambda name: softmax[name])
    row = cells(page, "#measured tbody tr:has(th:text-is('softmax 8192x1024'))")
    assert row[4] == "20.87 µs"
    predicted = float(row[5].removesuffix(" µs"))
    error = float(row[6].replace("−", "-").removesuffix(" %"))
    assert error == pytest.approx(100 * (predicted / 20.87 - 1), abs=1)
    expect(page).to_have_url(re.compile("device=h200-sxm-141gb&class=softmax$"))
    bandwidth = page.locator("[aria-label=Figures] tr", has_text="rate of its memory")
    expect(bandwidth).to_contain_text("4,800 GB/s")
    expect(bandwidth).to_contain_text("stas00/ml-engineering")


def test_the_chosen_one_is_in_view_in_its_list_and_the_page_stays(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?device=wormhole-n300")
    expect(page.locator("#device h2")).to_have_text("wormhole-n300")
    expect(page.locator("#catalog [aria-pressed=true]")).to_be_in_viewport()
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.querySelector('#catalog').scrollTop") > 0


def test_what_was_not_measured_is_admitted(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?device=tpu-v5e")
    expect(page.locator("#measured")).to_contain_text(
        "No time of a kernel on this device lies in the project"
    )
    expect(page.locator("#device")).to_contain_text(
        "No square product measured on this device lies in the project"
    )
    expect(page.locator("#device")).to_contain_text("16 GB at 819 GB/s")


def test_all_are_found_by_words_and_by_keys(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices")
    count = len(idle_service.get("/v1/meshes")["items"]) + len(idle_service.get("/v1/devices")["items"])
    expect(page.locator("#choice-count")).to_have_text(f"{count} of {count}")
    page.fill("#find", "torus tpu-v4")
    expect(page.locator("#catalog button strong")).to_have_text(["tpu-v4-4x4x4"])
    page.fill("#find", "nothing like it")
    expect(page.locator("#catalog")).to_contain_text("Nothing in the catalog")
    page.fill("#find", "dgx-")
    page.select_option("#kind", "mesh")
    page.locator("#catalog button").first.focus()
    page.keyboard.press("ArrowDown")
    second = page.locator("#catalog button").nth(1)
    expect(second).to_be_focused()
    expect(page.locator("#mesh h2")).to_have_text(str(second.get_attribute("data-name")))


def test_the_links_of_an_axis_are_pointed_out_by_keys(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?mesh=tpu-v5e-4x4")
    page.locator("#mesh canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#mesh tbody tr.is-marked")).to_contain_text("y")
    box = page.locator("#mesh canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2 - 48, box["y"] + 18 + 0.45 * 96 + 48)
    expect(page.locator("#mesh .tooltip")).to_contain_text("x 0: links of 45 GB/s to 1")
    expect(page.locator("#mesh .tooltip")).to_contain_text("y 1: links of 45 GB/s to 0 and 2")


def test_an_unknown_name_has_near_ones(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?mesh=dgx-h10", expected=("status of 404",))
    expect(page.locator("#chosen")).to_contain_text("The catalog has no mesh “dgx-h10”")
    page.locator("#chosen").get_by_role("link", name="dgx-h100").click()
    expect(page.locator("#mesh h2")).to_have_text("dgx-h100")


@pytest.mark.parametrize("path", ["mesh=tpu-v5e-16x16", "device=h200-sxm-141gb"])
def test_the_page_fits_a_phone(idle_service: Service, visit: Open, path: str) -> None:
    page = visit(idle_service, f"/devices?{path}", width=390)
    expect(page.locator("#chosen h2").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_run_leads_to_its_mesh_and_device(idle_service: Service, visit: Open) -> None:
    run = posted_run(idle_service, posted_graph(idle_service))
    page = visit(idle_service, f"/runs/{run}")
    line = page.locator("#mesh")
    expect(line.get_by_role("link")).to_have_count(2)
    line.get_by_role("link").first.click()
    expect(page.locator("#mesh h2")).to_have_text("dgx-h100")


def test_a_run_leads_to_a_mesh_of_its_own_that_the_catalog_has_not(
    idle_service: Service, visit: Open
) -> None:
    mesh = idle_service.get("/v1/meshes/dgx-a100") | {"name": "ours"}
    mesh.pop("device_count")
    mesh["device"] |= {"name": "board", "memory_bytes": 96_000_000_000}
    run = posted_run(idle_service, posted_graph(idle_service), mesh=mesh)
    page = visit(idle_service, f"/runs/{run}")
    page.locator("#mesh").get_by_role("link", name="ours").click()
    expect(page).to_have_url(re.compile(rf"[?]run={run}$"))
    expect(page.locator("#mesh h2")).to_have_text("ours")
    expect(page.locator("#device h2")).to_have_text("board")
    expect(page.locator("#device")).to_contain_text("96 GB")
    expect(page.locator("#catalog [aria-pressed=true]")).to_have_count(0)
    page.select_option("#collectives [aria-label=Shown]", "time")
    expect(page).to_have_url(re.compile(rf"run={run}&.*show=time$"))
    page.reload()
    expect(page.locator("#collectives [aria-label=Shown]")).to_have_value("time")
    page.locator("#chosen").get_by_role("link", name=run).click()
    expect(page.locator("#mesh")).to_contain_text("ours")


def test_the_mesh_of_a_run_that_is_not_there_is_missing(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/devices?run=0123456789ab", expected=("status of 404",))
    expect(page.locator("#chosen")).to_contain_text("There is no run “0123456789ab”")
