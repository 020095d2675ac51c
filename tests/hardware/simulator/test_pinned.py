"""Tests of explicit graphs run as they are: where each block runs, and the data fetched, held and priced."""

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import run_pinned, simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.costs import cost_table
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.teg.sharding.programs import random_placements, random_program
from tests.teg.sharding.test_external_graphs import paper

MESH = load_mesh("dgx-h100")


def test_the_sharded_example_moves_nothing_and_the_fused_one_fetches_a_half() -> None:
    sharded, fused = (run_pinned(paper(concat), MESH, dry=True) for concat in (False, True))
    assert sharded.traffic_bytes == 0
    np.testing.assert_array_equal(sharded.flops, [6, 6, 0, 0, 0, 0, 0, 0])
    # A, B and C parts of 2 x 3 floats each; fused: A1 (freed by the join's end), A2's copy, B, A, C.
    np.testing.assert_array_equal(sharded.peak_memory_bytes[:3], [72, 72, 0])
    assert fused.traffic_bytes == 24 and fused.received_bytes[0] == 24
    np.testing.assert_array_equal(fused.flops, [12, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(fused.peak_memory_bytes[:2], [144, 24])
    assert fused.makespan_ticks > sharded.makespan_ticks > 0


def test_values_come_from_the_parts() -> None:
    ones = np.ones((2, 3), np.float32)
    run = run_pinned(paper(False), MESH, {"A1": ones, "A2": 2 * ones, "B@0": ones, "B@1": ones})
    assert {site: float(v[0, 0]) for site, v in run.outputs.items()} == {"Sink@0": 2.0, "Sink@1": 3.0}


@pytest.mark.parametrize("seed", range(12))
def test_an_expansion_moves_no_more_as_nodes_than_slot_by_slot(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    mesh_shape = MeshShape(MESH.axis_sizes)
    program = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    nodes = run_pinned(materialize(program).graph, MESH, dry=True)
    slots = simulate(program, MESH, dry=True)
    # Slot by slot a device without work receives its replicas all the same; as nodes nobody there reads them.
    assert 0.5 * slots.traffic_bytes <= nodes.traffic_bytes <= slots.traffic_bytes
    # Combining partial results is a block among nodes, and part of a copy slot by slot.
    assert (nodes.flops >= slots.flops).all()


def test_a_device_that_is_not_there_is_refused() -> None:
    graph = paper(False)
    far = graph.replace(
        [type(b)(b.site, b.definition, b.inputs, b.outputs, b.index, 9) for b in graph.blocks]
    )
    with pytest.raises(ValueError, match=r"devices 0 to 7, but the graph pins 'A1' on device 9.* and 3 more"):
        run_pinned(far, MESH, dry=True)


def priced() -> Graph:
    b = GraphBuilder("priced")
    x = b.source("x", (4, 6), "float32")
    table = cost_table({"gpu": 3, "flops": 10}, {"a": {"ram": 2}})
    given = {"expr": ("neg", ("input", 0)), "labels": (("a", "b"),), "dims": (("a", 4), ("b", 6))}
    b.apply("cell", (x,), site="y", costs=table, dtype="float32", **given)
    b.sink("y", site="z")
    return b.build()


def test_the_programs_own_costs_are_summed() -> None:
    graph = priced()
    run = run_pinned(graph, MESH, random_inputs(graph, np.random.default_rng(0)))
    assert run.resources == {"flops": 10, "gpu": 3, "ram": 8}
    assert run.flops[0] == 10
