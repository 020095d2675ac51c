"""Tests of pictures: every box and arrow is there, nothing overlaps, names cannot inject markup."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.drawing import to_svg
from tapestry.teg.graph import Graph
from tapestry.teg.layered_drawing import DrawnBox, draw_layered
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.svg import repetition

NAMESPACE = "{http://www.w3.org/2000/svg}"


def chain(length: int, name: str = "chain", site: str = "x") -> Graph:
    """Build `length` layers of two cells over one source."""
    b = GraphBuilder(name)
    tensor = b.source(site, (4,), "float32", names=("row",))
    for k in range(length):
        for function in ("exp", "neg"):
            (tensor,) = b.apply(
                "cell",
                (tensor,),
                site=f"{function}{k}",
                expr=(function, ("input", 0)),
                labels=(("d0",),),
                dims=(("d0", 4),),
                dtype="float32",
            )
    b.sink(tensor, site="y")
    return b.build()


def texts(diagram: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(diagram).iter(f"{NAMESPACE}text")]


def test_blocks_types_and_arrows_are_drawn() -> None:
    diagram = to_svg(chain(1))
    assert texts(diagram) == [
        *("x", "float32[row=4]", "exp0", "cell exp", "float32[4]"),
        *("neg0", "cell neg", "float32[4]", "y", "float32[4]"),
    ]
    assert diagram.count("marker-end") == 3


def test_equal_layers_are_drawn_once() -> None:
    diagram = to_svg(chain(200), max_blocks=20)
    assert "199 more of these 2" in texts(diagram)
    assert "398 blocks" in texts(diagram)
    assert len(texts(diagram)) < 20


def test_what_does_not_repeat_is_counted() -> None:
    b = GraphBuilder("sources")
    for k in range(30):
        b.sink(b.source(f"x{k}", (k + 1,), "float32"))
    assert "40 more blocks" in texts(to_svg(b.build(), max_blocks=20))


def test_names_are_text_and_not_markup() -> None:
    evil = "</text><script>alert(1)</script>&\"'\x07"
    diagram = to_svg(chain(1, name=evil, site=evil))
    assert "<script" not in diagram
    found = {e.tag.removeprefix(NAMESPACE) for e in ET.fromstring(diagram).iter()}
    assert found == {"svg", "title", "style", "defs", "marker", "path", "g", "rect", "text"}
    assert texts(diagram)[0].startswith("</text><script>")


def test_the_longest_repetition_is_found() -> None:
    assert repetition("abcxyzxyzxyzd") == (3, 3, 3)
    assert repetition("abcdef") is None


def test_boxes_do_not_overlap_and_arrows_go_down() -> None:
    rng = np.random.default_rng(3)
    arrows = sorted({(int(a), b) for b in range(1, 80) for a in rng.integers(0, b, 2)})
    boxes = [DrawnBox(float(w), 40.0) for w in rng.integers(20, 200, 80)]
    placed = draw_layered(boxes, arrows)
    rows: dict[float, list[tuple[float, float]]] = {}
    for box, (x, y) in zip(boxes, placed.centers, strict=True):
        rows.setdefault(y, []).append((x - box.width / 2, x + box.width / 2))
    for row in rows.values():
        row.sort()
        assert all(a[1] < b[0] for a, b in itertools.pairwise(row))
        assert row[0][0] >= -1e-9 and row[-1][1] <= placed.width + 1e-9
    for route in placed.routes:
        assert all(a[1] < b[1] for a, b in itertools.pairwise(route))


def test_coordinates_are_numbers() -> None:
    assert not re.search(r'="(nan|inf)', to_svg(chain(3)))


def test_explicit_graphs_show_parts_and_devices() -> None:
    graph, mesh_shape = chain(1), MeshShape.of(gpu=2)
    split = Strategy((Split(("gpu.0",)),))
    explicit = expand(graph, Placements({"exp0": Placement(split), "neg0": Placement(split)}), mesh_shape)
    shown = texts(to_svg(materialize(explicit).graph))
    assert {"device 0", "device 1"} <= set(shown)
    assert sum(text == "cell exp" for text in shown) == 2
