"""Tests that a table states over the user's dimensions what the plan does, and refuses only what is none of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapestry
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.document import table_text
from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable, TensorSharding
from tapestry.teg.importers.shardings.pins import pins_of
from tapestry.teg.importers.shardings.table_file import from_table
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Spec, boxes
from tapestry.teg.sharding.strategy import producer_spec
from tapestry.teg.sharding.text import parse_strategy
from tests.teg.exporters.tables.plans import RandomPlan, random_plan


def held(plan: RandomPlan, found: TensorSharding) -> list[set[int]]:
    """Return the elements, by their row-major numbers, that each device holds as the plan stores the tensor."""
    placed = with_boundary(plan.program, plan.placements)
    block = plan.program.by_site[found.site]
    site = (block.outputs or block.inputs)[0]
    stored = plan.program.tensors[site].shape
    strategy = placed.of(block).strategy
    spec = (
        producer_spec(block.signature, 0, len(stored), strategy) if block.outputs else Spec(strategy.splits)
    )
    numbers = np.arange(np.prod(stored, dtype=int)).reshape(stored)
    return [
        set(numbers[tuple(slice(*side) for side in box)].reshape(-1).tolist())
        for box in boxes(spec, stored, plan.mesh_shape)
    ]


def stated(table: ShardingTable, found: TensorSharding) -> list[set[int]]:
    numbers = np.arange(np.prod(found.shape, dtype=int)).reshape(found.shape)
    return [
        set(numbers[tuple(slice(*side) for side in box)].reshape(-1).tolist()) for box in table.boxes(found)
    ]


@given(st.integers(0, 2**32))
def test_devices_hold_the_elements_that_the_table_states(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed), tensors=2)
    table = plan.table
    assert table.device_count == plan.mesh_shape.device_count
    for found in table.tensors:
        if not any(dim.fault for dim in found.dims):
            assert stated(table, found) == held(plan, found), found


@given(st.integers(0, 2**32))
def test_what_is_refused_is_split_in_no_equal_chunks_of_the_dimension(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed), tensors=3)
    for found in plan.table.tensors:
        stored = found.factored
        if len(found.shape) != 1 or not found.dims[0].fault or stored is None:
            continue
        if any(dim.axes and dim.chunk >= n for n, dim in zip(stored.shape, stored.dims, strict=True)):
            continue  # a granule leaves everything to the first device
        size = found.shape[0]
        parts = {tuple(sorted(part)) for part in held(plan, found) if part}
        chunk = max(map(len, parts))
        assert parts != {tuple(range(a, min(a + chunk, size))) for a in range(0, size, chunk)}


@pytest.mark.parametrize(
    ("strategy", "axes", "fault"),
    [
        ("(-, -, gpu.0*gpu.1, -)", [], "several ranges"),
        ("(gpu.2, gpu.0, gpu.1, -)", ["gpu_0"], ""),
        ("(-, gpu.0, -, -)", ["gpu_0"], ""),
    ],
)
def test_a_weight_stored_by_parts_and_heads_is_split_from_the_outermost_factor_inward(
    strategy: str, axes: list[str], fault: str
) -> None:
    builder = GraphBuilder("heads")
    attrs = {"shape": (4, 2, 4, 6), "dtype": "float32", "role": "parameter", "logical_shape": (4, 48)}
    (weight,) = builder.apply("source", (), site="w", **attrs)
    builder.sink(weight, site="y")
    graph, shape = builder.build(), MeshShape.of(gpu=8)

    table = sharding_table(graph, graph, Placements({"w": Placement(parse_strategy(strategy))}), shape)

    found = table.by_name["w"]
    assert found.shape == (4, 48)
    assert list(found.dims[1].axes) == axes
    assert fault in found.dims[1].fault
    assert (found.factored is not None) == bool(fault)


def test_tensors_without_elements_and_scalars_are_in_the_table() -> None:
    builder = GraphBuilder("small")
    for site, shape in (("none", (0, 4)), ("one", ())):
        builder.sink(builder.source(site, shape, "float32"), site=f"{site}.out")
    graph = builder.build()
    table = sharding_table(graph, graph, Placements({}), MeshShape.of(gpu=2))
    assert [(t.name, [dim.chunk for dim in t.dims]) for t in table.tensors[:2]] == [
        ("none", [0, 4]),
        ("one", []),
    ]
    pins = pins_of(from_table(table_text(table)), graph, MeshShape.of(gpu=2))
    assert pins == {"none": "[-, -]", "one": "[]", "none.out": "[-, -]", "one.out": "[]"}


def test_a_program_of_the_builder_has_its_own_tensors_for_values() -> None:
    with tapestry.program("net") as p:
        x = p.input("x", batch=16, features=32)
        p.output("y", p.cell(lambda a: a * 2, x, name="h").relu())
    split = Placements({"h": Placement(parse_strategy("(-, gpu.0)"))})
    table = sharding_table(p.graph, p.graph, split, MeshShape.of(gpu=2))
    assert table.by_name["h"].role == INTERMEDIATE
    assert [dim.axes for dim in table.by_name["h"].dims] == [(), ("gpu",)]
