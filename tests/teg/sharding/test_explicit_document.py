"""Tests of the documents of explicit graphs: the same graph without its values, slot by slot, whole or in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tapestry.teg import serialization
from tapestry.teg.binding import bind_values
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import json_schema, loads
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.external_data import INLINE_BYTES, content_hash
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.explicit_document import explicit_document
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.external_graphs import verify_external
from tapestry.teg.sharding.materialize import ExplicitNodes, MaterializedGraph, materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.recover import recover
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.teg.graphs import cell
from tests.teg.sharding.explicit_values import evaluate_explicit
from tests.teg.sharding.programs import MESHES, random_placements, random_program

EIGHT = MeshShape.of(gpu=8)
ROWS = Split(("gpu.0", "gpu.1", "gpu.2"))
FOUR = Split(("gpu.0", "gpu.1"))


def layered(layers: int = 2, width: int = 32) -> Graph:
    """Build layers of a product whose weights have values, a bias and an activation."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("layered")
    x = b.source("x", (8, width), "float32")
    for k in range(layers):
        value = rng.standard_normal((width, width)).astype(np.float32)
        w = b.source(f"layers.{k}.weight", (width, width), "float32", "parameter", value)
        bias = b.source(f"layers.{k}.bias", (width,), "float32", "parameter", value[0])
        labels = (("m", "k"), ("k", "n"))
        (x,) = b.apply("contract", (x, w), site=f"product_{k}", labels=labels, output=("m", "n"))
        (x,) = b.apply(
            "cell",
            (x, bias),
            site=f"sum_{k}",
            expr=("add", ("input", 0), ("input", 1)),
            labels=(("m", "n"), ("n",)),
            dims=(("m", 8), ("n", width)),
            dtype="float32",
        )
        (x,) = cell(b, ("relu", ("input", 0)), x, site=f"relu_{k}")
    b.sink(x, site="y")
    return b.build()


def expanded(graph: Graph) -> ExplicitGraph:
    """Shard the weights by columns and the first product's rows, so that every layer exchanges tensors."""
    placements = {}
    for block in graph.blocks:
        if block.site.endswith("weight"):
            placements[block.site] = Placement(Strategy((WHOLE, FOUR)))
        elif block.site.startswith("product"):
            placements[block.site] = Placement(Strategy((WHOLE, WHOLE, ROWS)))
        elif block.site.startswith("relu"):
            placements[block.site] = Placement(Strategy((ROWS, WHOLE)))
    return expand(graph, Placements(placements), EIGHT)


def parsed(explicit: ExplicitGraph, part: GraphPart | None = None) -> Graph:
    return loads("".join(explicit_document(explicit, part or GraphPart())))


def test_the_document_is_the_explicit_graph_with_larger_values_named() -> None:
    graph = layered()
    explicit = expanded(graph)
    nodes, found = materialize(explicit), parsed(explicit)
    assert (found.name, found.blocks, dict(found.tensors)) == (
        "layered",
        nodes.graph.blocks,
        dict(nodes.graph.tensors),
    )
    weight, bias = graph.data["layers.1.weight"], graph.data["layers.1.bias"]
    assert bias.nbytes <= INLINE_BYTES < weight.nbytes
    assert set(found.data) == {f"layers.{k}.bias@{d}" for k in range(2) for d in range(8)}
    named = found.external["layers.1.weight@2"]
    assert (named.tensor, named.shape, named.sha256) == ("layers.1.weight", (32, 32), content_hash(weight))
    assert named.box == ZRange((0, 8), (32, 16)) == nodes.boxes["layers.1.weight@2"]


def test_an_export_with_its_values_computes_the_program() -> None:
    graph = layered()
    explicit = expanded(graph)
    found = parsed(explicit)
    with pytest.raises(
        ValueError, match=r"names the values of 'layers.0.weight', 'layers.1.weight' by content"
    ):
        evaluate(found, {f"x@{d}": np.ones((8, 32), np.float32) for d in range(8)})
    bound = bind_values(found, graph.data)
    assert bound == materialize(explicit).graph
    inputs = random_inputs(graph, np.random.default_rng(1))
    again = MaterializedGraph(bound, materialize(explicit).boxes, EIGHT)
    np.testing.assert_allclose(
        evaluate_explicit(again, inputs)["y"], evaluate(graph, inputs)["y"], rtol=1e-4, atol=1e-5
    )


def test_the_program_is_found_again_and_still_names_its_values() -> None:
    graph = layered()
    explicit = expanded(graph)
    abstract = verify_external(parsed(explicit)).abstract
    assert abstract is not None
    assert {t: named.box.shape for t, named in abstract.external.items()} == {
        "layers.0.weight": (32, 32),
        "layers.1.weight": (32, 32),
    }
    assert bind_values(abstract, graph.data).structural_hash == graph.structural_hash
    # A program that names its values itself is expanded, written and recovered like any other.
    inner = expand(abstract, explicit_placements(graph), EIGHT)
    assert recover(inner).structural_hash == abstract.structural_hash
    assert parsed(inner).external == parsed(explicit).external


def explicit_placements(graph: Graph) -> Placements:
    sites = [block.site for block in graph.blocks if block.site.endswith("weight")]
    return Placements(dict.fromkeys(sites, Placement(Strategy((WHOLE, FOUR)))))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=15)
def test_the_documents_of_random_plans_are_their_explicit_graphs(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    assert bind_values(parsed(explicit), graph.data) == materialize(explicit).graph
    part = GraphPart((int(rng.integers(mesh_shape.device_count)),))
    found = parsed(explicit, part)
    # What a device computes may be read by nobody.
    assert {issue.kind for issue in validate(found)} <= {"unobserved"}


def test_a_part_is_what_its_devices_run_of_its_layers() -> None:
    graph = layered()
    explicit = expanded(graph)
    found = parsed(explicit, GraphPart((2,), ("1",)))
    assert validate(found) == []
    whole = materialize(explicit).graph
    kept = [b for b in found.blocks if not b.site.endswith((".sent", ".received"))]
    assert all(whole.by_site[b.site] is b for b in kept)
    sites = [b.site for b in found.blocks if b.index is not None]
    assert sites == [
        "layers.1.weight@2",
        "layers.1.bias@2",
        "product_1@2",
        "sum_1@2",
        "relu_1@2",
        "y@2",
    ]
    received = [b for b in found.blocks if b.site.endswith(".received")]
    assert all(b.operator == "source" and b.site == f"{b.outputs[0]}.received" for b in received)
    assert {b.device for b in received} == set(range(8))
    assert set(found.external) == {"layers.1.weight@2"}


def test_the_parts_of_all_devices_together_run_every_block() -> None:
    explicit = expanded(layered(1))
    whole = materialize(explicit).graph
    seen: list[str] = []
    for device in range(8):
        found = parsed(explicit, GraphPart((device,)))
        seen += [b.site for b in found.blocks if b.device == device and b.site in whole.by_site]
    assert sorted(seen) == sorted(whole.by_site)


def test_a_part_computes_what_it_computes_in_the_whole() -> None:
    graph = layered()
    explicit = expanded(graph)
    whole = bind_values(parsed(explicit), graph.data)
    part = bind_values(parsed(explicit, GraphPart((3, 4), ("0",))), graph.data)
    inputs = random_inputs(whole, np.random.default_rng(2))
    values = evaluate(whole, inputs, keep=whole.tensors.keys())
    given = {
        source.site: values[source.outputs[0]]
        for source in part.sources
        if source.outputs[0] not in part.data
    }
    made = evaluate(part, given)
    assert len(made) > 4
    for sink in part.sinks:
        np.testing.assert_array_equal(made[sink.site], values[sink.inputs[0]])


def test_order_between_blocks_is_kept_as_far_as_a_part_has_them() -> None:
    b = GraphBuilder("ordered")
    x = b.source("x", (8,), "float32")
    (first,) = cell(b, ("neg", ("input", 0)), x, site="first")
    point = b.sequence_point(["first"], site="point")
    (second,) = b.apply(
        "cell",
        (x,),
        site="second",
        expr=("relu", ("input", 0)),
        labels=(("d",),),
        dims=(("d", 8),),
        dtype="float32",
        after=(point,),
    )
    for tensor in (first, second):
        b.sink(tensor)
    explicit = expand(b.build(), Placements({"first": Placement(Strategy((ROWS,)))}), EIGHT)
    whole = materialize(explicit).graph
    assert parsed(explicit).blocks == whole.blocks
    part = parsed(explicit, GraphPart((1,)))
    assert validate(part) == []
    assert part.by_site["point@0"].after == ("first@1",)
    assert part.by_site["second@1"].after == ("point@0",)


def test_tensors_are_forgotten() -> None:
    """Check that what is known of local tensors does not grow with the number of layers."""

    def most_known(layers: int) -> int:
        nodes = ExplicitNodes(expanded(layered(layers, 8)))
        activations = (sum(1 for tensor in nodes.tensors if "layers." not in tensor) for _ in nodes)
        return max(activations)

    assert most_known(4) == most_known(2)


def test_the_text_follows_the_schema() -> None:
    document = json.loads("".join(explicit_document(expanded(layered(1)))))
    Draft202012Validator(json_schema()).validate(document)


def test_nothing_is_written_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    original = ExplicitNodes.__iter__

    def watched(self: ExplicitNodes) -> Iterator[object]:
        for node in original(self):
            taken.append(node.block.site)
            yield node

    monkeypatch.setattr(ExplicitNodes, "__iter__", watched)
    monkeypatch.setattr(serialization, "PORTION", 10_000)
    portions = explicit_document(expanded(layered(2, 8)))
    assert taken == []
    next(portions)
    first = len(taken)
    assert all(len(portion) <= 10_000 for portion in portions)
    assert 0 < first < len(taken) // 4
