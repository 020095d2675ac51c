"""Tests of programs before and after: what stayed is at one place, and both sides move, find and select together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tapestry.service.examples import DEMO_MODEL, example_model
from tapestry.teg.document import dumps
from tapestry.teg.graph import Graph
from tests.rewrites.test_pipelines import program
from tests.service.dashboard.appearance import GRAVE
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.test_program_changes import activations

pytestmark = pytest.mark.slow

# What the modules compute, without a canvas: the places of all rows on both sides, with everything open.
SIDES = """async (path) => {
  const { BothSides } = await import("/static/scripts/drawing/sides.js");
  const { visible } = await import("/static/scripts/drawing/visible.js");
  const { layered } = await import("/static/scripts/drawing/layered.js");
  const changes = await (await fetch(path)).json();
  const sides = new BothSides(changes);
  const view = visible(sides.drawing, new Set(sides.drawing.groups.name.keys()), true);
  sides.arranged(view);
  const faces = view.nodes.map((node, k) => sides.faces(node, k));
  const widths = Float64Array.from(faces, (own) => 20 + 6 * Math.max(...own.map(({ title }) => title.length)));
  const layout = layered(widths, widths.map(() => 30), view.from, view.to);
  const picture = { layout, widths, heights: widths.map(() => 30), faces: [], ...view };
  const pictures = sides.pictures(picture, view, faces);
  const { change, before, after } = changes.blocks;
  const rows = change.map((kind, row) => {
    const node = view.nodeOf[row];
    return {
      kind,
      places: pictures.map(({ layout, shown }) => (shown[node] ? [layout.x[node], layout.y[node]] : null)),
      marks: pictures.map(({ faces }) => faces[node].mark),
      drawn: pictures.map(({ layout }) => layout.rows[layout.row[node]].includes(node)),
    };
  });
  return { rows, items: layout.x.length, edges: view.from.length, own: pictures.map(({ from }) => from.length),
           counted: [changes.before, changes.after].map(({ edges }) => edges.from.length) };
}"""
MARKS = {
    "kept": ["kept", "kept"],
    "changed": ["changed", "changed"],
    "removed": ["removed", None],
    "made": [None, "made"],
}


def rewritten(service: Service, graph: Graph, rules: list[str]) -> str:
    source = service.post("/v1/graphs", json=json.loads(dumps(graph)))["id"]
    return str(service.post(f"/v1/graphs/{source}/rewrites", json={"rules": rules})["graph"]["id"])


def gpt2(service: Service) -> str:
    with example_model(DEMO_MODEL).open("rb") as file:
        answer = service.http.post("/v1/graphs/import", files={"file": (DEMO_MODEL, file)}, timeout=120)
    made = service.post(f"/v1/graphs/{answer.json()['id']}/rewrites", json={"families": ["fusion"]})
    return str(made["graph"]["id"])


def pictures(page: Page) -> list[bytes]:
    """Return the pictures of both sides once nothing waits to be painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return [page.locator(f"#side-{side} > canvas").first.screenshot() for side in ("before", "after")]


@pytest.fixture
def page(idle_service: Service, visit: Open) -> Page:
    graph = rewritten(idle_service, activations(6), ["fuse_cells"])
    page = visit(idle_service, f"/graphs/{graph}")
    page.click("#show-changes")
    expect(page.locator("#changes-words")).to_have_text(
        "14 blocks as before, 6 changed, 12 removed, 0 new, by 1 move of 1 rule."
    )
    return page


def test_what_stayed_is_at_one_place_in_programs_that_rules_rewrote(
    idle_service: Service, visit: Open
) -> None:
    graphs = [
        rewritten(idle_service, activations(30), ["fuse_cells"]),
        rewritten(idle_service, program(), ["expand_softmax"]),
        gpt2(idle_service),
    ]
    page = visit(idle_service, "/layouts")
    for graph in graphs:
        found: dict[str, Any] = page.evaluate(SIDES, f"/v1/graphs/{graph}/changes")
        kinds = {row["kind"] for row in found["rows"]}
        assert "kept" in kinds and len(kinds) > 1
        for row in found["rows"]:
            before, after = row["places"]
            expected = MARKS[row["kind"]]
            assert [before is None, after is None] == [mark is None for mark in expected]
            assert row["drawn"] == [mark is not None for mark in expected]
            assert before == after or None in (before, after)
            assert [mark for mark, want in zip(row["marks"], expected, strict=True) if want] == [
                mark for mark in expected if mark
            ]
        assert found["own"] == found["counted"]  # each side has its own edges, all of them
        assert found["items"] <= len(found["rows"]) + 48 * found["edges"]  # linear, however long edges are


def test_both_sides_move_find_and_select_together(page: Page) -> None:
    page.click("#changes-open")
    page.fill("#find-change", "H.3.EXP")
    page.press("#find-change", "Enter")
    chosen = page.locator("#selected-change")
    for text in ("h.3.exp", "changed", "attributes, inputs", "fuse_cells", "h.3.act", "h.3.p"):
        expect(chosen).to_contain_text(text)
    page.locator("#side-after > canvas").first.focus()
    seen = pictures(page)
    page.keyboard.press("ArrowDown")
    moved = pictures(page)
    assert moved[0] != seen[0] and moved[1] != seen[1]
    page.keyboard.press("ArrowUp")
    assert pictures(page) == seen
    place = page.locator("#side-before > canvas").first.bounding_box()
    assert place is not None
    page.locator("#side-after > canvas").first.click(
        position={"x": place["width"] / 2, "y": place["height"] / 2}
    )  # in the middle, where what was found is on both sides
    expect(chosen.locator("h3")).to_contain_text("h.3.exp")


def test_what_changed_is_a_table_of_equal_layers_and_a_file(page: Page, tmp_path: Path) -> None:
    rows = page.locator("#changes-table tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("h.*.exp")
    expect(rows.first).to_contain_text("fuse_cells")
    expression = "computes: exp(x0) → exp(relu(neg(x0)))"
    expect(rows.first).to_contain_text(f"{expression}, inputs")
    expect(rows.nth(1)).to_contain_text("removed")
    expect(page.locator("#changes-sums")).to_contain_text("−37.5 %")
    rows.first.get_by_role("button").click()
    expect(page.locator("#selected-change h3")).to_contain_text("h.0.exp")
    expect(page.locator("#selected-change del", has_text="exp")).to_have_text("exp(x0)")
    for kind, least in (("CSV", 18), ("SVG", 3)):
        page.locator("#changes-menu summary").click()
        with page.expect_download() as download:
            page.locator("#changes-menu button", has_text=kind).click()
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).read_text().count("\n") >= least
    drawn = (tmp_path / "SVG").read_text()
    assert all(f">{word}</text>" in drawn for word in ("Before", "After", "removed", "changed", "new"))
    text = (tmp_path / "CSV").read_text()
    assert text.startswith("change,block before,block after,operator before,operator after,result before")
    assert text.count("removed,h.") == 12 and text.count("changed,h.") == 6


def test_the_address_shows_what_changed(idle_service: Service, visit: Open) -> None:
    graph = rewritten(idle_service, activations(5), ["fuse_cells"])
    page = visit(idle_service, f"/graphs/{graph}?changes=open")
    expect(page.locator("#changes-words")).to_contain_text("10 removed")
    expect(page.locator("#show-changes")).to_be_hidden()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_nothing_grave_is_found_on_what_changed(
    idle_service: Service, visit: Open, scheme: Literal["light", "dark"], width: int
) -> None:
    graph = rewritten(idle_service, activations(7), ["fuse_cells"])
    page = visit(idle_service, f"/graphs/{graph}?changes=open", scheme=scheme, width=width)
    expect(page.locator("#changes-words")).to_contain_text("14 removed")
    page.locator("#changes-table tbody button").first.click()
    expect(page.locator("#selected-change h3")).to_be_visible()
    violations = Axe().run(page).response["violations"]
    assert [each["id"] for each in violations if each["impact"] in GRAVE] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
