"""Tests that sharding any operator along any of its dimensions, over any number of devices, keeps the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.kernel_arrays import PEAK, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware.simulator import simulate
from tapestry.teg.arrays import NUMPY
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import evaluate, output_boxes, run_block
from tapestry.teg.graph import Definition, Graph, TensorType, attributes
from tapestry.teg.operators import OPERATORS, catalog
from tapestry.teg.operators.monoids import combine
from tapestry.teg.operators.operator import OperatorExample
from tapestry.teg.operators.testing import assert_same, random_values
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.recover import recover
from tapestry.teg.sharding.spec import Split, chunk_bounds
from tapestry.teg.sharding.verify import verify
from tapestry.teg.signature import PARALLEL
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.cases import examples
from tests.contracts.generators import GENERATORS
from tests.costmodel.programs import random_genes
from tests.hardware.simulator.programs import mesh_of, random_placements
from tests.teg.sharding.explicit_values import evaluate_explicit

DEVICES = st.sampled_from([2, 3, 5, 7])
MESHES = st.sampled_from(
    [
        MeshShape.of(gpu=3),
        MeshShape.of(gpu=5),
        MeshShape.of(gpu=7),
        MeshShape.of(node=3, gpu=2),
        MeshShape.of(node=2, gpu=5),
    ]
)
# Blocks that compute nothing of their own, or whose operator says for each graph anew what it does.
WITHOUT_GENERATOR = {"source", "sink", "sequence_point", "external", "onnx"}
Bounds = Sequence[tuple[int, int]]


def chunks(size: int, devices: int) -> Bounds:
    """Return the bounds of the chunk of each device in a row; the last devices get less or nothing."""
    mesh_shape = MeshShape.of(gpu=devices)
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    return [(int(a), int(b)) for a, b in chunk_bounds(size, Split(axes), mesh_shape)]


def put_together(
    definition: Definition, parts: Sequence[Bounds], inputs: Sequence[np.ndarray], kinds: Sequence[TensorType]
) -> list[np.ndarray]:
    """Combine the outputs of parts of each dimension: parallel ones concatenated, reduced ones by their monoid."""
    assert definition.signature is not None
    dims = definition.signature.dims
    placed: list[dict[ZRange, np.ndarray]] = [{} for _ in kinds]
    reduced = (d.kind for d, p in zip(dims, parts, strict=True) if d.kind != PARALLEL and len(p) > 1)
    monoid = next(reduced, None)
    for bounds in product(*parts):
        index = ZRange(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))
        made = run_block(definition, index, inputs, kinds)
        for known, box, part in zip(placed, output_boxes(definition, index), made, strict=True):
            assert part.shape == box.shape
            if box in known and part.size:
                assert monoid is not None, f"two parts of parallel dimensions make {box}"
                known[box] = combine(NUMPY, monoid, known[box], part)
            else:
                known[box] = part
    whole = [np.zeros(kind.shape, numpy_dtype(kind.dtype)) for kind in kinds]
    for target, known in zip(whole, placed, strict=True):
        covered = np.zeros(target.shape, int)
        for box, part in known.items():
            target[tuple(map(slice, box.start, box.end))] = part
            covered[tuple(map(slice, box.start, box.end))] += 1
        assert (covered == 1).all()
    return whole


def assert_shards(
    drawn: OperatorExample,
    operator: str,
    sizes: tuple[int, int],
    seed: int,
    definition: Definition | None = None,
) -> None:
    """Check the values of shards: every dimension over one axis of devices, every pair of dimensions over two."""
    known, kinds = define(operator, drawn.attributes, drawn.inputs)
    definition = definition or known
    assert definition.signature is not None
    dims = definition.signature.dims
    inputs = random_values(catalog()[operator], drawn, np.random.default_rng(seed))
    whole = run_block(definition, None, inputs, kinds)
    for split in (*combinations(range(len(dims)), 1), *combinations(range(len(dims)), 2)):
        monoids = {dims[k].kind for k in split} - {PARALLEL}
        if len(monoids) > 1:
            continue  # two reductions of different kinds are never split at once
        over = dict(zip(split, sizes, strict=False))
        parts = [chunks(d.size, over[k]) if k in over else [(0, d.size)] for k, d in enumerate(dims)]
        for got, wanted in zip(put_together(definition, parts, inputs, kinds), whole, strict=True):
            assert_same(got, wanted)


def test_every_operator_that_shards_has_a_generator():
    assert {o.name for o in OPERATORS} - WITHOUT_GENERATOR == GENERATORS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("operator", GENERATORS)
@settings(max_examples=examples(35))
@given(data=st.data(), devices=st.tuples(DEVICES, DEVICES), seed=st.integers(0, 99))
def test_parts_along_every_dimension_and_pair_make_the_whole(operator, data, devices, seed):
    assert_shards(GENERATORS[operator](data.draw), operator, devices, seed)


def alone(operator: str, drawn: OperatorExample, inputs: Sequence[np.ndarray]) -> Graph:
    """Build a program of this one block; positions (int64 inputs) are supplied with it."""
    b = GraphBuilder(operator)
    sources = []
    for k, (kind, value) in enumerate(zip(drawn.inputs, inputs, strict=True)):
        data = value if kind.dtype == "int64" else None
        sources.append(
            b.source(f"x{k}", kind.shape, kind.dtype, "buffer" if data is not None else "activation", data)
        )
    for t in b.add(operator, sources, drawn.attributes, site="block"):
        b.sink(t, site=f"{t}.out")
    return b.build()


@pytest.mark.parametrize("operator", GENERATORS)
@settings(max_examples=examples(10))
@given(data=st.data(), shape=MESHES, seed=st.integers(0, 999))
def test_any_strategy_of_a_block_is_proven_runs_and_costs_what_is_predicted(operator, data, shape, seed):
    drawn, rng = GENERATORS[operator](data.draw), np.random.default_rng(seed)
    if any(0 in kind.shape for kind in drawn.inputs):
        return  # such tensors are folded away before
    arrays = random_values(catalog()[operator], drawn, rng)
    graph = alone(operator, drawn, arrays)
    inputs = {f"x{k}": a for k, a in enumerate(arrays)}
    wanted = evaluate(graph, inputs)
    explicit = expand(graph, random_placements(rng, graph, shape), shape)

    assert verify(graph, explicit) == []
    nodes = materialize(explicit)
    assert validate(nodes.graph) == []
    # What no device reads, such as an input behind a broadcast, may be missing from the shards alone.
    assert {b.site for b in recover(nodes).blocks} <= {b.site for b in graph.blocks}
    for got in (simulate(explicit, mesh_of(shape), inputs).outputs, evaluate_explicit(nodes, inputs)):
        for site, value in wanted.items():
            assert_same(got[site], value)

    space = PlanSpace(graph, mesh_of(shape))
    for genes in (space.abstract_genes(), random_genes(rng, space)):
        run = simulate(expand(graph, space.placements(genes), shape), mesh_of(shape), dry=True)
        predicted = space.evaluate(genes)
        assert int(predicted[PEAK]) == int(run.peak_memory_bytes.max())
        assert int(predicted[TOTAL]) == int(run.peak_memory_bytes.sum())
        assert int(predicted[TRAFFIC]) == run.traffic_bytes


def test_a_wrong_meaning_of_a_part_is_caught(monkeypatch):
    """Check that coordinates that start at zero in every shard, and padding at every shard's own border, are caught."""
    cell, pad = catalog()["cell"], catalog()["pad"]

    def local(xp, definition, index, operands):
        moved = ZRange.of_shape(index.shape)
        return cell.evaluate(xp, definition, moved, operands)

    def anywhere(xp, definition, index, operands):
        at_border = ZRange.of_shape(index.shape)
        moved = [o._replace(start=(0,) * o.array.ndim) for o in operands]
        return pad.evaluate(xp, definition, at_border, moved)

    line = attributes(expr=("index", "row"), labels=(), dims=(("row", 6),), dtype="int64")
    border = attributes(low=(3,), high=(2,))
    cases = [
        (cell, local, OperatorExample(line, ())),
        (pad, anywhere, OperatorExample(border, (TensorType((4,), "int32"),))),
    ]
    for operator, wrong, drawn in cases:
        assert_shards(drawn, operator.name, (3, 2), 0)
        monkeypatch.setitem(catalog(), operator.name, replace(operator, evaluate=wrong))
        with pytest.raises((AssertionError, ValueError)):
            assert_shards(drawn, operator.name, (3, 2), 0)


def test_a_wrong_signature_is_caught():
    """Check that a reduction that declares its dimension parallel, or combines by another monoid, is caught."""
    drawn = OperatorExample(
        attributes(monoid="sum", labels=("a", "b"), output=("a",)), (TensorType((4, 5), "float64"),)
    )
    assert_shards(drawn, "reduce", (3, 2), 0)

    known, _ = define("reduce", drawn.attributes, drawn.inputs)
    for kind in (PARALLEL, "max"):
        dims = tuple(d if d.kind == PARALLEL else replace(d, kind=kind) for d in known.signature.dims)
        wrong = Definition("reduce", drawn.attributes, replace(known.signature, dims=dims))
        with pytest.raises(AssertionError):
            assert_shards(drawn, "reduce", (3, 2), 0, wrong)
