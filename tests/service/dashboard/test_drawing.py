"""Tests of the diagram of a program: it opens, folds, finds, selects, zooms and moves, also where it is large."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import dumps
from tapestry.teg.graph import Graph
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.test_drawings import chain, trained

pytestmark = pytest.mark.slow

LAYERS = 6
# What the modules of the diagram compute, without a canvas: overlaps in rows, and edges that go upward.
FAULTS = """async ([path, isOpen]) => {
  const { visible } = await import("/static/scripts/drawing/visible.js");
  const { layered } = await import("/static/scripts/drawing/layered.js");
  const drawing = await (await fetch(path)).json();
  const open = new Set(isOpen ? drawing.groups.name.keys() : []);
  const began = performance.now();
  const view = visible(drawing, open);
  const wide = view.nodes.map((_, k) => 60 + (k % 7) * 20);
  const { x, y, rows, routes, width: whole, height } = layered(wide, wide.map(() => 30), view.from, view.to);
  const took = performance.now() - began;
  const width = (item) => (item < wide.length ? wide[item] : 6);
  let overlaps = 0;
  for (const row of rows)
    for (let k = 1; k < row.length; k += 1)
      if (x[row[k]] - x[row[k - 1]] < (width(row[k]) + width(row[k - 1])) / 2) overlaps += 1;
  const upward = [...view.from].filter((a, k) => y[a] >= y[view.to[k]]).length;
  return { nodes: wide.length, items: x.length, edges: view.from.length, overlaps, upward, took, aspect: whole / height,
           blocks: view.nodes.reduce((sum, node) => sum + node.blocks + node.held, 0) };
}"""

# Of each node along a line down the middle, beside the edges: how far its strongest color is from that of the ground.
CONTRASTS = """() => {
  const canvas = document.querySelector("#diagram > canvas");
  const ground = getComputedStyle(canvas).backgroundColor.match(/[\\d.]+/g).map(Number);
  const x = Math.round(canvas.width / 2) + 6 * devicePixelRatio;
  const pixels = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height).data;
  const found = [];
  let isInside = false;
  for (let k = 0; k < pixels.length; k += 4) {
    const alpha = pixels[k + 3] / 255;
    if (alpha && !isInside) found.push(0);
    isInside = alpha > 0;
    if (!alpha) continue;
    const far = Math.hypot(...[0, 1, 2].map((n) => alpha * (pixels[k + n] - ground[n])));
    found[found.length - 1] = Math.max(found[found.length - 1], far);
  }
  return found;
}"""
# How many separate marks are on a line down the middle of the small picture, and the sizes of what labels say.
MINIMAP = """() => {
  const canvas = document.querySelector("#diagram .minimap");
  const pixels = canvas.getContext("2d").getImageData(canvas.width >> 1, 0, 1, canvas.height).data;
  let marks = 0;
  for (let k = 3; k < pixels.length; k += 4) marks += pixels[k] > 0 && !(pixels[k - 4] > 0);
  const labels = document.querySelectorAll("#drawing label, #drawing #coloring");
  return [marks, [...new Set([...labels].map((label) => getComputedStyle(label).fontSize))]];
}"""
SEEN = 60  # of 441 between black and white


def posted(service: Service, graph: Graph) -> str:
    return str(service.post("/v1/graphs", json=json.loads(dumps(graph)))["id"])


def picture(page: Page) -> bytes:
    """Return the diagram's picture once nothing waits to be painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator("#diagram > canvas").first.screenshot()


@pytest.fixture
def page(idle_service: Service, visit: Open) -> Page:
    page = visit(idle_service, f"/graphs/{posted(idle_service, chain(LAYERS, 'model.layers.'))}")
    expect(page.locator("#shown-nodes")).to_have_text("3 nodes for 50 blocks; stacked ones open by a click")
    return page


def test_layers_are_one_node_until_they_are_opened(page: Page) -> None:
    folded = picture(page)
    page.locator("#diagram > canvas").first.click()  # in the middle, where the second of three nodes is
    expect(page.locator("#shown-nodes")).to_contain_text(f"{LAYERS + 2} nodes for")
    expect(page.locator("#selected-block")).to_contain_text("model.layers is open.")
    assert picture(page) != folded
    page.click("#selected-block button")
    expect(page.locator("#shown-nodes")).to_contain_text("3 nodes for")
    page.click("#open-all")
    expect(page.locator("#shown-nodes")).to_contain_text("26 nodes for")
    page.check("#parameters")
    expect(page.locator("#shown-nodes")).to_contain_text("50 nodes for")
    page.click("#close-all")
    expect(page.locator("#open-all")).to_be_enabled()


def test_a_block_is_found_by_its_name_and_its_neighbors_are_followed(page: Page) -> None:
    page.fill("#find-block", "P3OF2")
    page.press("#find-block", "Enter")
    side = page.locator("#selected-block")
    expect(side.locator("h3")).to_have_text("p3of2")
    for text in ("contract", "float32[16, 16]", "8.192 kflop", "3.000 KiB", "Close model.layers.3"):
        expect(side).to_contain_text(text)
    side.get_by_role("button", name="p3of3 contract").click()
    expect(side.locator("h3")).to_have_text("p3of3")
    expect(side).to_contain_text("p4of0")
    page.fill("#find-block", "layers.5")
    page.press("#find-block", "Enter")
    expect(side).to_contain_text("model.layers.5 is open.")
    page.fill("#find-block", "nothing")
    expect(page.locator("#found-blocks")).to_have_text("no block is called so")


def test_it_is_moved_and_zoomed_by_keys_and_colored_by_costs(page: Page) -> None:
    page.click("#open-all")
    seen = [picture(page)]
    page.focus("#diagram > canvas")
    for key in ("+", "ArrowDown", "-", "0"):
        page.keyboard.press(key)
        seen.append(picture(page))
    for by in ("operator", "flops", "bytes"):
        page.select_option("#coloring", by)
        seen.append(picture(page))
    assert len(set(seen[:3])) == 3 and len(set(seen[4:])) >= 3
    expect(page.locator("#legend")).to_contain_text("3.000 KiB")


def test_a_minimap_covers_nothing(page: Page) -> None:
    canvas, minimap = page.locator("#diagram > canvas").first, page.locator("#diagram .minimap")
    expect(minimap).to_be_hidden()  # all of three nodes is seen
    page.click("#open-all")
    expect(minimap).to_be_visible()
    left, right = canvas.bounding_box(), minimap.bounding_box()
    assert left is not None and right is not None and left["x"] + left["width"] <= right["x"]
    page.set_viewport_size({"width": 390, "height": 900})
    expect(minimap).to_be_hidden()


# The least contrast of text and fill over all shares of an amount.
LEAST_CONTRAST = """async () => {
  const { amountFill, inkOn } = await import("/static/scripts/drawing/coloring.js");
  const pen = document.createElement("canvas").getContext("2d");
  const luminance = (color) => {
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrasts = Array.from({ length: 101 }, (_, k) => {
    const fill = amountFill(k / 100);
    const [low, high] = [luminance(fill), luminance(inkOn(fill))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
  return Math.min(...contrasts);
}"""


def test_text_is_readable_on_the_color_of_any_amount(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/layouts", expected=("willReadFrequently",))
    assert page.evaluate(LEAST_CONTRAST) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_node_is_seen_however_small_it_is(idle_service: Service, visit: Open, scheme: str) -> None:
    graph = posted(idle_service, chain(LAYERS, "model.layers."))
    page = visit(idle_service, f"/graphs/{graph}", scheme=scheme, expected=("willReadFrequently",))
    page.click("#open-all")
    page.click("#whole")
    for by in ("kind", "operator", "flops"):
        page.select_option("#coloring", by)
        picture(page)
        found = page.evaluate(CONTRASTS)
        assert len(found) == 26 and min(found) > SEEN, (by, found)


@pytest.mark.parametrize("is_open", [False, True], ids=["folded", "open"])
def test_nodes_do_not_overlap_and_edges_go_down(idle_service: Service, visit: Open, is_open: bool) -> None:
    graph = posted(idle_service, chain(300, "layers."))
    found: dict[str, Any] = visit(idle_service, "/layouts").evaluate(
        FAULTS, [f"/v1/graphs/{graph}/drawing", is_open]
    )
    assert (found["overlaps"], found["upward"]) == (0, 0)
    assert found["nodes"] == (1202 if is_open else 3) and found["blocks"] == 2402
    assert found["items"] <= found["nodes"] + 48 * found["edges"]  # linear, however long edges are


def wide(count: int) -> Graph:
    """Build blocks beside one another, each with a result."""
    b = GraphBuilder("wide")
    x = b.source("x", (4, 4), "float32")
    for k in range(count):
        (y,) = b.apply("softmax", (x,), site=f"t{k}", axes=(1,))
        b.sink(y, site=f"y{k}")
    return b.build()


@pytest.mark.parametrize("graph", [wide(300), trained(20, "adam")], ids=["wide", "trained"])
@pytest.mark.parametrize("is_open", [False, True], ids=["folded", "open"])
def test_no_row_is_far_wider_than_all_is_high(
    idle_service: Service, visit: Open, graph: Graph, is_open: bool
) -> None:
    found: dict[str, Any] = visit(idle_service, "/layouts").evaluate(
        FAULTS, [f"/v1/graphs/{posted(idle_service, graph)}/drawing", is_open]
    )
    assert (found["overlaps"], found["upward"]) == (0, 0)
    assert found["aspect"] < 3
    assert (found["nodes"] == len(graph.blocks)) == is_open


def test_what_is_too_large_to_read_opens_at_its_start(idle_service: Service, visit: Open) -> None:
    graph = posted(idle_service, chain(LAYERS, "model.layers."))
    page = visit(idle_service, f"/graphs/{graph}", expected=("willReadFrequently",))
    page.click("#open-all")
    started = picture(page)
    assert 8 < len(page.evaluate(CONTRASTS)) < 16  # of 26
    page.click("#whole")
    assert picture(page) != started and len(page.evaluate(CONTRASTS)) == 26


def test_the_small_picture_has_every_row_within_its_frame_and_labels_are_equal(page: Page) -> None:
    page.click("#open-all")
    page.click("#whole")
    picture(page)
    marks, sizes = page.evaluate(MINIMAP)
    assert marks == 26 + 2  # and the frame above and below
    assert len(sizes) == 1


def test_operators_without_a_hue_of_their_own_are_counted_in_the_legend(
    idle_service: Service, visit: Open
) -> None:
    b = GraphBuilder("many")
    x = b.source("x", (4, 4), "float32")
    names = ("abs", "ceil", "cos", "erf", "exp", "floor", "neg", "relu", "sigmoid", "sin", "tanh")
    for name in names:
        dims = (("m", 4), ("n", 4))
        (x,) = b.apply(
            "cell",
            (x,),
            site=name,
            expr=(name, ("input", 0)),
            labels=(("m", "n"),),
            dims=dims,
            dtype="float32",
        )
    b.sink(x, site="result")
    page = visit(idle_service, f"/graphs/{posted(idle_service, b.build())}?color=operator")
    expect(page.locator("#legend .swatch")).to_have_count(9)
    expect(page.locator("#legend")).to_contain_text("5 others (5)")  # of 11 cells, the source and the sink


def test_the_whole_diagram_is_saved_as_svg_and_png_and_its_blocks_as_csv(page: Page, tmp_path: Path) -> None:
    page.click("#open-all")
    page.select_option("#coloring", "flops")
    for _ in range(6):
        page.click("#zoom-in")  # what is out of view is in the files all the same
    content = {}
    for kind in ("SVG", "PNG", "CSV"):
        page.locator("#drawing-menu summary").click()
        with page.expect_download() as download:
            page.locator("#drawing-menu button", has_text=kind).click()
        assert download.value.suggested_filename == f"chain.diagram.{kind.lower()}"
        download.value.save_as(tmp_path / kind)
        content[kind] = (tmp_path / kind).read_bytes()
    texts = [
        each.text for each in ElementTree.fromstring(content["SVG"]).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts.count("contract") == 4 * LAYERS and texts[0] == "chain"
    assert {f"p{k}of{n} + 1 parameter" for k in range(LAYERS) for n in range(4)} <= set(texts)
    assert {"work:", "0 flop", "8.192 kflop"} <= set(texts)
    assert content["PNG"].startswith(b"\x89PNG") and len(content["PNG"]) > 5000
    head, *rows = csv.reader(io.StringIO(content["CSV"].decode()))
    assert len(rows) == 50 and head[5:7] == ["work (flop)", "read and written (B)"]
    assert dict(zip(head, next(row for row in rows if row[0] == "p3of2"), strict=True)) == {
        "block": "p3of2",
        "operator": "contract",
        "kind": "block",
        "result": "float32[16, 16]",
        "group": "model.layers.3",
        "work (flop)": "8192",
        "read and written (B)": "3072",
        "reads": "p3of1 model.layers.3.w2",
    }


def test_what_cannot_be_drawn_says_why(idle_service: Service, visit: Open) -> None:
    graph = posted(idle_service, chain(2))
    answer = {"title": "Not now", "detail": "too much is being read", "code": "busy", "status": 503}

    def refuse(page: Page) -> None:
        page.route("**/drawing", lambda route: route.fulfill(status=503, json=answer))

    page = visit(idle_service, f"/graphs/{graph}", expected=("status of 503",), before=refuse)
    expect(page.locator("#drawing .notice")).to_contain_text("too much is being read")
    expect(page.locator("#figures")).to_contain_text("Blocks")
