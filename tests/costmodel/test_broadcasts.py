"""Tests of broadcasts: reads, by all devices, of what one of them holds. They occur in plans, and are timed as such."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.resharding_tables import copy_table
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.timing import step_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.sharding.copies import Round, plan_copy
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split
from tests.cases import examples
from tests.costmodel.programs import TANH, contract, random_genes, weight
from tests.hardware.simulator.programs import cell, mesh_of
from tests.teg.sharding.specs import random_mesh

BYTES = 4
TWO_NODES = MeshShape.of(node=2, gpu=4)
SLOW_S = 1.0  # of a measured broadcast, beside which all else is short


def slow_broadcasts(mesh: Mesh) -> Mesh:
    """Return a mesh on whose axes broadcasts, as measured, take about a second."""
    table = CollectiveTable("broadcast", 2, (1.0, 2.0**40), (SLOW_S, 1.01 * SLOW_S), 0.1, "made up")
    return replace(mesh, axes=tuple(replace(axis, collectives=(table,)) for axis in mesh.axes))


def last_token(length: int = 16) -> Graph:
    """Build the start of a language model's head: of a sequence of states, one is multiplied by a weight."""
    b = GraphBuilder("last token")
    x = cell(b, "states", TANH, (b.source("x", (length, 32), "float32"),))
    last = view_attributes(sliced((length, 32), (length - 1, 0), (1, 32)))
    (token,) = b.apply("view", (x,), site="token", **dict(last))
    b.sink(contract(b, "logits", token, weight(b, "w", 32, 64), "bm,mv->bv"), site="out")
    return b.build()


def row_read(row: int, rows: int) -> Spec:
    return Spec((WHOLE, WHOLE), windows=(ChunkWindow(rows, 0, row, 1, 0, rows), None))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["dgx-h100", "2x-dgx-h100", "tpu-v4-2x2x2", "tpu-v5e-4x4"])
def test_broadcasts_occur_in_plans_and_take_as_long_in_every_model(mesh: str) -> None:
    # Given a sequence that plans split: the device with the last token is the only one to have it.
    graph, slow = last_token(), slow_broadcasts(load_mesh(mesh))
    space, rng, found = PlanSpace(graph, slow), np.random.default_rng(3), 0
    for _ in range(60):
        genes = random_genes(rng, space)
        placements = space.placements(genes)
        run = simulate(expand(graph, placements, space.mesh_shape), slow, dry=True, capacity_check=False)
        count = sum(any(r.kind == "broadcast" for r, _ in span.exchanges) for span in run.spans)
        fast = int(space.evaluate(genes)[TIME])
        assert fast == reference_cost(graph, placements, slow).vector()[TIME] == run.makespan_ticks
        assert (fast > SLOW_S * 1e12) == (count > 0)
        found += count > 0
    assert found > 0


@pytest.mark.parametrize("row", [0, 5, 15])
def test_over_two_nodes_every_axis_has_one_owner(row: int) -> None:
    # Given 16 rows of 32 on two nodes of 4: the owner's node reads the row, the other one quarters of it, and gathers.
    mesh = mesh_of(TWO_NODES)
    made, needed = Spec((Split(("node.0", "gpu.0", "gpu.1")), WHOLE)), row_read(row, 16)
    plan = plan_copy(made, needed, (16, 32), TWO_NODES)
    assert plan is not None
    counts = count_copy(plan, (16, 32), TWO_NODES, BYTES, False)
    assert counts.busiest == (
        (Round("node", "broadcast", 2, 1), 8 * BYTES),
        (Round("gpu", "broadcast", 4, 1), 32 * BYTES),
        (Round("gpu", "all_gather", 4, 1), 24 * BYTES),
    )
    table = copy_table((16, 32), BYTES, [made], [needed], mesh, TWO_NODES)
    assert table.ticks[0, 0] == counts.ticks(mesh)


def test_rows_of_two_owners_are_gathered() -> None:
    four = MeshShape.of(gpu=4)
    made = Spec((Split(("gpu.0", "gpu.1")), WHOLE))
    kinds = []
    for first in range(6):
        needed = Spec((WHOLE, WHOLE), windows=(ChunkWindow(8, 0, first, 2, 0, 8), None))
        plan = plan_copy(made, needed, (8, 4), four)
        assert plan is not None
        kinds += [round_.kind for round_, _ in count_copy(plan, (8, 4), four, BYTES, False).busiest]
    assert kinds == ["broadcast", "all_gather"] * 3


def test_a_dimension_with_fewer_parts_than_devices_has_owners() -> None:
    # Given one row of granules of two devices: one row on the first of four, nothing on the others.
    four = MeshShape.of(gpu=4)
    plan = plan_copy(Spec((Split(("gpu.0", "gpu.1")), WHOLE)), Spec((WHOLE, WHOLE)), (1, 4), four)
    assert plan is not None
    counts = count_copy(plan, (1, 4), four, BYTES, False)
    assert counts.busiest == ((Round("gpu", "broadcast", 4, 1), 4 * BYTES),)


def test_a_broadcast_has_the_time_of_its_kind() -> None:
    four = MeshShape.of(gpu=4)
    mesh = slow_broadcasts(mesh_of(four))
    made = [Spec((Split(("gpu.0", "gpu.1")), WHOLE))]
    table = copy_table((16, 32), BYTES, made, [row_read(2, 16), Spec((WHOLE, WHOLE))], mesh, four)
    assert table.ticks[0, 0] == step_ticks(mesh.axes[0], "broadcast", 4, 32 * BYTES) >= SLOW_S * 1e12
    assert table.ticks[0, 1] < SLOW_S * 1e12


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32 - 1))
def test_random_reads_of_rows_have_the_kinds_that_the_simulator_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape = random_mesh(rng)
    rows = int(rng.integers(1, 40))
    mesh = slow_broadcasts(mesh_of(mesh_shape))
    names = [s.name for s in mesh_shape.sub_axes if rng.random() < 0.7]
    made = Spec((Split(tuple(names)), WHOLE)) if names else Spec((WHOLE, WHOLE))
    first = int(rng.integers(0, rows))
    count = int(rng.integers(1, rows - first + 1))
    needed = Spec((WHOLE, WHOLE), windows=(ChunkWindow(rows, 0, first, count, 0, rows), None))
    table = copy_table((rows, 8), BYTES, [made], [needed], mesh, mesh_shape)
    plan = plan_copy(made, needed, (rows, 8), mesh_shape)
    if plan is None:
        assert table.ticks[0, 0] == -1
    else:
        counted = count_copy(plan, (rows, 8), mesh_shape, BYTES, False)
        assert table.ticks[0, 0] == counted.ticks(mesh)
