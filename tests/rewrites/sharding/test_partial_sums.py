"""Tests that the sharding rules reach plans that did not exist before, counted by predictor and simulator alike."""

import numpy as np

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.rewrites import RULES, Move, apply_move, find
from tapestry.rewrites.cell_form import ADD
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy

MESH = load_mesh("dgx-h100")
ALL = ("gpu.0", "gpu.1", "gpu.2")
OVER = Split(ALL)
DEVICES = 8


def on(*splits: Split, prefetch: tuple[int, ...] = ()) -> Placement:
    return Placement(Strategy(splits), prefetch=prefetch)


def counted(graph: Graph, blocks: dict[str, Placement]) -> tuple[int, int, int]:
    """Predict makespan in ticks, peak and traffic in bytes; check that the simulator counts the same."""
    space, placements = PlanSpace(graph, MESH), Placements(blocks)
    cost = space.evaluate(space.genes_of(placements))
    run = simulate(expand(graph, placements, space.mesh_shape), MESH, dry=True)
    found = (run.makespan_ticks, int(run.peak_memory_bytes.max()), run.traffic_bytes)
    assert found == (cost[TIME], cost[PEAK], cost[TRAFFIC])
    return found


def assert_runs_alike(before: Graph, after: Graph, blocks: dict[str, Placement]) -> None:
    """Check that the rewritten graph under its plan, on the simulator, gives the values of the program."""
    inputs = random_inputs(before, np.random.default_rng(1))
    program = expand(after, Placements(blocks), PlanSpace(after, MESH).mesh_shape)
    outputs = simulate(program, MESH, inputs).outputs
    for site, value in evaluate(before, inputs).items():
        np.testing.assert_allclose(outputs[site], value, rtol=1e-4, atol=1e-4 * np.abs(value).max())


def move_of(graph: Graph, rule: str, place: str = "", choice: str = "") -> Move:
    found = find(graph, [r for r in RULES if r.name == rule])
    return next(m for m in found if place in ("", m.place) and choice in ("", m.choice))


def product(m: int, k: int, n: int) -> Graph:
    """Build `tanh(x w)`."""
    b = ExampleBuilder("product")
    y = b.contract("mk,kn->mn", b.tensor("x", m, k), b.tensor("w", k, n, role="parameter"), site="y")
    return b.result(b.cell(("tanh", ("input", 0)), {y: "mn"}, site="z"))


def test_a_waypoint_makes_an_all_reduce_a_reduce_scatter_and_an_all_gather() -> None:
    graph = product(64, 256, 32)
    halves = {"x": on(WHOLE, OVER), "w": on(OVER, WHOLE), "y": on(WHOLE, WHOLE, OVER)}
    _, peak, traffic = counted(graph, halves)

    after = apply_move(graph, move_of(graph, "waypoint"))
    stop = next(b for b in after.blocks if b.operator == "waypoint")
    made = after.producers[stop.inputs[0]].site
    plan = {"x": halves["x"], "w": halves["w"], made: halves["y"], stop.site: on(OVER, WHOLE)}
    _, lower, same = counted(after, plan)

    result_bytes = 64 * 32 * 4
    assert traffic == same == 2 * (DEVICES - 1) * result_bytes
    assert lower < peak
    assert_runs_alike(graph, after, plan)


def test_pieces_overlap_with_what_is_on_its_way() -> None:
    m, k, n = 4096, 32768, 4096
    graph = product(m, k, n)
    halves = {"x": on(WHOLE, OVER), "w": on(OVER, WHOLE), "y": on(WHOLE, WHOLE, OVER)}
    time, _, traffic = counted(graph, halves)

    after = apply_move(graph, move_of(graph, "chunk", choice="m:2"))
    joined = next(b for b in after.blocks if b.operator == "concat")
    pieces = {after.producers[t].site: halves["y"] for t in joined.inputs}
    sources = {"x": halves["x"], "w": halves["w"]}
    plan = {**sources, **pieces, joined.site: on(WHOLE, WHOLE, prefetch=(1, 0))}
    sooner, _, same = counted(after, plan)

    assert same == traffic
    assert sooner < time
    assert counted(after, {**plan, joined.site: on(WHOLE, WHOLE)})[0] > sooner
    small = product(16, 64, 8)
    assert_runs_alike(small, apply_move(small, move_of(small, "chunk", choice="m:2")), {})


def test_one_collective_instead_of_two() -> None:
    b = ExampleBuilder("two products")
    pairs = [(b.tensor(f"x{j}", 16, 64), b.tensor(f"w{j}", 64, 24, role="parameter")) for j in range(2)]
    products = [b.contract("mk,kn->mn", x, w, site=f"y{j}") for j, (x, w) in enumerate(pairs)]
    graph = b.result(b.cell(ADD, dict.fromkeys(products, "mn"), site="z"))
    sources = {f"{s}{j}": p for j in range(2) for s, p in (("x", on(WHOLE, OVER)), ("w", on(OVER, WHOLE)))}
    summed = {f"y{j}": on(WHOLE, WHOLE, OVER) for j in range(2)}
    _, _, traffic = counted(graph, {**sources, **summed})

    after = graph
    for j in range(2):
        after = apply_move(after, move_of(after, "split_contraction", f"y{j}", "k:8"))
    after = apply_move(after, move_of(after, "add_of_sums"))
    plan = {**sources, **_by_parts(after)}
    _, _, half = counted(after, plan)

    assert traffic == 2 * 2 * (DEVICES - 1) * 16 * 24 * 4
    assert half == traffic // 2
    assert_runs_alike(graph, after, plan)


def _by_parts(graph: Graph) -> dict[str, Placement]:
    """Split every block that has the parts as a dimension along them."""
    found = {}
    for block in graph.blocks:
        sizes = [d.size for d in block.signature.dims] if block.signature else []
        if block.operator not in ("source", "sink") and DEVICES in sizes:
            parts = sizes.index(DEVICES)
            found[block.site] = on(*(OVER if k == parts else WHOLE for k in range(len(sizes))))
    return found
