"""Tests of expansions as nodes: the same values, and as many bytes between devices as the specs require.

The bytes are those of the convention "received bytes" of `docs/sharding.md`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.copies import flat_slices
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.materialize import MaterializedGraph, materialize, origin_of
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split, boxes, volumes
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.transfers import fetch_transfers, scatter_sets
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.cases import examples
from tests.teg.sharding.explicit_values import evaluate_explicit
from tests.teg.sharding.programs import MESHES, random_placements, random_program

EIGHT = MeshShape.of(gpu=8)
ALL = Split(("gpu.0", "gpu.1", "gpu.2"))
SEEDS = st.integers(0, 2**32 - 1)


def plan(**strategies: tuple[Split, ...]) -> Placements:
    return Placements({site: Placement(Strategy(splits)) for site, splits in strategies.items()})


def node_traffic(explicit: MaterializedGraph) -> int:
    """Count the bytes of local tensors that blocks on other devices read."""
    graph = explicit.graph
    made_on = {t: block.device for block in graph.blocks for t in block.outputs}
    moved = [t for b in graph.blocks for t in b.inputs if made_on[t] != b.device]
    return sum(graph.tensors[t].type.size_bytes for t in moved)


def counted_traffic(explicit: ExplicitGraph) -> int:
    """Count the traffic from the arrays: terms of reductions, gathered slices, fetched pieces."""
    total = 0
    for copy in (c for slot in explicit.slots for c in slot.issued):
        buffer, mesh_shape, p = explicit.buffers[copy.source], explicit.mesh_shape, copy.plan
        shape, elements = explicit.abstract.tensors[buffer.tensor].shape, 0
        for done, (_, names) in enumerate(p.scatter, start=1):
            sizes = [np.prod([len(c) for c in s]) for s in scatter_sets(p, shape, mesh_shape, done)]
            elements += (mesh_shape.size_of(names) - 1) * int(np.sum(sizes))
        before = volumes(boxes(p.middle, shape, mesh_shape))
        for (_, names), (start, end) in zip(p.reduce, flat_slices(before, p.reduce, mesh_shape), strict=True):
            elements += (mesh_shape.size_of(names) - 1) * int((end - start).sum()) + int(
                (before - end + start).sum()
            )
            before = end - start
        if p.fetch:
            elements += sum(t.end - t.start for t in fetch_transfers(p, shape, mesh_shape) if t.axis >= 0)
        total += elements * item_bytes(buffer.dtype)
    return total


def close(values: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> None:
    assert values.keys() == reference.keys()
    for site, wanted in reference.items():
        finite = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
        np.testing.assert_allclose(values[site], wanted, rtol=1e-3, atol=1e-4 * float(finite))


@pytest.mark.slow
@given(SEEDS, st.sampled_from(MESHES))
@settings(max_examples=examples(60))
def test_random_plans_keep_all_values(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    inputs = random_inputs(graph, rng)
    nodes = materialize(explicit)
    assert validate(nodes.graph) == []
    close(evaluate_explicit(nodes, inputs), evaluate(graph, inputs))
    assert node_traffic(nodes) == counted_traffic(explicit)


def product(dtype: str = "float32", m: int = 4, k: int = 16, n: int = 8) -> Graph:
    b = GraphBuilder("product")
    x, w = b.source("x", (m, k), dtype), b.source("w", (k, n), dtype, "parameter")
    (y,) = b.apply("contract", [x, w], site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    return b.build()


def test_shards_keep_definition_range_and_device() -> None:
    graph = product()
    nodes = materialize(expand(graph, plan(x=(ALL, WHOLE), y=(ALL, WHOLE, WHOLE), out=(ALL, WHOLE)), EIGHT))
    shards = [b for b in nodes.graph.blocks if b.operator == "contract"]
    assert [b.site for b in shards] == [f"y@{d}" for d in range(4)]
    assert all(b.definition is graph.by_site["y"].definition for b in shards)
    assert [(b.device, b.index) for b in shards] == [(d, ZRange((d, 0, 0), (d + 1, 8, 16))) for d in range(4)]
    assert nodes.graph.tensors["y@2"].shape == (1, 8)
    assert nodes.boxes["y@2"] == ZRange((2, 0), (3, 8))
    assert origin_of("a@b@12") == "a@b"


def test_devices_without_work_hold_the_identity_and_take_part() -> None:
    """Check 6 terms over 8 devices: two devices add zeros."""
    nodes = materialize(
        expand(product(k=6), plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL)), EIGHT)
    )
    held = {b.device: b.operator for b in nodes.graph.blocks if b.outputs and b.outputs[0].startswith("y@")}
    assert [held[d] for d in range(8)] == ["contract"] * 6 + ["cell"] * 2
    inputs = random_inputs(product(k=6), np.random.default_rng(0))
    close(evaluate_explicit(nodes, inputs), evaluate(product(k=6), inputs))


@pytest.mark.parametrize("monoid", ["sum", "max", "min", "prod", "logsumexp"])
@pytest.mark.parametrize("size", [5, 16])
def test_every_monoid_is_combined_on_two_axes(monoid: str, size: int) -> None:
    b = GraphBuilder("g")
    x = b.source("x", (size, 3), "float32")
    (y,) = b.apply("reduce", [x], site="y", monoid=monoid, labels=("k", "n"), output=("n",))
    b.sink(y, site="out")
    graph, mesh_shape = b.build(), MeshShape.of(node=2, gpu=4)
    axes = Split(("node.0", "gpu.0", "gpu.1"))
    nodes = materialize(expand(graph, plan(x=(axes, WHOLE), y=(WHOLE, axes)), mesh_shape))
    inputs = random_inputs(graph, np.random.default_rng(1))
    close(evaluate_explicit(nodes, inputs), evaluate(graph, inputs))


def test_a_masked_sum_of_flags() -> None:
    b = GraphBuilder("g")
    x = b.source("x", (7, 3), "bool")
    (y,) = b.apply("reduce", [x], site="y", monoid="all", labels=("k", "n"), output=("n",))
    b.sink(y, site="out")
    graph = b.build()
    nodes = materialize(expand(graph, plan(x=(ALL, WHOLE), y=(WHOLE, ALL)), EIGHT))
    value = np.ones((7, 3), bool)
    value[6, 1] = False
    assert evaluate_explicit(nodes, {"x": value})["out"].tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64"])
def test_narrow_and_whole_numbers(dtype: str) -> None:
    graph = product(dtype)
    nodes = materialize(expand(graph, plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL)), EIGHT))
    inputs = random_inputs(graph, np.random.default_rng(2))
    made, wanted = evaluate_explicit(nodes, inputs)["out"], evaluate(graph, inputs)["out"]
    assert made.dtype == wanted.dtype
    np.testing.assert_allclose(made.astype(float), wanted.astype(float), atol=0.1)


def test_an_all_reduce_of_a_gradient_receives_a_rings_bytes() -> None:
    """Check 9,437,184 B over 8 devices: 16,515,072 B received by each."""
    graph = product(m=768, k=1024, n=3072)
    placements = plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL))
    nodes = materialize(expand(graph, placements, EIGHT))
    assert graph.tensors["y"].type.size_bytes == 9_437_184
    assert node_traffic(nodes) == 8 * 16_515_072
    scattered = plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL), out=(ALL, WHOLE))
    assert node_traffic(materialize(expand(graph, scattered, EIGHT))) == 8 * 16_515_072 // 2


def test_query_key_and_value_share_one_gathered_sequence() -> None:
    """Check GPT-2 small: x is sharded by sequence, gathered once: 22,020,096 B."""
    b = GraphBuilder("attention")
    x = b.source("x", (1024, 768), "float32")
    for name in ("q", "k", "v"):
        w = b.source(f"w{name}", (768, 768), "float32", "parameter")
        labels = (("s", "e"), ("e", "f"))
        (y,) = b.apply("contract", [x, w], site=name, labels=labels, output=("s", "f"))
        b.sink(y, site=f"{name}.out")
    heads = Split(ALL.axes, 64)
    strategies = {f"w{n}": (WHOLE, heads) for n in "qkv"} | dict.fromkeys("qkv", (WHOLE, heads, WHOLE))
    outs = {f"{n}.out": (WHOLE, heads) for n in "qkv"}
    explicit = expand(b.build(), plan(x=(ALL, WHOLE), **strategies, **outs), EIGHT)
    assert sum(len(slot.issued) for slot in explicit.slots) == 1
    assert explicit.buffers["q"].boxes[5].tolist() == [[0, 1024], [640, 768]]
    assert volumes(explicit.buffers["q"].boxes)[6:].tolist() == [0, 0]
    assert node_traffic(materialize(explicit)) == 22_020_096


def test_a_window_of_padding_only_reads_nothing() -> None:
    """Check that the last chunk of a wide padding sees no element at all."""
    b = GraphBuilder("g")
    x = b.source("x", (1, 1, 2), "float32")
    w = b.source("w", (1, 1, 1), "float32", "parameter")
    geometry = {"strides": (1,), "pads": (3, 3), "dilations": (1,), "groups": 1}
    (y,) = b.apply("conv", [x, w], site="y", **geometry)
    b.sink(y, site="out")
    graph = b.build()
    nodes = materialize(expand(graph, plan(y=(WHOLE, WHOLE, ALL, WHOLE)), EIGHT))
    inputs = random_inputs(graph, np.random.default_rng(3))
    close(evaluate_explicit(nodes, inputs), evaluate(graph, inputs))


def test_too_many_nodes_are_refused_before_they_are_written() -> None:
    graph, mesh_shape = product(m=64, k=1024, n=64), MeshShape.of(node=128, gpu=8)
    axes = Split(tuple(s.name for s in mesh_shape.sub_axes))
    explicit = expand(graph, plan(x=(WHOLE, axes), w=(axes, WHOLE), y=(WHOLE, WHOLE, axes)), mesh_shape)
    with pytest.raises(ValueError, match="over the limit of 100,000: work on the arrays"):
        materialize(explicit, limit=100_000)
    with pytest.raises(ValueError, match="more than 20 blocks"):
        materialize(expand(product(), plan(x=(ALL, WHOLE)), EIGHT), limit=20)


def test_tensors_without_elements_are_refused() -> None:
    with pytest.raises(ValueError, match=r"block 'x' \(source\) has no index points"):
        materialize(expand(product(m=0), Placements(), EIGHT))


def test_inputs_are_checked() -> None:
    nodes = materialize(expand(product(), plan(x=(ALL, WHOLE)), EIGHT))
    inputs = random_inputs(product(), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"no sources \['z'\]"):
        evaluate_explicit(nodes, {**inputs, "z": inputs["x"]})
    with pytest.raises(ValueError, match="source 'x' needs shape"):
        evaluate_explicit(nodes, {**inputs, "x": inputs["x"][:2]})
    with pytest.raises(ValueError, match="'w@0' needs a value"):
        evaluate_explicit(nodes, {"x": inputs["x"]})
