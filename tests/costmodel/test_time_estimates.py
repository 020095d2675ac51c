"""Tests that estimates of plan spaces are those of the simulator: the same ticks in the same classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.simulator import simulate, time_estimate
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.teg.sharding.expand import expand
from tests.cases import first
from tests.costmodel.programs import GRAPHS, priced, product_of, random_genes

PLANS = 8
QUEUES = (1, 2)


def mesh_with(queues: int) -> Mesh:
    mesh = load_mesh("2x-dgx-h100")
    return replace(mesh, device=replace(mesh.device, communication_queues=queues, communication_cores=16))


def random_plans(space: PlanSpace, seed: int) -> Iterator[Genes]:
    rng = np.random.default_rng(seed)
    yield space.abstract_genes()
    for _ in range(PLANS):
        yield random_genes(rng, space)


@pytest.mark.parametrize("queues", QUEUES)
@pytest.mark.parametrize("name", first(2, list(GRAPHS)))
def test_estimates_are_those_of_the_simulator(name: str, queues: int) -> None:
    """Compare where the simulator takes the same time: it does not wait for the slowest device after each block."""
    space = PlanSpace(GRAPHS[name](), mesh_with(queues))
    equal = 0
    for genes in random_plans(space, 5):
        found = estimate_time(space, genes)
        ticks = int(space.evaluate(genes)[TIME])
        assert found.seconds == pytest.approx(ticks / TICKS_PER_S, rel=1e-12)
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        run = simulate(program, space.mesh, dry=True)
        if run.makespan_ticks == ticks:
            equal += 1
            assert found == time_estimate(run, space.mesh)
    assert equal > 1


def test_an_estimate_names_what_a_plan_waits_for() -> None:
    """Sum a large product over all devices: its time is that of the product and of the collectives on both axes."""
    space = PlanSpace(product_of(4096, 8192, 4096), load_mesh("2x-dgx-h100"))
    genes = space.abstract_genes()
    everywhere = "node.0*gpu.0*gpu.1*gpu.2"
    for site, text in (
        ("x", f"(-, {everywhere})"),
        ("w", f"({everywhere}, -)"),
        ("y", f"(-, -, {everywhere})"),
        ("y.out", f"({everywhere}, -)"),
    ):
        gene = space.gene_of[site]
        genes.strategies[gene] = [str(s) for s in space.families[gene].strategies].index(text)
    classes = estimate_time(space, genes).classes
    assert any(name.startswith("matrix_product.") for name in classes)
    assert any("reduce_scatter on" in name or name.startswith("groups over") for name in classes)
    assert all(each.seconds > 0 and each.error > 0 for each in classes.values())


def test_stated_seconds_are_certain() -> None:
    graph = priced()
    space = PlanSpace(graph, load_mesh("dgx-h100"))
    found = estimate_time(space, space.abstract_genes())
    run = simulate(
        expand(graph, space.placements(space.abstract_genes()), space.mesh_shape), space.mesh, dry=True
    )
    assert found == time_estimate(run, space.mesh)


@pytest.mark.parametrize("name", first(1, ("leftovers", "attention", "joints")))
def test_at_a_quantile_the_estimate_is_of_the_median(name: str) -> None:
    median = PlanSpace(GRAPHS[name](), load_mesh("dgx-h100"))
    late = PlanSpace(GRAPHS[name](), load_mesh("dgx-h100").at_quantile(0.9))
    for genes in random_plans(median, 9):
        found, expected = estimate_time(late, genes), estimate_time(median, genes)
        assert found.seconds == pytest.approx(expected.seconds, rel=1e-6)
        assert found.classes.keys() == expected.classes.keys()
        for key, each in expected.classes.items():
            assert found.classes[key].error == pytest.approx(each.error)
            assert found.classes[key].seconds == pytest.approx(each.seconds, rel=1e-4)
        assert late.evaluate(genes)[TIME] / TICKS_PER_S > found.seconds * 1.01
