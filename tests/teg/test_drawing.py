"""Tests of drawings: DOT text with every block and every edge."""

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.drawing import to_dot
from tapestry.teg.graph import Block
from tapestry.teg.zspace import ZRange
from tests.teg.graphs import cell, small_program


def test_every_block_and_every_edge_is_drawn() -> None:
    assert to_dot(small_program()).splitlines() == [
        'digraph "small" {',
        "  rankdir=TB;",
        '  node [shape=box, fontname="Helvetica"];',
        '  b0 [label="x", shape=ellipse];',
        '  b1 [label="w", shape=ellipse];',
        '  b2 [label="product\\ncontract"];',
        '  b3 [label="y\\ncell"];',
        '  b4 [label="count", shape=ellipse];',
        '  b5 [label="following\\ncell"];',
        '  b6 [label="result", shape=doubleoctagon];',
        '  b7 [label="next", shape=doubleoctagon];',
        '  b0 -> b2 [label="float32[4, 6]"];',
        '  b1 -> b2 [label="float32[6, 3]"];',
        '  b2 -> b3 [label="float32[4, 3]"];',
        '  b4 -> b5 [label="int64[]"];',
        '  b3 -> b6 [label="float32[4, 3]"];',
        '  b5 -> b7 [label="int64[]"];',
        "}",
    ]


def test_given_a_large_graph_then_the_rest_is_counted() -> None:
    text = to_dot(small_program(), max_blocks=3)
    assert "5 more blocks are not drawn" in text
    assert text.count("->") == 2


def test_names_are_quoted_and_parts_are_marked() -> None:
    b = GraphBuilder('say "hi" \\ now')
    x = b.source('the "x"', (2,), "float32")
    cell(b, ("neg", ("input", 0)), x, site="y")
    graph = b.build()
    y = graph.blocks[1]
    part = Block("y", y.definition, y.inputs, y.outputs, ZRange((0,), (1,)), 3, (x,))
    text = to_dot(graph.replace([graph.blocks[0], part]))
    assert text.startswith('digraph "say \\"hi\\" \\\\ now" {')
    assert 'label="y\\ncell\\nzr[0:1]\\ndevice 3"' in text
    assert "b0 -> b1 [style=dotted];" in text


def test_views_are_dashed() -> None:
    b = GraphBuilder("view")
    x = b.source("x", (2,), "float32")
    b.apply("view", (x,), site="y", map=((0, -1, 1),), shape=(2,))
    assert 'b1 [label="y\\nview", style=dashed];' in to_dot(b.build())
