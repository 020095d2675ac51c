"""Tests of copy tables: by hand where a person can count, against the simulator's counts for random pairs of specs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.resharding_tables import ReshardingTable, copy_table
from tapestry.hardware import Mesh, MeshAxis, load_device
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.timing import step_ticks
from tapestry.teg.sharding.copies import plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes, volumes
from tapestry.teg.sharding.text import parse_spec
from tests.cases import examples
from tests.hardware.simulator.programs import mesh_of
from tests.teg.sharding.specs import random_mesh, random_needed, random_shape, random_spec

FOUR = MeshShape.of(gpu=4)
TWO_NODES = MeshShape.of(node=2, gpu=4)
BYTES = 4


def table_of(
    shape: tuple[int, ...], made: list[Spec], needed: list[Spec], mesh_shape: MeshShape
) -> ReshardingTable:
    return copy_table(shape, BYTES, made, needed, mesh_of(mesh_shape), mesh_shape)


def one(shape: tuple[int, ...], made: str, needed: str, mesh_shape: MeshShape) -> tuple[bool, int, list[int]]:
    """Return for one pair whether it is a view, its traffic in elements, and its staging in elements per device."""
    rank = len(shape)
    table = table_of(shape, [parse_spec(made, rank)], [parse_spec(needed, rank)], mesh_shape)
    staging = table.staging_bytes[table.staging_ids[0, 0]] // BYTES
    return bool(table.ticks[0, 0] < 0), int(table.traffic_bytes[0, 0]) // BYTES, staging.tolist()


@pytest.mark.parametrize(
    ("made", "needed", "is_view", "traffic", "staging"),
    [
        ("[-, -]", "[gpu.0*gpu.1, -]", True, 0, [0] * 4),
        ("[gpu.0*gpu.1, -]", "[gpu.0*gpu.1, -]", True, 0, [0] * 4),
        # all-gather: everyone lacks three quarters of 48
        ("[gpu.0*gpu.1, -]", "[-, -]", False, 4 * 36, [0] * 4),
        # all-to-all: everyone packs columns of its quarter to send them; the last device needs none of them itself
        ("[gpu.0*gpu.1, -]", "[-, gpu.0*gpu.1]", False, 4 * 9, [12] * 4),
        ("[gpu.0, -]", "[-, gpu.0]", False, 4 * 12, [12] * 4),  # halves, of which halves are sent
        # a halo of one column of 8: packed for either side, as in the middle; with the own ones it lands first
        ("[-, gpu.0*gpu.1]", "[-, gpu.0*gpu.1@6:1:-1:3:0:6]", False, 4 * 8, [16 + 24, 16 + 32, 16 + 24, 0]),
        # back: rows of columns are sent as they are, and land before they are columns of rows
        ("[-, gpu.0*gpu.1]", "[gpu.0*gpu.1, -]", False, 4 * 9, [12] * 4),
        # halves to quarters nest
        ("[gpu.0, -]", "[gpu.0*gpu.1, -]", True, 0, [0] * 4),
        # all-reduce: 3/4 in, 3/4 out; the slice in hand is 12 elements
        ("[-, -] sum(gpu.0*gpu.1)", "[-, -]", False, 4 * (3 * 12 + 36), [12] * 4),
        # reduce-scatter in one step: three slices of 12 come in
        ("[-, -] sum(gpu.0*gpu.1)", "[gpu.0*gpu.1, -]", False, 4 * 36, [12] * 4),
        # by columns, of which the last device gets none: 16 or 0 come in, the other 32 or 48 were packed
        ("[-, -] sum(gpu.0*gpu.1)", "[-, gpu.0*gpu.1]", False, 3 * 48, [48] * 4),
        # max over two devices, then columns over the other two: three of them are packed before the all-reduce of 24
        ("[-, -] max(gpu.0)", "[-, gpu.1]", False, 4 * (12 + 12), [24 + 12] * 4),
        # max over two devices, then split over the other two: sliced first, all-reduce of 24
        ("[-, -] max(gpu.0)", "[gpu.1, -]", False, 4 * (12 + 12), [12] * 4),
        # windows: rows [2i-1, 2i+4) of 8, clipped: 4, 5, 5 and 3 rows of 6, two of them at home
        ("[gpu.0*gpu.1, -]", "[gpu.0*gpu.1@8:1:-1:4:0:8, -]", False, (2 + 3 + 3 + 1) * 6, [0] * 4),
    ],
)
def test_counted_by_hand(made: str, needed: str, is_view: bool, traffic: int, staging: list[int]) -> None:
    assert one((8, 6), made, needed, FOUR) == (is_view, traffic, staging)


def test_two_steps_of_a_reduce_scatter_keep_a_reduced_slice() -> None:
    # Within the node first: 3 slices of 16 (what both nodes still share), then 1 slice of 8 from the other node.
    found = one((64,), "[-] sum(node.0*gpu.0*gpu.1)", "[node.0*gpu.0*gpu.1]", TWO_NODES)
    assert found == (False, 8 * (3 * 16 + 8), [32] * 8)


def test_a_reduction_before_a_fetch_stages_its_result() -> None:
    # 6 rows do not split into 4 equal chunks and the windows refuse a scatter: all-reduce, then nothing to fetch.
    is_view, traffic, staging = one((6,), "[-] sum(gpu.0*gpu.1)", "[gpu.0*gpu.1@6:1:0:1:0:6]", FOUR)
    # slices of ceil(6/4) = 2, 2, 2, 0: each reduces its own (3 peers), and gathers the rest
    assert (is_view, traffic) == (False, 3 * 6 + (4 + 4 + 4 + 6))
    assert staging == [2 + 6, 2 + 6, 2 + 6, 0 + 6]


def test_the_far_node_is_read_once_per_element() -> None:
    # Every device lacks half; replicas within a node share the transfer, the bytes received stay the same.
    assert one((64,), "[node.0]", "[-]", TWO_NODES) == (False, 8 * 32, [0] * 8)


def torus(mesh_shape: MeshShape) -> Mesh:
    """Build a mesh with equal two-way links on every axis, so that no round hides behind a slower one."""
    axes = tuple(MeshAxis(name, size, "torus", 45e9, 1e-6) for name, size in mesh_shape.axes)
    return Mesh("made up", load_device("tpu-v4"), axes)


def test_what_comes_from_afar_is_gathered_over_every_nearer_axis() -> None:
    # Given halves on x: every device lacks 3200 elements, and four share them: 800 each over x. Then two
    # of the other three differ from it on y, one on z only.
    mesh_shape = MeshShape.of(x=2, y=2, z=2)
    made, needed = parse_spec("[x.0]", 1), parse_spec("[-]", 1)
    cube = torus(mesh_shape)

    table = copy_table((6400,), BYTES, [made], [needed], cube, mesh_shape)

    starts = [int(step_ticks(axis, "all_gather", 2, 1)) for axis in cube.axes]
    received = (800, 1600, 800)
    work = [
        int(step_ticks(axis, "all_gather", 2, n * BYTES)) - start
        for axis, n, start in zip(cube.axes, received, starts, strict=True)
    ]
    # what is on y, beside it x and z in one piece, for they take less than a start: pieces follow one another
    assert work[0] + work[2] < sum(starts)
    expected = sum(starts) + sum(work)
    plan = plan_copy(made, needed, (6400,), mesh_shape)
    assert plan is not None
    assert table.ticks[0, 0] == expected == count_copy(plan, (6400,), mesh_shape, BYTES, False).ticks(cube)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32 - 1))
def test_random_pairs_on_a_torus_take_as_long_as_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape, shape = random_mesh(rng), random_shape(rng)
    made, needed = (
        random_spec(rng, len(shape), mesh_shape, partial=True),
        random_needed(rng, shape, mesh_shape),
    )

    table = copy_table(shape, BYTES, [made], [needed], torus(mesh_shape), mesh_shape)

    plan = plan_copy(made, needed, shape, mesh_shape)
    counted = (
        0 if plan is None else count_copy(plan, shape, mesh_shape, BYTES, False).ticks(torus(mesh_shape))
    )
    assert max(0, table.ticks[0, 0]) == pytest.approx(counted, rel=0.01)


@settings(max_examples=examples(120))
@given(st.integers(0, 2**32 - 1))
def test_random_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape, shape = random_mesh(rng), random_shape(rng)
    made = list(dict.fromkeys(random_spec(rng, len(shape), mesh_shape, partial=True) for _ in range(4)))
    needed = list(dict.fromkeys(random_needed(rng, shape, mesh_shape) for _ in range(4)))

    table = table_of(shape, made, needed, mesh_shape)

    for p, a in enumerate(made):
        assert table.made_bytes[p].tolist() == (volumes(boxes(a, shape, mesh_shape)) * BYTES).tolist()
        for n, b in enumerate(needed):
            assert table.needed_bytes[n].tolist() == (volumes(boxes(b, shape, mesh_shape)) * BYTES).tolist()
            assert_pair(table, p, n, a, b, shape, mesh_shape)


def assert_pair(
    table: ReshardingTable, p: int, n: int, a: Spec, b: Spec, shape: tuple[int, ...], mesh_shape: MeshShape
) -> None:
    plan = plan_copy(a, b, shape, mesh_shape)
    staging = table.staging_bytes[table.staging_ids[p, n]]
    assert (table.ticks[p, n] < 0) == (plan is None)
    if plan is None:
        assert table.traffic_bytes[p, n] == 0
        assert not staging.any()
        return
    counts = count_copy(plan, shape, mesh_shape, BYTES, False)
    assert table.traffic_bytes[p, n] == counts.received_bytes.sum()
    assert staging.tolist() == counts.staging_bytes.tolist()
    assert table.ticks[p, n] == pytest.approx(counts.ticks(mesh_of(mesh_shape)), rel=0.01)


def test_equal_pairs_cost_equal_wherever_they_stand_in_the_table() -> None:
    rng = np.random.default_rng(5)
    made = [random_spec(rng, 2, TWO_NODES, partial=True) for _ in range(6)]
    needed = [random_needed(rng, (9, 7), TWO_NODES) for _ in range(6)]
    table = table_of((9, 7), made, needed, TWO_NODES)
    for p, a in enumerate(made):
        for n, b in enumerate(needed):
            alone = table_of((9, 7), [a], [b], TWO_NODES)
            assert alone.ticks[0, 0] == table.ticks[p, n]
            assert alone.traffic_bytes[0, 0] == table.traffic_bytes[p, n]
            assert alone.energy_pj[0, 0] == table.energy_pj[p, n]
