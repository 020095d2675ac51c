"""Tests of traffic by copy: nothing is left out, nothing counts twice, and all that is counted has a reader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.optimizer.analysis.plan_traffic import TensorRead, plan_traffic
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import GRAPHS
from tests.optimizer.analysis.shared_plans import CASES


@pytest.mark.parametrize("name", CASES)
def test_copies_and_blocks_add_up_to_what_the_plan_costs(name: str) -> None:
    """Compare with the reference cost model, which counts by code of its own."""
    case = CASES[name]()
    found = plan_traffic(case.graph, case.placements, case.mesh)
    cost = reference_cost(case.graph, case.placements, case.mesh)
    assert sum(each.traffic_bytes for each in found.redistributions) == cost.traffic_bytes
    assert sum(each.flops for each in found.blocks.values()) == cost.compute_flops
    assert found.has_energy == (case.mesh.device.missing_energy_figure is None)
    energy_pj = sum(each.energy_pj for each in found.blocks.values())
    assert 0 <= energy_pj <= cost.energy_pj
    assert found.execution.makespan_ticks == pytest.approx(cost.time_ticks, rel=0.01)

    run = simulate(found.program, case.mesh.part(found.program.axes), dry=True, capacity_check=False)
    assert sum(each.ticks for each in found.redistributions) == run.copy_ticks
    assert sum(each.accessed_bytes for each in found.blocks.values()) == run.accessed_bytes.sum()
    assert found.received_bytes.sum(axis=0).tolist() == run.received_bytes.tolist()
    for axis, received in zip(found.program.axes, found.received_bytes, strict=True):
        by_kind = [
            size for e in found.redistributions for of, size in e.exchanges.items() if of.axis == axis[0]
        ]
        assert sum(by_kind) == received.sum() == run.axis_bytes[axis[0]]
    if run.link_bytes is not None:
        assert run.link_bytes.sum() == cost.traffic_bytes


@pytest.mark.parametrize("graph", GRAPHS)
def test_without_copies_blocks_use_the_energy_of_the_plan(graph: str) -> None:
    """Compare with the reference cost model, and leave the energy open where the device has no figures."""
    program, mesh = GRAPHS[graph](), load_mesh("dgx-h100")
    placements = with_boundary(program, Placements({}))
    found = plan_traffic(program, placements, mesh)
    assert not found.redistributions and found.has_energy
    energy_pj = reference_cost(program, placements, mesh).energy_pj
    assert sum(each.energy_pj for each in found.blocks.values()) == energy_pj > 0
    bare = replace(mesh, device=replace(mesh.device, joules_per_flop=None))
    assert bare.device.missing_energy_figure is not None
    assert not plan_traffic(program, placements, bare).has_energy


@pytest.mark.parametrize("name", CASES)
def test_every_copy_belongs_to_the_reads_that_it_serves(name: str) -> None:
    case = CASES[name]()
    program = expand(case.graph, case.placements, MeshShape(case.mesh.axis_sizes))
    found = plan_traffic(case.graph, case.placements, case.mesh)
    copies = [copy for slot in program.slots for copy in slot.issued]
    assert sum(each.times for each in found.redistributions) == len(copies)
    assert all(each.reads and each.rounds for each in found.redistributions)
    made = {copy.result for copy in copies}
    served = {
        TensorRead(slot.step.site, k)
        for slot in program.slots
        for k, read in enumerate(slot.step.reads)
        if read.buffer in made
    }
    assert served == {read for each in found.redistributions for read in each.reads}
    runs = {site: totals.times for site, totals in found.blocks.items()}
    assert sum(runs.values()) == len(program.slots)


def test_a_copy_of_two_readers_counts_once_and_one_in_rounds_each_time() -> None:
    b = GraphBuilder("shared")
    x = b.source("x", (64, 64), "float32")
    relu = {"expr": ("relu", ("input", 0)), "labels": (("m", "n"),), "dims": (("m", 64), ("n", 64))}
    for site in ("first", "second"):
        b.sink(b.apply("cell", (x,), site=site, dtype="float32", **relu)[0], site=f"{site}.out")
    split = {"x": Placement(parse_strategy("(gpu.0*gpu.1*gpu.2, -)"))}
    found = plan_traffic(b.build(), Placements(split), load_mesh("dgx-h100"))
    (copy,) = found.redistributions
    assert [(read.site, read.position) for read in copy.reads] == [("first", 0), ("second", 0)]
    assert (copy.times, copy.rounds, copy.traffic_bytes) == (1, {0}, 8 * 7 * 8 * 64 * 4)
    ((of, size),) = copy.exchanges.items()
    assert (of.axis, of.kind, of.members, size) == ("gpu", "all_gather", 8, copy.traffic_bytes)
