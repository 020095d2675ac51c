"""Tests of carried state whose next value is a view of another tensor: it is copied, and stays so through rewrites."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tapestry.rewrites import RULES, apply_move, find, saturate
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.document import dumps
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Block, Graph
from tapestry.teg.importers import from_json
from tapestry.teg.operators.selectors import permuted, sliced
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.stored_state import carried_views, with_stored_state


def turned() -> Graph:
    """Build two states that change places, each transposed."""
    b = ExampleBuilder("turned")
    x, y = b.tensor("x", 3, 4, role="parameter"), b.tensor("y", 4, 3, role="parameter")
    b.sink(b.view(y, permuted((4, 3), (1, 0)), "yt"), site="x.next", carries="x")
    b.sink(b.view(x, permuted((3, 4), (1, 0)), "xt"), site="y.next", carries="y")
    return b.build()


def without_copies(graph: Graph) -> Graph:
    """Return the graph with its sinks on the views that are copied for them."""
    blocks = [
        replace(b, inputs=graph.producers[b.inputs[0]].inputs) if b.operator == "sink" else b
        for b in graph.blocks
        if "~stored" not in b.site
    ]
    return replace(
        graph, blocks=tuple(blocks), tensors={t.site: t for t in graph.tensors.values() if "~" not in t.site}
    )


def stored_by(graph: Graph, sink: str) -> Block:
    return graph.producers[graph.by_site[sink].inputs[0]]


def assert_same_values(a: Graph, b: Graph) -> None:
    inputs = random_inputs(a, np.random.default_rng(0))
    for site, value in evaluate(a, inputs).items():
        np.testing.assert_array_equal(evaluate(b, inputs)[site], value)


def test_builder_documents_and_stored_programs_copy_views_that_are_carried() -> None:
    graph = turned()
    assert [b.site for b in graph.blocks if b.operator == "cell"] == ["x.next~stored", "y.next~stored"]
    assert stored_by(graph, "x.next").inputs == ("yt",)
    bare = without_copies(graph)
    assert [sink.site for sink in carried_views(bare)] == ["x.next", "y.next"]
    assert with_stored_state(bare) == graph == from_json(dumps(bare))
    assert with_stored_state(graph) is graph
    assert_same_values(bare, graph)
    assert "~stored" in json.dumps(dumps(graph))


def test_what_is_only_observed_may_be_a_view() -> None:
    b = ExampleBuilder("seen")
    graph = b.result(b.view(b.tensor("x", 3, 4), permuted((3, 4), (1, 0))))
    assert [block.operator for block in graph.blocks] == ["source", "view", "sink"]


def test_a_program_whose_state_is_a_view_is_not_placed() -> None:
    with pytest.raises(ValueError, match=r"sink 'x.next' carries state, but 'yt' is a view"):
        expand(without_copies(turned()), Placements(), MeshShape.of(gpu=2))


def test_simplification_leaves_the_copies() -> None:
    graph = turned()
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    assert stored_by(simple, "x.next").operator == stored_by(simple, "y.next").operator == "cell"
    assert stored_by(simple, "x.next").inputs == ("y",), "the copy reads through the view"
    assert_same_values(graph, simple)


def test_a_copy_of_a_tensor_in_the_same_order_is_none() -> None:
    b = ExampleBuilder("copied")
    x = b.tensor("x", 5, role="parameter")
    new = b.cell(INPUT, {b.cell(("exp", INPUT), {x: "a"}, site="new"): "a"}, site="copy")
    graph = b.carried(new, x)
    (move,) = find(graph, [rule for rule in RULES if rule.name in ("copy_of_state", "cell_to_view")])
    simple = apply_move(graph, move)
    assert [block.site for block in simple.blocks] == ["x", "new", "copy.out"]
    assert_same_values(graph, simple)


def test_a_rule_that_makes_a_carried_value_a_view_leaves_a_copy() -> None:
    b = ExampleBuilder("joined again")
    x = b.tensor("x", 6, role="parameter")
    y = b.cell(("exp", INPUT), {b.tensor("w", 8): "a"})
    halves = (b.view(y, sliced((8,), (k,), (k + 3,)), f"v{k}") for k in (1, 4))
    graph = b.carried(b.op("concat", *halves, axis=0, site="both"), x)
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    assert stored_by(simple, "both.out").operator == "cell"
    assert not any(True for _ in carried_views(simple))
    assert_same_values(graph, simple)
