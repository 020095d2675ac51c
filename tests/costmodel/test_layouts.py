"""Tests of plans that choose layouts: three computations of their costs agree, and values are unchanged."""

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import ENERGY, PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.verify import verify
from tests.costmodel.programs import GRAPHS, random_genes

MESHES = ("tpu-v5e-4x4", pytest.param("galaxy-4x8", marks=pytest.mark.slow))


def values_for(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw small whole numbers for every source, indices within bounds."""
    kinds = {b.site: graph.tensors[b.outputs[0]] for b in graph.sources if b.outputs[0] not in graph.data}
    return {s: rng.integers(0, 3, k.shape).astype(numpy_dtype(k.dtype)) for s, k in kinds.items()}


@pytest.mark.slow
@pytest.mark.parametrize("mesh_name", MESHES)
@pytest.mark.parametrize("name", GRAPHS)
def test_random_layouts_cost_what_the_oracle_and_the_simulator_count(name: str, mesh_name: str) -> None:
    graph, mesh, rng = GRAPHS[name](), load_mesh(mesh_name), np.random.default_rng(7)
    space = PlanSpace(graph, mesh)
    for _ in range(4):
        genes = random_genes(rng, space)
        placements = space.placements(genes)
        assert (space.genes_of(placements).strategies == genes.strategies).all()
        fast = space.evaluate(genes)
        assert fast.tolist() == reference_cost(graph, placements, mesh).vector().tolist()
        program = expand(graph, placements, space.mesh_shape)
        assert verify(graph, program) == []
        run = simulate(program, mesh, dry=True, capacity_check=False)
        counted = (run.peak_memory_bytes.max(), run.peak_memory_bytes.sum(), run.traffic_bytes)
        assert (fast[PEAK], fast[TOTAL], fast[TRAFFIC]) == counted
        assert fast[TIME] == pytest.approx(run.makespan_ticks, rel=0.01)


@pytest.mark.parametrize("mesh_name", MESHES)
@pytest.mark.parametrize("name", ["attention", "convolutions", "embedding", "joints"])
def test_values_survive_packing_in_any_layout(name: str, mesh_name: str) -> None:
    graph, mesh, rng = GRAPHS[name](), load_mesh(mesh_name), np.random.default_rng(3)
    inputs = values_for(graph, rng)
    expected = evaluate(graph, inputs)
    space = PlanSpace(graph, mesh)
    genes = random_genes(rng, space)
    program = expand(graph, space.placements(genes), space.mesh_shape)
    run = simulate(program, mesh, inputs, capacity_check=False)
    assert space.evaluate(genes)[PEAK] == run.peak_memory_bytes.max()
    assert any(buffer.layout for buffer in program.buffers.values())
    for site, value in expected.items():
        np.testing.assert_allclose(run.outputs[site], value, rtol=1e-5, atol=1e-5)


def test_native_layouts_alone_on_request() -> None:
    graph, mesh = GRAPHS["attention"](), load_mesh("tpu-v5e-4x4")
    space = PlanSpace(graph, mesh, layouts="native")
    assert all(len(family.dimension_orders) == 1 for family in space.families)
    same = PlanSpace(graph, mesh).evaluate(PlanSpace(graph, mesh).abstract_genes())
    assert space.evaluate(space.abstract_genes()).tolist() == same.tolist()
    assert same[PEAK] > space.space.logical_bytes.sum(), "padding counts"
    assert same[ENERGY] > 0
