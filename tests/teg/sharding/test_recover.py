"""Tests that the abstract graph is recovered from shards alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import MaterializedGraph, materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.recover import recover
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.zspace import ZRange
from tests.cases import examples
from tests.teg.sharding.programs import MESHES, random_placements, random_program

FOUR = MeshShape.of(gpu=4)
ALL = Split(("gpu.0", "gpu.1"))


@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=examples(60))
def test_random_expansions_lead_back(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    found = recover(materialize(explicit))
    assert found.structural_hash == graph.structural_hash
    for block in found.blocks:
        assert block == graph.by_site[block.site]
        assert [found.tensors[t] for t in block.outputs] == [graph.tensors[t] for t in block.outputs]
    assert found.data.keys() <= graph.data.keys()


@pytest.fixture
def graph() -> Graph:
    b = GraphBuilder("g")
    x = b.source("x", (8, 6), "float32")
    w = b.source("w", (6, 4), "float32", "parameter", np.arange(24, dtype=np.float32).reshape(6, 4))
    (y,) = b.apply("contract", [x, w], site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    return b.build()


@pytest.fixture
def nodes(graph: Graph) -> MaterializedGraph:
    placements = {"x": Placement(Strategy((ALL, WHOLE))), "y": Placement(Strategy((ALL, WHOLE, WHOLE)))}
    return materialize(expand(graph, Placements(placements), FOUR))


def edited(nodes: MaterializedGraph, site: str, **changes: object) -> MaterializedGraph:
    blocks = (replace(b, **changes) if b.site == site else b for b in nodes.graph.blocks)  # type: ignore[arg-type]
    return replace(nodes, graph=replace(nodes.graph, blocks=tuple(blocks)))


def test_arrays_lead_back_too(graph: Graph) -> None:
    assert recover(expand(graph, Placements(), FOUR)) == graph


def test_values_of_sources_come_back_whole(graph: Graph) -> None:
    placements = Placements({"w": Placement(Strategy((ALL, WHOLE)))})
    found = recover(materialize(expand(graph, placements, FOUR)))
    assert np.array_equal(found.data["w"], graph.data["w"])
    assert not found.data["w"].flags.writeable


def test_sequence_edges_come_back(graph: Graph) -> None:
    late = graph.replace(replace(b, after=("y",)) if b.operator == "sink" else b for b in graph.blocks)
    assert recover(materialize(expand(late, Placements(), FOUR))) == late


def test_shards_that_leave_a_gap_are_refused(nodes: MaterializedGraph) -> None:
    short = edited(nodes, "y@1", index=ZRange((2, 0, 0), (3, 4, 6)))
    with pytest.raises(
        ValueError, match=r"'y' do not make the whole block: .*\[2, 3\) and \[4, 6\) leave a gap"
    ):
        recover(short)


def test_shards_that_read_another_tensor_are_refused(nodes: MaterializedGraph) -> None:
    crossed = edited(nodes, "y@2", inputs=("x@2", "x@2"))
    with pytest.raises(ValueError, match=r"'y' read at input 1 not one tensor"):
        recover(crossed)


def test_shards_of_another_definition_are_refused(nodes: MaterializedGraph) -> None:
    other: Block = nodes.graph.by_site["x@0"]
    with pytest.raises(ValueError, match="differs in definition"):
        recover(edited(nodes, "y@2", definition=other.definition))


@pytest.mark.slow
def test_a_long_chain_of_views_leads_back() -> None:
    b = GraphBuilder("flips")
    x = b.source("x", (4,), "float32")
    for k in range(3000):
        (x,) = b.apply("view", (x,), site=f"v{k}", map=((0, -1, 3),), shape=(4,))
    b.sink(x, site="out")
    flips = b.build()
    assert recover(expand(flips, Placements(), MeshShape.of(gpu=2))) == flips
