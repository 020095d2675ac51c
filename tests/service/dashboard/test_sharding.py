"""Tests of the sharding of a plan on its page: words, tensors, mesh, redistributions and blocks follow one choice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_drawing import picture, posted
from tests.service.processes import Service
from tests.service.test_drawings import chain

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan(service: Service) -> dict[str, Any]:
    """Search a chain of layers, and return the plan that moves the most bytes."""
    graph = posted(service, chain(3, "model.layers."))
    options = {
        "graph_id": graph,
        "mesh": "2x-dgx-h100",
        "budget": {"evaluations": 300},
        "islands": 1,
        "verify": "none",
    }
    run = service.post("/v1/runs", json=options)["id"]
    service.wait_for_run(run)
    plans = service.get(f"/v1/runs/{run}/frontier")["plans"]
    return dict(max(plans, key=lambda each: each["cost"]["traffic_bytes"]))


@pytest.fixture
def page(service: Service, plan: dict[str, Any], visit: Open) -> Page:
    page = visit(service, f"/plans/{plan['id']}")
    expect(page.locator("#moved-count")).to_contain_text("redistribution")
    return page


def test_a_choice_is_shown_in_the_list_the_block_the_tensor_and_the_diagram(
    service: Service, plan: dict[str, Any], page: Page
) -> None:
    columns = service.get(f"/v1/plans/{plan['id']}/sharding")
    assert sum(columns["redistributions"]["bytes"]) == plan["cost"]["traffic_bytes"] > 0
    expect(page.locator("#sharding-words dt").first).to_have_text("Devices")
    count = len(columns["redistributions"]["bytes"])
    expect(page.locator("#moved-count")).to_have_text(f"{count} redistribution{'' if count == 1 else 's'}")
    expect(page.locator("#axis-table tbody tr")).to_have_count(2)

    page.locator("#moved-list .site").first.click()
    reader = page.locator("#sharding-site").input_value()
    assert reader in columns["blocks"]["site"]
    expect(page.locator("#selected-block h3")).to_have_text(reader)
    expect(page.locator("#sharding-block")).to_contain_text("comes by")
    expect(page.locator("#tensor-views .moved").first).to_contain_text("In flight")

    made = next(site for site in columns["blocks"]["site"] if site.startswith("p") and site != reader)
    page.fill("#find-block", made)
    page.press("#find-block", "Enter")
    expect(page.locator("#sharding-site")).to_have_value(made)
    expect(page.locator("#sharding-tensor")).to_have_value(made)


def test_a_cell_of_the_matrix_filters_the_list_by_keys(page: Page) -> None:
    everything = page.locator("#moved-count").inner_text()
    cell = page.locator("#matrix td button").first
    cell.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#matrix button[aria-pressed=true]")).to_be_focused()
    expect(page.locator("#moved-count")).to_contain_text(" over ")
    page.keyboard.press("Enter")
    expect(page.locator("#moved-count")).to_have_text(everything)
    page.select_option("#matrix-by", "class")
    expect(page.locator("#matrix thead")).to_contain_text("from, to")


def test_a_device_under_the_pointer_is_explained_and_diagrams_have_colors_of_the_sharding(page: Page) -> None:
    page.locator("#mesh-figure canvas").hover(position={"x": 50, "y": 60})
    expect(page.locator("#mesh-figure .tooltip")).to_contain_text("received over gpu")
    page.locator("#tensor-views canvas").first.hover(position={"x": 130, "y": 100})
    expect(page.locator("#tensor-views .tooltip").first).to_contain_text("device")
    page.click("#open-all")
    seen = set()
    for by in ("kind", "received", "memory", "seconds", "energy", "split"):
        page.select_option("#coloring", by)
        seen.add(picture(page))
    assert len(seen) >= 3  # of few layers, the bytes that blocks receive may look like another
    expect(page.locator("#coloring option")).to_have_count(9)  # no stages: this is no pipeline
    expect(page.locator("#legend")).to_contain_text("redistributed, up to")


def saved_svg(page: Page) -> str:
    page.locator("#drawing-menu summary").click()
    with page.expect_download() as download:
        page.locator("#drawing-menu button", has_text="SVG").click()
    return download.value.path().read_text()


def test_closed_layers_say_what_is_redistributed_within_and_edges_keep_their_scale(
    service: Service, plan: dict[str, Any], visit: Open
) -> None:
    columns = service.get(f"/v1/plans/{plan['id']}/sharding")
    moved, blocks = columns["redistributions"], columns["blocks"]["site"]
    inner = [k for k, reader in enumerate(moved["reader"]) if re.match(r"p\dof[123]", blocks[reader])]
    assert inner, "a layer has copies of its own"
    for k in range(len(moved["bytes"])):  # nearly all is within the layers
        moved["bytes"][k] = 2**20 if k in inner else 2**10

    def changed(page: Page) -> None:
        page.route("**/sharding", lambda route: route.fulfill(json=columns))

    page = visit(service, f"/plans/{plan['id']}", before=changed)
    expect(page.locator("#legend")).to_contain_text("redistributed, up to 1.000 MiB on an edge;")
    expect(page.locator("#legend")).to_contain_text(f"{len(inner)}.00 MiB of ")
    closed = saved_svg(page)
    assert re.search(rf">\d+ blocks, {len(inner)}\.\d+ MiB redistributed within</text>", closed)
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', closed)]
    page.click("#open-all")
    assert max(float(width) for width in re.findall(r'stroke-width="([\d.]+)"', saved_svg(page))) > max(
        widths
    )


def test_texts_of_plans_are_written_for_readers_and_names_of_numbers_are_not_joined(
    service: Service, plan: dict[str, Any], visit: Open
) -> None:
    path = f"/v1/plans/{plan['id']}"
    document, columns, memory = (service.get(f"{path}{part}") for part in ("", "/sharding", "/memory"))
    window = "[-, gpu.0@128:1:0:1:0:64]"
    columns["shardings"].append({**columns["shardings"][columns["redistributions"]["to"][0]], "text": window})
    count = len(columns["redistributions"]["to"])
    columns["redistributions"] |= {
        "to": [len(columns["shardings"]) - 1] * count,
        "to_layout": ["{3*2,1,0}"] * count,
    }
    columns["redistributions"] |= {
        name: [columns["redistributions"][name][0]] * count for name in ("from", "kind")
    }
    columns["tensors"]["name"] = [f"n{k}" for k, _ in enumerate(columns["tensors"]["name"])]
    columns["blocks"]["site"] = [f"n{k}" for k, _ in enumerate(columns["blocks"]["site"])]
    largest = max(
        range(len(memory["allocations"]["bytes"][0])), key=memory["allocations"]["bytes"][0].__getitem__
    )
    memory["allocations"]["buffer"][largest] = f"n13>{window}{{1,0*3,2}} (stage 1)"
    document |= {"devices": "rack:1,gpu:2", "stages": {"count": 3, "schedule": "1f1b", "blocks": [1, 1, 1]}}
    document["moves"] = [{"rule": "store_as", "place": "n13", "choice": "0:{3*2,1,0}"}]
    alike = {"strategy": "(gpu.0)", "layouts": ["{3*2,1,0}"], "read_layouts": ["", "{1,0*3,2}"]}
    document["placements"]["blocks"] = {f"n{k}": alike for k in range(2, 7)}

    def changed(page: Page) -> None:
        for end, answer in (("", document), ("/sharding", columns), ("/memory", memory)):
            page.route(
                re.compile(rf"{path}{end}$"), lambda route, _, answer=answer: route.fulfill(json=answer)
            )

    page = visit(service, f"/plans/{plan['id']}", before=changed)
    expect(page.locator("#whole-plan")).to_contain_text("6: 3 stages of 1 × 2")
    order = "dimensions 3·2, 1, 0 from the fastest"
    form = page.locator("#moved-list tbody th").first.locator("[title]")
    expect(form).to_contain_text(f"→ [-, gpu.0 (0–63 of 128)], {order}")
    expect(form).to_have_attribute("title", re.compile(re.escape(f"{window}{{3*2,1,0}}") + "$"))
    first = columns["redistributions"]["tensor"], columns["redistributions"]["reader"]
    names = page.locator("#moved-list .site").all_inner_texts()
    assert set(names) <= {f"n{tensor} → n{reader}" for tensor, reader in zip(*first, strict=True)}
    expect(page.locator("#moves")).to_contain_text(f"output 0: {order}")
    decisions = page.locator("#decisions tbody tr").first
    expect(decisions).to_contain_text("n2 … n6")
    expect(page.locator("main")).to_contain_text(
        f"output 0: {order}; input 1: dimensions 1, 0·3, 2 from the fastest"
    )
    page.locator("#memory").scroll_into_view_if_needed()
    buffer = page.get_by_text(
        "n13 as [-, gpu.0 (0–63 of 128)], dimensions 1, 0·3, 2 from the fastest (stage 1)", exact=True
    )
    expect(buffer).to_have_attribute("title", f"n13>{window}{{1,0*3,2}} (stage 1)")


def test_drawings_that_were_taken_away_leave_nothing_behind(
    service: Service, plan: dict[str, Any], page: Page
) -> None:
    tensors = service.get(f"/v1/plans/{plan['id']}/sharding")["tensors"]["name"][:6]
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    left = []
    for _ in range(3):
        for tensor in tensors:
            page.fill("#sharding-tensor", tensor)
            page.press("#sharding-tensor", "Enter")
            expect(page.locator("#tensor-views canvas").first).to_have_attribute(
                "aria-label", re.compile(f"^Index box of {re.escape(tensor)}:")
            )
        page.select_option("#theme", "dark" if len(left) % 2 else "light")
        session.send("HeapProfiler.collectGarbage")
        metrics = session.send("Performance.getMetrics")["metrics"]
        left.append({one["name"]: one["value"] for one in metrics}["JSEventListeners"])
    assert left[2] <= left[1]


def test_what_cannot_be_counted_says_why(service: Service, plan: dict[str, Any], visit: Open) -> None:
    answer = {"title": "Not now", "detail": "too much is being counted", "code": "busy", "status": 503}

    def refuse(page: Page) -> None:
        page.route("**/sharding", lambda route: route.fulfill(status=503, json=answer))

    page = visit(service, f"/plans/{plan['id']}", expected=("status of 503",), before=refuse)
    expect(page.locator("#sharding .notice")).to_contain_text("too much is being counted")
    expect(page.locator("#drawing")).to_contain_text("nodes for")
