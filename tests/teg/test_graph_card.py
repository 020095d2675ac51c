"""Tests of the cards of programs: figures, folding, bounded size, and names that are no markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import tapestry
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.drawn_groups import groups_of
from tapestry.teg.folding import folded
from tapestry.teg.graph import Graph
from tapestry.teg.html_card import STYLE

LABELS = (("m", "k"), ("k", "n"))
HOSTILE = "<script>alert(1)</script><img src=x onerror='y'>\"&\x00"


class Reader(HTMLParser):
    """Reads HTML strictly: every element is closed where it belongs; collects tags, attributes and texts."""

    VOID = frozenset(("img", "br"))

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def is_inert(markup: str) -> Reader:
    """Check that a card has no script, nothing that runs one, and nothing from elsewhere; return what it has."""
    found = Reader(markup)
    assert not {"script", "iframe", "img", "link", "object", "image", "use", "foreignobject"} & set(
        found.tags
    )
    for name, value in found.attributes:
        assert not name.startswith("on") and name not in ("href", "src", "xlink:href")
        assert "javascript:" not in value
    assert "http" not in markup.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in STYLE and "url(" not in STYLE
    return found


def chain(layers: int, name: str = "chain", site: str = "model.layers.") -> Graph:
    """Build equal layers of four products with parameters of their own."""
    b = GraphBuilder(name)
    x = b.source("x", (16, 16), "float32")
    for k in range(layers):
        for n in range(4):
            w = b.source(f"{site}{k}.w{n}", (16, 16), "float32", "parameter")
            (x,) = b.apply("contract", (x, w), site=f"p{k}of{n}", labels=LABELS, output=("m", "n"))
    b.sink(x, site="result")
    return b.build()


def test_a_small_program_is_drawn_whole_with_its_figures() -> None:
    found = is_inert(chain(2)._repr_html_())
    assert found.texts[:2] == ["chain", "program of 18 blocks"]
    pairs = dict(zip(found.texts[2:10:2], found.texts[3:10:2], strict=True))
    assert pairs == {
        "blocks that compute": "8",
        "parameters": "2.048 k in 8.000 KiB",
        "inputs": "1",
        "outputs": "1",
    }
    assert {"Diagram", "p1of3", "contract", "float32[16, 16]", "+ 1 parameter"} <= set(found.texts)
    assert found.tags.count("rect") == 10  # parameters are in the blocks that read them


def test_repeated_layers_are_one_box_and_the_first_is_drawn() -> None:
    found = is_inert(chain(30)._repr_html_())
    assert {"30 × model.layers", "240 blocks", "model.layers.0, the first of 30"} <= set(found.texts)
    assert {"p0of0", "p0of3"} <= set(found.texts) and "p1of0" not in found.texts
    assert found.tags.count("rect") == 3 + 4


@pytest.mark.parametrize("layers", [40, 2500])
def test_a_card_is_small_however_large_the_program_is(layers: int) -> None:
    graph = chain(layers)
    assert len(graph.blocks) == 8 * layers + 2  # 20,002 of the larger one
    assert len(graph._repr_html_()) < 12_000


def test_what_does_not_fold_is_counted() -> None:
    b = GraphBuilder("wide")
    x = b.source("x", (4, 4), "float32")
    for k in range(300):
        (y,) = b.apply("softmax", (x,), site=f"t{k}", axes=((0,), (1,), (0, 1))[k * k % 7 % 3])
        b.sink(y, site=f"y{k}")
    graph = b.build()
    shown = graph._repr_html_()
    assert len(shown) < 60_000 and "more blocks" in shown
    assert "outputs" in shown and "<dd>300</dd>" in shown


def test_names_are_texts_wherever_they_are_shown() -> None:
    graph = chain(2, HOSTILE, f"{HOSTILE}.")
    found = is_inert(graph._repr_html_())
    assert any("<script>" in text for text in found.texts)
    assert "\x00" not in graph._repr_html_()


def test_a_program_of_the_builder_says_its_work_too() -> None:
    with tapestry.program("scaled") as p:
        x, w = p.input("x", row=3, k=4), p.parameter("w", k=4, out=5)
        p.output("y", x @ w)
    shown = p._repr_html_()
    assert "work" in is_inert(shown).texts and "120 flop" in shown


def test_arrows_of_folded_programs_go_to_later_boxes_and_no_edge_is_lost() -> None:
    graph = chain(6)
    groups = groups_of(graph)
    for opened in ((), range(len(groups.names))):
        program = folded(graph, groups, opened)
        assert all(a < b for a, b in program.arrows)
        held = sum(node.held for node in program.nodes)
        assert sum(len(node.blocks) for node in program.nodes) + held == len(graph.blocks)
    assert len(program.arrows) == 25  # x, 24 products and the result, one after the other


def test_the_style_names_every_token_and_closes_every_rule() -> None:
    assert STYLE.count("{") == STYLE.count("}")
    used = set(re.findall(r"var\(--tp-([\w-]+)\)", STYLE))
    assert used == set(re.findall(r"--tp-([\w-]+):", STYLE))
