"""Tests of the frontier in all its objectives: bounds by fields and by dragging, pointing out, the address, saving."""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.drawing import drag_along_the_first_axis
from tests.service.dashboard.posting import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow

# Keep where each text of the parallel coordinates was written.
RECORD = """
window.written = {};
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  if (this.canvas.closest("#parallel")) window.written[text] = [x, this.textAlign];
  return write.call(this, text, x, y);
};
"""
OBJECTIVES = ["time_s", "peak_memory_bytes", "traffic_bytes", "energy_j"]


@pytest.fixture(scope="module")
def run_id(service: Service) -> str:
    """Return the id of an ended run in four objectives."""
    made = posted_run(service, posted_graph(service), objectives=OBJECTIVES, verify="none")
    assert service.wait_for_run(made)["status"] == "succeeded"
    return made


@pytest.fixture(scope="module")
def plans(service: Service, run_id: str) -> list[dict[str, Any]]:
    """Return the plans of the run."""
    found = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    assert len(found) > 3
    return list(found)


def shown(page: Page) -> set[str | None]:
    return {row.get_attribute("data-plan") for row in page.locator("#plans tbody tr").all()}


@pytest.mark.parametrize("width", [1100, 1400])
def test_names_stand_over_their_axes(service: Service, run_id: str, visit: Open, width: int) -> None:
    page = visit(service, f"/runs/{run_id}", width=width, before=lambda page: page.add_init_script(RECORD))
    page.wait_for_function("() => 'time' in window.written && 'energy' in window.written")
    written = page.evaluate("window.written")
    wide = page.locator("#parallel canvas").first.evaluate("(one) => one.clientWidth")
    assert written["time"] == [72, "center"]
    assert written["energy"] == [wide - 72, "center"]


def test_a_bound_holds_in_all_views_and_in_the_address(
    service: Service, run_id: str, plans: list[dict[str, Any]], visit: Open
) -> None:
    page = visit(service, f"/runs/{run_id}")
    rows = page.locator("#plans tbody tr")
    expect(rows).to_have_count(len(plans))
    memories = sorted(plan["cost"]["peak_memory_bytes"] for plan in plans)
    field = page.get_by_label(re.compile("^peak memory, at most"))
    unit = {"MiB": 2**20, "KiB": 2**10, "B": 1}[str(field.get_attribute("aria-label")).split(", ")[-1]]
    limit = (memories[1] + memories[2]) / 2 if memories[2] > memories[1] else memories[1] * 1.001
    field.fill(repr(limit / unit))
    field.press("Enter")
    expected = {plan["id"] for plan in plans if plan["cost"]["peak_memory_bytes"] <= limit}
    assert 0 < len(expected) < len(plans)
    expect(rows).to_have_count(len(expected))
    assert shown(page) == expected
    expect(page.locator("#held")).to_have_text(f"{len(expected)} of {len(plans)} plans are within the bounds")
    assert "in.peak_memory_bytes=.." in page.url

    page.reload()
    expect(rows).to_have_count(len(expected))
    page.get_by_role("button", name="Clear bounds").click()
    expect(rows).to_have_count(len(plans))
    assert "in." not in page.url


def test_dragging_along_an_axis_and_over_the_plot_bounds_what_was_dragged_over(
    service: Service, run_id: str, plans: list[dict[str, Any]], visit: Open
) -> None:
    page = visit(service, f"/runs/{run_id}")
    expect(page.locator("#plans tbody tr")).to_have_count(len(plans))
    drag_along_the_first_axis(page, 0.6, 0.55)
    expect(page.locator("#held")).to_contain_text("within the bounds")
    assert re.search(r"in\.time_s=\.\.[0-9.e-]+", page.url)
    limit = float(page.url.partition("in.time_s=..")[2].partition("&")[0])
    assert shown(page) == {plan["id"] for plan in plans if plan["cost"]["time_s"] <= limit}

    plot = page.locator("#frontier canvas")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 150, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.up()
    expect(page.locator("#held")).to_contain_text(f"of {len(plans)} plans")
    assert {"in.time_s", "in.peak_memory_bytes"} <= set(re.findall(r"in\.\w+", page.url))


def test_keys_go_from_plan_to_plan_along_an_axis(
    service: Service, run_id: str, plans: list[dict[str, Any]], visit: Open
) -> None:
    page = visit(service, f"/runs/{run_id}")
    expect(page.locator("#plans tbody tr")).to_have_count(len(plans))
    page.locator("#parallel canvas").focus()
    page.keyboard.press("ArrowRight")  # the axis of memory
    page.keyboard.press("ArrowUp")  # the least
    smallest = min(plans, key=lambda plan: plan["cost"]["peak_memory_bytes"])["cost"]["peak_memory_bytes"]
    pointed = str(page.locator("#plans tr.is-pointed").get_attribute("data-plan"))
    (found,) = [plan for plan in plans if plan["id"] == pointed]
    assert found["cost"]["peak_memory_bytes"] == smallest
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/plans/{pointed}")


def saved(page: Page, kind: str, folder: Path) -> str:
    """Save the frontier over two costs, and return the file's text."""
    page.locator("#save-frontier summary").click()
    with page.expect_download() as download:
        page.locator("#save-frontier button", has_text=kind).click()
    download.value.save_as(folder / kind)
    return (folder / kind).read_text()


def test_plans_say_where_they_come_from(
    service: Service, run_id: str, plans: list[dict[str, Any]], visit: Open, tmp_path: Path
) -> None:
    kinds = {plan["origin"]["kind"] for plan in plans}
    assert kinds - {"search"}, "a short search keeps some of its first plans"
    words = {"seed": "seed", "exact": "exact", "earlier_run": "earlier run"}
    page = visit(service, f"/runs/{run_id}")
    for plan in plans:
        chip = page.locator(f'#plans tr[data-plan="{plan["id"]}"] .chip.origin')
        kind, name = plan["origin"]["kind"], plan["origin"]["name"]
        if kind == "search":
            expect(chip).to_have_count(0)
        else:
            expect(chip).to_have_text(words[kind])
            expect(page.locator(f'#plans tr[data-plan="{plan["id"]}"] .seed-name')).to_have_text(name)
    written = saved(page, "SVG", tmp_path)
    assert {word for kind, word in words.items() if f">{word}<" in written} == {
        words[kind] for kind in kinds & words.keys()
    }
    head, *rows = csv.reader(StringIO(saved(page, "CSV", tmp_path)))
    written_origins = {
        row[0]: {"kind": row[head.index("origin")], "name": row[head.index("seed")]} for row in rows
    }
    assert written_origins == {plan["id"]: plan["origin"] for plan in plans}

    page.locator("#plans thead button", has_text="origin").click()
    (first,) = [
        plan
        for plan in plans
        if plan["id"] == page.locator("#plans tbody tr").first.get_attribute("data-plan")
    ]
    assert first["origin"]["kind"] != "search"
    page.locator("#plans tbody tr a").first.click()
    expect(page.locator("#chips .chip.origin")).to_have_count(1)
    expect(page.locator("#whole-plan")).to_contain_text(first["origin"]["name"] or first["origin"]["kind"])


def test_drawings_are_saved_as_svg_png_and_csv(
    service: Service, run_id: str, plans: list[dict[str, Any]], visit: Open, tmp_path: Path
) -> None:
    page = visit(service, f"/runs/{run_id}")
    expect(page.locator("#plans tbody tr")).to_have_count(len(plans))
    page.get_by_label("scatter matrix").check()
    page.locator("#rules-over-time").check()
    expect(page.locator("#rules-time canvas")).to_be_visible()
    expect(page.locator("#matrix canvas")).to_have_accessible_name(
        re.compile(f"^{len(plans)} plans over every two")
    )
    for place, kinds in (
        ("#save-frontier", "SVG PNG CSV"),
        ("#save-whole", "SVG"),
        ("#save-history", "SVG CSV"),
        ("#save-rules", "CSV"),
    ):
        for kind in kinds.split():
            page.locator(f"{place} summary").click()
            with page.expect_download() as download:
                page.locator(f"{place} button", has_text=kind).click()
            download.value.save_as(tmp_path / f"file.{kind}")
            content = (tmp_path / f"file.{kind}").read_bytes()
            if kind == "SVG":
                drawing = ElementTree.fromstring(content)
                assert len(list(drawing.iter())) > 10
                if place == "#save-frontier":
                    circles = [
                        path
                        for path in drawing.iter("{http://www.w3.org/2000/svg}path")
                        if "A5 5" in path.get("d", "")
                    ]
                    searched = [plan for plan in plans if plan["origin"]["kind"] == "search"]
                    assert sum(path.get("d", "").count("M") for path in circles) >= len(searched)
            elif kind == "PNG":
                assert content.startswith(b"\x89PNG") and len(content) > 5000
            elif place == "#save-frontier":
                assert content.decode().count("\r\n") == len(plans) + 1


def test_rules_are_drawn_over_the_time_of_an_ended_run(service: Service, run_id: str, visit: Open) -> None:
    page = visit(service, f"/runs/{run_id}")
    page.get_by_role("checkbox", name="over time").check()
    expect(page.locator("#rules-time .chart-legend li").first).to_be_visible()
    expect(page.locator("#rules")).to_be_hidden()
    page.locator("#over").select_option("evaluations")
    expect(page.locator("#history canvas")).to_have_accessible_name(re.compile("over evaluations"))


def test_a_run_is_loaded_by_few_requests(service: Service, run_id: str, visit: Open) -> None:
    requests: list[str] = []
    page = visit(
        service,
        f"/runs/{run_id}",
        before=lambda page: page.on("request", lambda one: requests.append(one.url)),
    )
    expect(page.locator("#plans tbody tr").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert len(requests) <= 15, requests
