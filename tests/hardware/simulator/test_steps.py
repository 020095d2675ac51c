"""Tests of runs of several steps: state begins each step where the step before left it."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware.simulator import simulate, simulate_steps
from tapestry.hardware.simulator.steps import check_state
from tapestry.hardware.timing import block_ticks, move_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import permuted
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import first
from tests.costmodel.programs import random_genes
from tests.hardware.simulator.programs import MESHES, cell, mesh_of, random_placements, random_program, view

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
        return rng.integers(-1, 1, kind.shape)  # indices of any dimension, even of size 1
    return rng.standard_normal(kind.shape)


def test_a_program_whose_state_moves_between_steps_is_refused() -> None:
    explicit = expand(update(), Placements({"w": ROWS, "new": ROWS}), FOUR)
    whole = expand(update(), Placements(), FOUR)
    wrong = replace(explicit, buffers={**explicit.buffers, "w": whole.buffers["w"]})
    with pytest.raises(RuntimeError, match=r"device 0 ends a step with the part .* of state 'w'"):
        list(simulate_steps(wrong, mesh_of(FOUR), dry=True, steps=2))


def swapped(turns: bool) -> Graph:
    """Build two states that change places, each transposed or as it is."""
    b = GraphBuilder("swap")
    shapes = ((32, 64), (64, 32)) if turns else ((32, 64), (32, 64))
    states = [b.source(name, shape, "float32", "parameter") for name, shape in zip("xy", shapes, strict=True)]
    for name, other, shape in zip("xy", reversed(states), reversed(shapes), strict=True):
        new = view(b, f"{other}.turned", other, permuted(shape, (1, 0))) if turns else other
        b.sink(new, site=f"{name}.next", carries=name)
    return b.build()


def of_a_result() -> Graph:
    """Build a state whose next value is the transpose of a computed tensor, 4,096 bytes."""
    b = GraphBuilder("result")
    w = b.source("w", (64, 16), "float32", "parameter")
    x = b.source("x", (16, 64), "float32")
    (new,) = b.apply("contract", (x, w), site="new", labels=(("a", "k"), ("k", "b")), output=("b", "a"))
    state = b.source("state", (16, 16), "float32", "buffer")
    b.sink(view(b, "turned", new, permuted((16, 16), (1, 0))), site="state.next", carries=state)
    return b.build()


@pytest.mark.parametrize(
    "graph", [swapped(True), swapped(False), of_a_result()], ids=["turned", "swap", "result"]
)
def test_two_steps_move_twice_the_bytes_and_have_the_values_of_two_runs(graph: Graph) -> None:
    rng, mesh = np.random.default_rng(0), mesh_of(FOUR)
    space = PlanSpace(graph, mesh)
    inputs = {
        s.site: rng.standard_normal(graph.tensors[s.outputs[0]].shape).astype("f4") for s in graph.sources
    }
    wanted = evaluate(graph, inputs)
    again = evaluate(graph, inputs | {source.site: wanted[sink] for sink, source in graph.carriers.items()})
    for _ in range(6):
        genes = random_genes(rng, space)
        cost, placements = space.evaluate(genes), space.placements(genes)
        assert cost.tolist() == reference_cost(graph, placements, mesh).vector().tolist()
        explicit = expand(graph, placements, FOUR)
        runs = list(simulate_steps(explicit, mesh, inputs, steps=2))
        assert [run.traffic_bytes for run in runs] == [cost[TRAFFIC]] * 2
        assert [run.makespan_ticks for run in runs] == [cost[TIME]] * 2
        assert [run.peak_memory_bytes.max() for run in runs] == [cost[PEAK]] * 2
        for run, expected in zip(runs, (wanted, again), strict=True):
            for site, value in expected.items():
                np.testing.assert_allclose(run.outputs[site], value, rtol=1e-4, atol=1e-4)


def test_states_that_change_places_are_copied_if_they_are_turned() -> None:
    """Check time and memory of both: one device has two states of 8,192 bytes, and copies each where it is turned."""
    size_bytes, mesh = 32 * 64 * 4, mesh_of(MeshShape.of(gpu=1))
    renamed, turned = (PlanSpace(swapped(turns), mesh) for turns in (False, True))
    assert renamed.evaluate(renamed.abstract_genes())[[TIME, PEAK]].tolist() == [0, 2 * size_bytes]
    copied = int(block_ticks(mesh.device, "vector", 0, 2 * size_bytes, "float32"))
    # The first state is given up once it has been copied.
    assert turned.evaluate(turned.abstract_genes())[[TIME, PEAK]].tolist() == [2 * copied, 3 * size_bytes]


def test_a_state_that_is_computed_whole_is_cut_out_of_it() -> None:
    """Check that nothing crosses a link, each device copies its rows, and the whole is given up."""
    mesh, b = mesh_of(FOUR), GraphBuilder("whole")
    w, x = b.source("w", (64, 16), "float32", "parameter"), b.source("x", (64, 16), "float32")
    b.sink(cell(b, "new", ("mul", ("input", 0), ("const", 0.5)), (x,)), site="next", carries=w)
    graph = b.build()
    times = {}
    for name, placed in (("rows", {"w": ROWS}), ("whole", {})):
        space = PlanSpace(graph, mesh)
        cost = space.evaluate(space.genes_of(Placements(placed)))
        run = simulate(expand(graph, Placements(placed), FOUR), mesh, dry=True)
        assert cost.tolist() == reference_cost(graph, Placements(placed), mesh).vector().tolist()
        assert (cost[TRAFFIC], cost[TIME], cost[PEAK]) == (0, run.makespan_ticks, run.peak_memory_bytes.max())
        times[name] = cost[TIME]
    assert times["rows"] - times["whole"] == int(move_ticks(mesh.device, 1024))
