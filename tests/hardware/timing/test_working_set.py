"""Tests of reads that no cache serves: those of sources of programs that touch far more than it holds."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.kernels import KernelFigures
from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.pinned import run_pinned
from tapestry.hardware.timing import cold_tensors
from tapestry.teg.graph import Graph
from tapestry.teg.programs import program
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.placement import Placements
from tests.costmodel.programs import random_genes

MESH = load_mesh("dgx-h100")
STREAMS = KernelFigures(memory_efficiency=0.5, cache_efficiency=0.5)
COLUMN = 4096 * 4  # bytes of a row


def layers(count: int) -> Graph:
    """Return a program of `count` sums of the same 64 rows and a parameter of 1 MiB each, and a table that it reads."""
    with program("layers") as p:
        x = p.input("x", row=64, column=4096)
        for k in range(count):
            w = p.parameter(f"w{k}", row=65, column=4096)
            x = x + w.select(row=slice(0, 64))
        table = p.parameter("table", word=2**16, column=4096)
        p.output("y", x)
        p.output("z", table.gather(p.input("ids", row=64, dtype="int64"), "word"))
    return p.graph


def cached(cache_bytes: int, fresh_bytes: int | None = None) -> Mesh:
    """Return the mesh with another cache, and outputs of `fresh_bytes` and more that are allocated anew at 1 GB/s."""
    rate = None if fresh_bytes is None else 1e9
    device = replace(MESH.device, cache_bytes=cache_bytes, fresh_bytes=fresh_bytes, fresh_bytes_per_s=rate)
    return replace(MESH, device=replace(device, kernels={"elementwise": STREAMS}))


def times(graph: Graph, mesh: Mesh) -> Iterator[int]:
    """Yield the time of the unsharded program by each account of it."""
    alone = mesh.part((("gpu", 1),))
    space = PlanSpace(graph, alone)
    genes = space.abstract_genes()
    yield int(space.evaluate(genes)[0])
    yield reference_cost(graph, space.placements(genes), alone).time_ticks
    yield UnshardedCosts(alone.device).time_ticks(graph)
    yield simulate(expand(graph, Placements(), space.mesh_shape), alone, dry=True).makespan_ticks
    yield run_pinned(graph, alone, dry=True).makespan_ticks


def test_sources_are_cold_where_the_program_touches_over_twice_the_cache() -> None:
    # Given 3 layers: x, the 3 parameters, 3 sums; 64 rows of the table and as many results, and 64 indices.
    graph = layers(3)
    touched = (1 + 3 + 3 + 2) * 64 * COLUMN + 64 * 8
    device = replace(MESH.device, cache_bytes=touched // 2)
    assert cold_tensors(graph, device) == frozenset()
    device = replace(device, cache_bytes=touched // 2 - 1)
    sources = {t for block in graph.sources for t in block.outputs}
    views = {t for block in graph.blocks if block.is_view for t in block.outputs}
    assert len(views) == 3 and cold_tensors(graph, device) == sources | views
    assert cold_tensors(graph, device, device_count=2) == frozenset()
    assert cold_tensors(graph, replace(device, cache_bytes=None, cache_bytes_per_s=None)) == frozenset()


def test_what_is_cold_takes_the_rate_of_the_memory() -> None:
    rates = (MESH.device.memory_bytes_per_s, MESH.device.cache_bytes_per_s or 0)
    slow, fast = (0.5 * rate for rate in rates)
    small, large = (next(times(layers(8), cached(size))) for size in (2**24, 2**22))
    # Then x, 8 parameters, and the rows of the table by their indices come from the memory, no more from the cache.
    cold = 10 * 64 * COLUMN + 64 * 8
    assert (large - small) / 1e12 == pytest.approx(cold * (1 / slow - 1 / fast), rel=1e-6)


@pytest.mark.parametrize("cache_bytes", [2**20 * 4, 2**30])
@pytest.mark.parametrize("fresh_bytes", [None, 2**20])
def test_all_accounts_of_a_program_agree(cache_bytes: int, fresh_bytes: int | None) -> None:
    assert len(set(times(layers(8), cached(cache_bytes, fresh_bytes)))) == 1


def test_sharded_plans_take_the_same_time_by_all_accounts() -> None:
    mesh = cached(2**18, 2**17)
    space = PlanSpace(layers(4), mesh)
    rng = np.random.default_rng(3)
    assert cold_tensors(space.graph, mesh.device, mesh.device_count)
    for _ in range(8):
        genes = random_genes(rng, space)
        placements = space.placements(genes)
        ticks = int(space.evaluate(genes)[0])
        assert reference_cost(space.graph, placements, mesh).time_ticks == ticks
        assert (
            simulate(expand(space.graph, placements, space.mesh_shape), mesh, dry=True).makespan_ticks
            == ticks
        )
