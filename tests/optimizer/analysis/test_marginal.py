"""Tests of marginal times: of blocks whose times follow by hand, and of a plan's largest parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tapestry
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.kernels import KernelFigures
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.analysis.marginal import marginal_times
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.strategy import Split, Strategy
from tests.teg.sharding.looped import in_rounds, training_by_terms

LAUNCH_S = 1e-6
BYTES_PER_S = 1e12
ROWS, COLUMNS = 64, 1024


def round_mesh() -> Mesh:
    """Return devices that launch in 1 us, stream 1 TB/s and compute without limit."""
    mesh = load_mesh("dgx-h100")
    device = replace(
        mesh.device,
        kernels={"elementwise": KernelFigures(), "copy": KernelFigures()},
        memory_bytes_per_s=BYTES_PER_S,
        vector_flops_per_s=1e18,
        launch_overhead_s=LAUNCH_S,
    )
    return replace(mesh, device=device)


def twice_activated() -> Graph:
    with tapestry.program("two") as p:
        p.output("y", p.input("x", ROWS, COLUMNS).relu().relu())
    return p.graph


def test_a_stream_costs_its_launch_and_its_bytes_per_step() -> None:
    found = marginal_times(twice_activated(), Placements(), round_mesh())
    (each,) = found
    element_s = 2 * 4 / BYTES_PER_S  # read and written
    assert len(each.sites) == 2 and each.time_class == "elementwise"
    tick = pytest.approx
    assert each.seconds == tick(LAUNCH_S + ROWS * COLUMNS * element_s, abs=1 / TICKS_PER_S)
    assert each.fixed_s == tick(LAUNCH_S + element_s, abs=1 / TICKS_PER_S)
    assert [step.size for step in each.steps] == [ROWS, COLUMNS]
    assert [step.seconds for step in each.steps] == tick([COLUMNS * element_s, ROWS * element_s], rel=1e-4)


def test_parts_of_devices_count() -> None:
    graph = twice_activated()
    first = next(block for block in graph.blocks if block.operator != "source")
    placed = Placement(Strategy((Split(("gpu.0",)), Split())))
    found = marginal_times(graph, Placements({first.site: placed}), round_mesh())
    sizes = {each.sites: [step.size for step in each.steps] for each in found}
    assert sizes[first.site,] == [ROWS // 2, COLUMNS] and len(sizes) == 2


def test_rounds_are_counted_beside_the_time_of_one() -> None:
    graph = training_by_terms(24, "float32")
    found = marginal_times(graph, Placements({}, rounds=in_rounds(4)), round_mesh())
    rounds = {site: each.rounds for each in found for site in each.sites}
    assert rounds["step.w1~waypoint"] == rounds["hidden"] == 4 and rounds["new.w1"] == 1
    (hidden,) = (each for each in found if "hidden" in each.sites)
    assert hidden.sites == ("hidden",) and hidden.steps[0].size == 6


def test_a_quantile_lengthens_all_of_it() -> None:
    mesh = round_mesh()
    (median,), (late,) = (
        marginal_times(twice_activated(), Placements(), each) for each in (mesh, mesh.at_quantile(0.9))
    )
    assert late.fixed_s / median.fixed_s == pytest.approx(late.seconds / median.seconds, rel=1e-5)
    assert late.seconds > median.seconds
