"""Tests of the structure of programs by networkx: the way there and back, layers, components, bottlenecks."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import tapestry
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.structure import bottlenecks, components, layers


def diamond() -> Graph:
    """Build x -> wide -> (left, right) -> y, and z beside it."""
    p = tapestry.program("diamond")
    x = p.input("x", row=4)
    wide = x.exp()
    p.output("y", wide.sin() * wide.cos())
    p.output("z", p.input("other", row=3) + 1)
    return p.graph


def site_of(graph: Graph, function: str) -> str:
    """Return the site of the block that computes one function of its input."""
    return next(
        b.site for b in graph.blocks if b.operator == "cell" and function in repr(b.definition["expr"])
    )


def test_a_graph_goes_to_networkx_and_back() -> None:
    graph = diamond()
    found = graph.to_networkx()
    assert isinstance(found, nx.MultiDiGraph)
    assert list(found.nodes) == [b.site for b in graph.blocks]
    assert found.number_of_edges() == sum(len(b.inputs) for b in graph.blocks)
    assert Graph.from_networkx(found) == graph


def test_order_and_data_are_kept_in_both_directions() -> None:
    p = tapestry.program("ordered")
    w = p.input("w", row=3)
    point = p.sequence_point("point", w.exp())
    with p.behind(point):
        p.output("y", w + 1)
    graph = p.graph
    again = Graph.from_networkx(graph.to_networkx())
    assert again == graph and again.blocks == graph.blocks
    values = {"w": np.ones(3, np.float32)}
    assert np.array_equal(evaluate(again, values)["y"], evaluate(graph, values)["y"])


def test_an_edge_added_by_a_user_changes_the_order_only() -> None:
    graph = diamond()
    found = graph.to_networkx()
    found.add_edge(site_of(graph, "cos"), site_of(graph, "sin"))
    again = Graph.from_networkx(found)
    names = [b.site for b in again.blocks]
    assert names.index(site_of(graph, "cos")) < names.index(site_of(graph, "sin"))
    assert again.structural_hash == graph.structural_hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.add_node("new"), "node 'new' has no attribute 'block'"),
        (lambda g: g.add_edge("y", "x"), "form a cycle"),
        (lambda g: g.remove_node("x"), "reads tensor 'x', which no block before it produces"),
        (lambda g: g.graph["tensors"].pop("x"), "tensor 'x' has no type"),
    ],
)
def test_a_networkx_graph_that_is_no_program_is_refused(change, message: str) -> None:
    found = diamond().to_networkx()
    change(found)
    with pytest.raises(ValueError, match=message):
        Graph.from_networkx(found)


def test_layers_and_components() -> None:
    graph = diamond()
    exp, sin, cos = (site_of(graph, name) for name in ("exp", "sin", "cos"))
    assert [set(layer) & {exp, sin, cos} for layer in layers(graph)][:3] == [set(), {exp}, {sin, cos}]
    assert [len(part) for part in components(graph)] == [6, 3]


def test_bottlenecks_are_passed_by_every_path() -> None:
    p = tapestry.program("chain")
    x = p.input("x", row=4)
    hidden = x.exp()
    p.output("y", hidden.sin() * hidden)
    graph = p.graph
    product = graph.producers[graph.by_site["y"].inputs[0]].site
    assert bottlenecks(graph) == ["x", site_of(graph, "exp"), product]
    assert bottlenecks(diamond()) == []  # two outputs of two inputs have nothing in common
