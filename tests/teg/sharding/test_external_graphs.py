"""Tests that explicit graphs written by others are verified, and their program is recovered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.document import dumps, loads
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Block, Graph, Tensor, TensorType, attributes
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.external_graphs import is_explicit, recover_external, verify_external
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.recover import recover
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.cases import examples, first
from tests.teg.sharding.programs import MESHES, random_placements, random_program


def paper(concat: bool) -> Graph:
    """Build `C = concat(A1, A2) + B`: joined on host 0 and added there, or added where the parts are."""
    half, whole = TensorType((2, 3), "float32"), TensorType((4, 3), "float32")
    dims = (("d0", 4), ("d1", 3))
    plus = attributes(
        expr=("add", ("input", 0), ("input", 1)), labels=(("d0", "d1"),) * 2, dims=dims, dtype="float32"
    )
    add, _ = define("cell", plus, (whole, whole))
    source, _ = define("source", attributes(shape=(2, 3), dtype="float32", role="activation"), ())
    big, _ = define("source", attributes(shape=(4, 3), dtype="float32", role="activation"), ())
    sink, _ = define("sink", (), (whole,))
    join, _ = define("concat", attributes(axis=0), (half, half))
    parts = [ZRange((0, 0), (2, 3)), ZRange((2, 0), (4, 3))]
    blocks = [Block(f"A{k + 1}", source, (), (f"A{k + 1}",), device=k) for k in range(2)]
    tensors = [Tensor(f"A{k + 1}", (2, 3), "float32", ("row", "column")) for k in range(2)]
    if concat:
        blocks += [Block("B", big, (), ("B",), device=0), Block("A", join, ("A1", "A2"), ("A",), device=0)]
        blocks += [Block("Add", add, ("A", "B"), ("C",), device=0), Block("Sink", sink, ("C",), (), device=0)]
        tensors += [Tensor(t, (4, 3), "float32") for t in ("B", "A", "C")]
    else:
        blocks += [Block(f"B@{k}", big, (), (f"B@{k}",), parts[k], k) for k in range(2)]
        blocks += [
            Block(f"Add@{k}", add, (f"A{k + 1}", f"B@{k}"), (f"C@{k}",), parts[k], k) for k in range(2)
        ]
        blocks += [Block(f"Sink@{k}", sink, (f"C@{k}",), (), parts[k], k) for k in range(2)]
        tensors += [Tensor(f"{t}@{k}", (2, 3), "float32") for t in "BC" for k in range(2)]
    return Graph("paper", tuple(blocks), {t.site: t for t in tensors})


def test_the_sharded_example_of_the_paper_leads_to_the_fused_one() -> None:
    sharded = loads(dumps(paper(concat=False)))
    assert is_explicit(sharded) and validate(sharded) == []
    found = recover_external(sharded)
    assert not is_explicit(found)
    assert found.structural_hash == recover_external(paper(concat=True)).structural_hash
    assert found.by_site["Add"].inputs == ("concat", "B")
    rng = np.random.default_rng(0)
    a1, a2, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (2, 3), (4, 3)))
    whole = evaluate(found, {"A1": a1, "A2": a2, "B": b})["Sink"]
    parts = evaluate(sharded, {"A1": a1, "A2": a2, "B@0": b[:2], "B@1": b[2:]})
    np.testing.assert_array_equal(whole, np.concatenate([parts["Sink@0"], parts["Sink@1"]]))


def test_shards_without_a_common_name_are_named_by_their_definition() -> None:
    sharded = paper(concat=False)
    renamed = [replace(b, site=b.site.replace("@", "-part")) for b in sharded.blocks]
    found = recover_external(sharded.replace(renamed))
    assert [b.site for b in found.sinks] == ["Sink-part"]
    assert {b.operator for b in found.blocks} == {"source", "concat", "cell", "sink"}


@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=examples(15))
def test_our_own_expansions_are_understood_from_their_nodes_alone(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    nodes = materialize(expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape))
    found = verify_external(nodes.graph)
    assert found.issues == ()
    assert found.abstract is not None
    assert found.abstract.structural_hash == recover(nodes).structural_hash


def spoiled(site: str, **changes: object) -> Graph:
    graph = paper(concat=False)
    return graph.replace(replace(b, **changes) if b.site == site else b for b in graph.blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "kind", "text"),
    [
        (spoiled("Add@1", index=ZRange((0, 0), (2, 3))), "partition", "6 of 12 points are in none"),
        (spoiled("Add@1", index=ZRange((1, 0), (3, 3))), "partition", "overlap"),
        (spoiled("Add@1", inputs=("A2", "B@0")), "projection", "index zr[2:4, 0:3] projects to zr[2:4, 0:3]"),
        (spoiled("Add@1", inputs=("A1", "B@1")), "projection", "another shard reads elsewhere"),
        (spoiled("B@1", index=ZRange((0, 0), (2, 3))), "partition", "6 of 12 points"),
        (spoiled("Sink@1", index=ZRange((3, 0), (5, 3))), "index", "stay inside"),
    ],
)
def test_shards_that_do_not_verify_are_reported_with_their_place(graph: Graph, kind: str, text: str) -> None:
    issues = verify_external(graph).issues
    assert any(i.kind == kind and text in str(i) for i in issues), issues
    with pytest.raises(ValueError, match="do not verify"):
        recover_external(graph)


def test_partial_results_must_be_summed_before_they_are_read() -> None:
    b = GraphBuilder("rows")
    x = b.source("x", (4, 6), "float32")
    (y,) = b.apply("reduce", (x,), site="y", monoid="sum", labels=("a", "b"), output=("a",))
    b.sink(y, site="out")
    graph = b.build()
    parts = [ZRange((0, 0), (4, 3)), ZRange((0, 3), (4, 6))]
    x, y, out = graph.blocks
    blocks = [Block(f"x@{k}", x.definition, (), (f"x@{k}",), parts[k], k) for k in range(2)]
    blocks += [Block(f"y@{k}", y.definition, (f"x@{k}",), (f"y@{k}",), parts[k], k) for k in range(2)]
    blocks += [Block("out", out.definition, ("y@0",), (), ZRange((0,), (4,)), 0)]
    tensors = {f"x@{k}": Tensor(f"x@{k}", (4, 3), "float32") for k in range(2)}
    tensors |= {f"y@{k}": Tensor(f"y@{k}", (4,), "float32") for k in range(2)}
    partial = Graph("partial", tuple(blocks), tensors)
    assert [(i.kind, i.path) for i in verify_external(partial).issues] == [
        ("partial", "$.blocks[4].inputs[0]")
    ]
    plus = attributes(
        expr=("add", ("input", 0), ("input", 1)), labels=(("r",),) * 2, dims=(("r", 4),), dtype="float32"
    )
    add, _ = define("cell", plus, (TensorType((4,), "float32"),) * 2)
    summed = [
        *blocks[:4],
        Block("sum", add, ("y@0", "y@1"), ("sum",), device=0),
        replace(blocks[4], inputs=("sum",)),
    ]
    found = recover_external(partial.replace(summed, [Tensor("sum", (4,), "float32")]))
    assert found.structural_hash == graph.structural_hash


def forwarded(onto: tuple[int, int], read: int = 2, complete: bool = True) -> Graph:
    """Build rows that device 1 assembles from two others; device 2 reads the first `read` of them before the rest."""
    source, _ = define("source", attributes(shape=(4, 3), dtype="float32", role="activation"), ())
    half = TensorType((2, 3), "float32")
    rows = [ZRange((0, 0), (2, 3)), ZRange((2, 0), (4, 3))]
    sink, _ = define("sink", (), (TensorType((4, 3), "float32"),))
    seen, _ = define("sink", (), (TensorType((read, 3), "float32"),))
    boxes = [((a, 0), (a + 2, 3)) for a in onto]
    begun, _ = define(
        "assemble", attributes(shape=(4, 3), boxes=(boxes[0],), firsts=(0,), open=True), (half,)
    )
    given = attributes(shape=(4, 3), boxes=(boxes[1],), firsts=(0,), onto=True)
    further, _ = define("assemble", given, (TensorType((4, 3), "float32"), half))
    start = sliced((4, 3), (onto[0], 0), (onto[0] + read, 3))
    part, _ = define("view", view_attributes(start), (TensorType((4, 3), "float32"),))
    blocks = [Block(f"x@{k}", source, (), (f"x@{k}",), rows[k], 2 * k) for k in range(2)]
    blocks += [
        Block("begun", begun, ("x@0",), ("begun",), device=1),
        Block("part", part, ("begun",), ("part",), device=1),
        Block("seen", seen, ("part",), (), device=2),
        Block("whole", further, ("begun", "x@1"), ("whole",), device=1),
        Block("out", sink, ("whole" if complete else "begun",), (), device=1),
    ]
    shapes = {"x@0": (2, 3), "x@1": (2, 3), "begun": (4, 3), "part": (read, 3), "whole": (4, 3)}
    return Graph("forwarded", tuple(blocks), {t: Tensor(t, s, "float32") for t, s in shapes.items()})


def test_what_is_read_of_an_open_assembly_must_be_there() -> None:
    found = verify_external(forwarded((0, 2)))
    assert found.issues == () and found.abstract is not None
    assert sorted(b.operator for b in found.abstract.blocks) == ["sink", "sink", "source", "view"]
    for wrong in (forwarded((0, 2), read=3), forwarded((0, 2), complete=False)):
        issues = verify_external(wrong).issues
        assert any(i.kind == "partial" for i in issues), issues
    # Overwritten rows, or rows in other places than their tensor has them, are no piece of a tensor.
    for strange in (forwarded((0, 0)), forwarded((2, 0))):
        found = verify_external(strange)
        assert found.abstract is None or "assemble" in {b.operator for b in found.abstract.blocks}


def changed(graph: Graph, rng: np.random.Generator) -> Graph:
    """Change one block to read another tensor of the same shape, or to compute another part."""
    blocks = list(graph.blocks)
    k = int(rng.integers(len(blocks)))
    block = blocks[k]
    if block.inputs and rng.random() < 0.5:
        j = int(rng.integers(len(block.inputs)))
        shape = graph.tensors[block.inputs[j]].shape
        other = rng.choice([t for t, kind in graph.tensors.items() if kind.shape == shape])
        inputs = tuple(str(other) if i == j else t for i, t in enumerate(block.inputs))
        blocks[k] = replace(block, inputs=inputs)
    elif block.index is not None:
        alike = [b.index for b in blocks if b.index is not None and b.index.rank == block.index.rank]
        blocks[k] = replace(block, index=alike[int(rng.integers(len(alike)))])
    return graph.replace(blocks)


@pytest.mark.parametrize("seed", first(10, range(40)))
def test_what_verifies_computes_what_its_program_computes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape = MESHES[seed % len(MESHES)]
    graph = random_program(rng, 5)
    nodes = materialize(expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)).graph
    for sharded in (nodes, changed(nodes, rng), changed(nodes, rng)):
        found = verify_external(sharded)
        assert (found.abstract is None) == bool(found.issues)
        if found.abstract is not None:
            inputs = random_inputs(found.abstract, rng)
            values = found.joined(evaluate(sharded, found.cut(inputs)))
            for site, whole in evaluate(found.abstract, inputs).items():
                np.testing.assert_allclose(values[site], whole, rtol=1e-3, atol=1e-4)
