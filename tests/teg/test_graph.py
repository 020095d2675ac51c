"""Tests of graphs: what their hash depends on, and how they change."""

import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Definition, Graph, Tensor, TensorType, attributes
from tapestry.teg.views import ViewDim
from tests.teg.graphs import cell, programs, small_program


def with_block(graph: Graph, position: int, **changes: object) -> Graph:
    """Return the graph with one block changed."""
    b = graph.blocks[position]
    parts = {
        "site": b.site,
        "definition": b.definition,
        "inputs": b.inputs,
        "outputs": b.outputs,
        "index": b.index,
        "device": b.device,
        "after": b.after,
    }
    changed = Block(**{**parts, **changes})  # type: ignore[arg-type]
    return graph.replace([changed if k == position else x for k, x in enumerate(graph.blocks)])


def renamed(graph: Graph) -> Graph:
    """Return the graph with other names for everything that cannot be observed from outside."""
    seen = {b.site for b in (*graph.sources, *graph.sinks)}
    sites = {b.site: b.site if b.site in seen else f"other {b.site}" for b in graph.blocks}
    tensors = {t: f"tensor of {t}" for t in graph.tensors}
    blocks = [
        Block(
            sites[b.site],
            b.definition,
            tuple(tensors[t] for t in b.inputs),
            tuple(tensors[t] for t in b.outputs),
            b.index,
            b.device,
            tuple(sites[s] for s in b.after),
        )
        for b in graph.blocks
    ]
    records = {tensors[s]: Tensor(tensors[s], t.shape, t.dtype) for s, t in graph.tensors.items()}
    return Graph(graph.name, tuple(blocks), records, {tensors[s]: v for s, v in graph.data.items()})


def test_a_graph_knows_producers_readers_and_ends() -> None:
    graph = small_program()
    assert graph.producers["product"] is graph.by_site["product"]
    assert graph.readers["product"] == ((graph.by_site["y"], 0),)
    assert graph.readers["w"] == ((graph.by_site["product"], 1),)
    assert [b.site for b in graph.sources] == ["x", "w", "count"]
    assert [b.site for b in graph.sinks] == ["result", "next"]
    assert graph.input_types(graph.by_site["product"]) == (((4, 6), "float32"), ((6, 3), "float32"))
    assert graph.output_types(graph.by_site["product"]) == (TensorType((4, 3), "float32"),)


def test_sizes_are_exact_however_large() -> None:
    assert TensorType((2**40, 2**40), "bfloat16").size_bytes == 2**81
    assert TensorType((), "float64").size_bytes == 8


@given(programs())
def test_given_other_internal_names_then_the_same_hash(graph: Graph) -> None:
    assert renamed(graph).structural_hash == graph.structural_hash


@given(programs())
def test_given_a_trip_through_pickle_then_an_equal_graph(graph: Graph) -> None:
    found = pickle.loads(pickle.dumps(graph))
    assert found == graph
    assert hash(found) == hash(graph)
    assert found.structural_hash == graph.structural_hash
    assert all(a is b for a, b in zip(found.blocks, graph.blocks, strict=True))


def test_given_a_change_that_can_be_observed_then_another_hash() -> None:
    graph = small_program()
    w = np.array(graph.data["w"])
    w[5, 2] += 1
    scaled = GraphBuilder("small")
    cell(scaled, ("mul", ("input", 0), ("const", 1)), scaled.source("x", (2,), "float32"), site="y")
    scaled.sink("y")
    variants = [
        graph,
        with_block(graph, 0, site="other source"),
        with_block(graph, 6, site="other sink"),
        with_block(graph, 3, device=1),
        with_block(graph, 3, after=("w",)),
        graph.replace(graph.blocks, data={"w": w}),
        graph.replace(graph.blocks, data={}),
        graph.replace([b for b in graph.blocks if b.operator != "sink" or b.site != "next"]),
        scaled.build(),
    ]
    assert len({v.structural_hash for v in variants}) == len(variants)


def test_given_dead_blocks_then_the_same_hash() -> None:
    graph = small_program()
    dead = Block("dead", graph.by_site["y"].definition, ("product",), ("unused",))
    larger = graph.replace([*graph.blocks, dead], [Tensor("unused", (4, 3), "float32")])
    assert larger.structural_hash == graph.structural_hash


def test_the_hash_does_not_see_which_tuple_class_came_first() -> None:
    hashes = []
    for kind in (tuple, ViewDim._make):
        b = GraphBuilder("view")
        x = b.source("x", (7,), "float32")
        (y,) = b.apply("view", (x,), site="y", map=(kind((0, -2, 6)),), shape=(4,))
        b.sink(y)
        hashes.append(b.build().structural_hash)
        del b
    assert hashes[0] == hashes[1]


def test_given_shared_operands_two_hundred_levels_deep_then_hashing_is_linear() -> None:
    # Seen as a tree this program has 2**200 leaves.
    b = GraphBuilder("doubling")
    x = b.source("x", (2,), "float32")
    for k in range(200):
        expr = ("add", ("input", 0), ("input", 1))
        both = (("d0",), ("d0",))
        (x,) = b.apply(
            "cell", (x, x), site=f"level{k}", expr=expr, labels=both, dims=(("d0", 2),), dtype="float32"
        )
    b.sink(x)
    graph = b.build()
    begin = time.perf_counter()
    assert renamed(graph).structural_hash == graph.structural_hash
    assert hash(graph) == hash(pickle.loads(pickle.dumps(graph)))
    assert time.perf_counter() - begin < 0.5


def test_replacing_drops_what_nobody_makes_any_more() -> None:
    graph = small_program()
    kept = [b for b in graph.blocks if b.site in ("count", "following", "next")]
    smaller = graph.replace(kept)
    assert set(smaller.tensors) == {"count", "following"}
    assert smaller.data == {}
    assert set(graph.tensors) == {"x", "w", "product", "y", "count", "following"}


def test_graphs_are_equal_by_value_down_to_the_bits_of_their_data() -> None:
    graph = small_program()
    zero, negative = np.zeros(18, np.float32).reshape(6, 3), -np.zeros((6, 3), np.float32)
    assert graph == small_program()
    assert graph != replace(graph, name="other")
    assert graph.replace(graph.blocks, data={"w": zero}) != graph.replace(graph.blocks, data={"w": negative})
    assert graph != "a graph"


def test_a_definition_says_which_attribute_is_missing() -> None:
    definition = Definition("pad", attributes(low=(1,), high=(0,)), None)
    assert definition["low"] == (1,)
    assert definition.get("value", 0.0) == 0.0
    with pytest.raises(KeyError, match=r"'pad' has no attribute 'value' here; it has \['high', 'low'\]"):
        definition["value"]


def test_attributes_are_canonical_whatever_they_are_made_of() -> None:
    made = attributes(b=[1, [np.float32(2.5), np.int64(3)]], a=np.bool_(True), absent=None)
    assert made == (("a", True), ("b", (1, (2.5, 3))))
    assert [type(v) for v in made[1][1][1]] == [float, int]
