"""Tests of runs of several steps: state begins each step where the step before left it."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import TIME, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware.simulator import simulate, simulate_steps
from tapestry.hardware.simulator.steps import check_state
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import first
from tests.hardware.simulator.programs import MESHES, cell, mesh_of, random_placements, random_program

FOUR = MeshShape.of(gpu=4)
ROWS = Placement(Strategy((Split(("gpu.0", "gpu.1")), WHOLE)))


def update() -> Graph:
    """Build an update of a state of 64 x 16 values, 4,096 bytes."""
    b = GraphBuilder("update")
    w = b.source("w", (64, 16), "float32", "parameter")
    b.sink(cell(b, "new", ("mul", ("input", 0), ("const", 0.5)), (w,)), site="next", carries="w")
    return b.build()


@pytest.mark.parametrize(
    ("placed", "traffic_bytes"),
    [
        ({"new": ROWS}, 4 * 3 * 1024),  # computed by rows, begun whole: every device gathers three quarters
        ({"new": ROWS, "next": ROWS}, 4 * 3 * 1024),  # a sink has no place of its own
        ({"w": ROWS, "new": ROWS}, 0),
        ({"w": ROWS}, 4 * 3 * 1024),  # begun by rows, computed everywhere
    ],
)
def test_state_ends_where_it_begins(placed: dict[str, Placement], traffic_bytes: int) -> None:
    graph, placements, mesh = update(), Placements(placed), mesh_of(FOUR)
    space = PlanSpace(graph, mesh)
    fast = space.evaluate(space.genes_of(placements))
    execution = simulate(expand(graph, placements, FOUR), mesh, dry=True)
    assert fast.tolist() == reference_cost(graph, placements, mesh).vector().tolist()
    assert fast[TRAFFIC] == execution.traffic_bytes == traffic_bytes
    assert fast[TIME] == execution.makespan_ticks


def test_genes_of_a_sink_have_no_meaning_of_their_own() -> None:
    space = PlanSpace(update(), mesh_of(FOUR))
    genes = space.genes_of(Placements({"w": ROWS, "new": ROWS}))
    other = replace(genes, strategies=genes.strategies.copy())
    other.strategies[space.gene_of["next"]] = 0
    assert space.evaluate(other).tolist() == space.evaluate(genes).tolist()
    assert space.placements(other) == space.placements(genes)


@pytest.mark.parametrize("mesh_shape", MESHES, ids=str)
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_two_steps_of_random_programs(mesh_shape: MeshShape, seed: int) -> None:
    rng = np.random.default_rng([seed, *dict(mesh_shape.axes).values()])
    graph = random_program(rng, state=True)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    check_state(explicit)
    inputs = {s.site: _value(rng, graph, s.outputs[0]) for s in graph.sources}
    first, second = simulate_steps(explicit, mesh_of(mesh_shape), inputs, steps=2)
    assert second.traffic_bytes == first.traffic_bytes
    assert second.makespan_ticks == first.makespan_ticks
    wanted = evaluate(graph, inputs)
    later = {source.site: wanted[sink] for sink, source in graph.carriers.items()}
    for execution, expected in ((first, wanted), (second, evaluate(graph, inputs | later))):
        for site, value in expected.items():
            np.testing.assert_allclose(execution.outputs[site], value, rtol=1e-9, atol=1e-9)


def _value(rng: np.random.Generator, graph: Graph, tensor: str) -> np.ndarray:
    kind = graph.tensors[tensor]
    if kind.dtype == "int64":
        return rng.integers(0, 2, kind.shape)
    return rng.standard_normal(kind.shape)


def test_a_program_whose_state_moves_between_steps_is_refused() -> None:
    explicit = expand(update(), Placements({"w": ROWS, "new": ROWS}), FOUR)
    whole = expand(update(), Placements(), FOUR)
    wrong = replace(explicit, buffers={**explicit.buffers, "w": whole.buffers["w"]})
    with pytest.raises(RuntimeError, match=r"device 0 ends a step with the part .* of state 'w'"):
        list(simulate_steps(wrong, mesh_of(FOUR), dry=True, steps=2))
