"""Tests of the presearch: improvements are followed, one rule as long as it helps, within a limit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.resources import resources_of
from tapestry.costmodel.unsharded import UnshardedCosts, live_bytes
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.starts import MOST_EVALUATED
from tapestry.optimizer.structure.criteria import Criteria, criteria_of
from tapestry.optimizer.structure.presearch import Presearch
from tapestry.optimizer.structure.rematerialization import Rematerialization
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.rewrites import replay
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rules import catalog, rule_named
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.placement import Placements
from tests.cases import first
from tests.costmodel.test_resources import mixed
from tests.optimizer.searches import EIGHT, search

H100 = load_mesh("dgx-h100").part((("gpu", 1),))
# An H100 by its roofline and launches alone: what is too small for the clock is so for every kernel.
ROOFLINE = replace(H100.device, kernels={}, launch_overhead_s=2e-6, contraction_overhead_s=2.5e-6)
MESH = replace(H100, device=ROOFLINE)
TIME_AND_MEMORY = ("time_s", "peak_memory_bytes")
GRAPHS = Path(__file__).resolve().parents[2] / "data" / "graphs"
VIEWS = ("view_of_view", "identity_view", "concat_of_concat", "slice_of_concat")


def four_heads() -> Graph:
    """Build four small products of one tensor: one wide product saves three launches."""
    b = ExampleBuilder("four_heads")
    x = b.tensor("x", 64, 512)
    heads = [b.contract("mk,kn->mn", x, b.tensor(n, 512, 64, role="parameter")) for n in "qkvg"]
    return b.result(*heads)


def criteria(graph: Graph, objectives: Sequence[str] = TIME_AND_MEMORY, *constraints: str) -> Criteria:
    known = known_objectives(graph)
    chosen = known.require(objectives, MESH.device)
    bounds = all_constraints(constraints, MESH, known)
    return criteria_of(chosen, bounds, MESH, 0.005, known.including(chosen))


def presearch(graph: Graph, *names: str, limit: int | None = None, by: Criteria | None = None) -> Presearch:
    structural = StructuralSearch([rule_named(n) for n in (*names, *VIEWS)])
    return structural.presearch(graph, (), by or criteria(graph), RunOptions(), limit)


Order = int | tuple["Order", "Order"]


def orders(first: int, last: int) -> list[Order]:
    """Return all ways to multiply a chain of matrices, from the first to the last, two at a time."""
    if first == last:
        return [first]
    return [
        (left, right)
        for middle in range(first, last)
        for left in orders(first, middle)
        for right in orders(middle + 1, last)
    ]


def chain(sizes: Sequence[int], order: Order) -> Graph:
    """Build the product of a chain of matrices, `sizes[k]` x `sizes[k + 1]`, in this order."""
    b = ExampleBuilder("chain")
    matrices = [b.tensor(f"w{k}", *sizes[k : k + 2]) for k in range(len(sizes) - 1)]

    def product(part: Order) -> str:
        if isinstance(part, int):
            return matrices[part]
        return b.contract("mk,kn->mn", *map(product, part))

    return b.result(product(order))


@pytest.mark.parametrize("seed", first(1, range(6)))
def test_chains_of_five_products_end_in_the_best_order(seed: int) -> None:
    """Better orders of a chain are behind worse ones: a search that goes downhill alone misses them."""
    rng = np.random.default_rng(seed)
    sizes = [int(2 ** rng.uniform(4, 13)) for _ in range(6)]
    costs = UnshardedCosts(MESH.device)
    best = min(costs.sums(chain(sizes, order)).time_ticks for order in orders(0, 4))
    given = chain(sizes, ((((0, 1), 2), 3), 4))
    found = presearch(given, "merge_contracts", "flatten_contract", "order_contract").run()
    assert found[0].cost.time_ticks <= best


def test_a_rule_is_pursued_as_long_as_it_helps() -> None:
    graph = four_heads()
    fastest = presearch(graph, "merge_contracts").run()[0]
    assert [b.operator for b in fastest.graph.blocks].count("contract") == 1
    assert replay(graph, fastest.moves).structural_hash == fastest.graph.structural_hash
    assert fastest.cost == reference_cost(fastest.graph, Placements(), MESH)


def test_moves_that_help_are_made_together() -> None:
    b = ExampleBuilder("pairs")
    made = []
    for k in range(6):
        x = b.tensor(f"x{k}", 64, 64 + k)
        weights = [b.tensor(f"{n}{k}", 64 + k, 8, role="parameter") for n in "wv"]
        made += [b.contract("mk,kn->mn", x, w) for w in weights]
    # not one search for each of the six, one after the other
    (fastest, *_) = presearch(b.result(*made), "merge_contracts", limit=6 * 6 - 1).run()
    assert [b.operator for b in fastest.graph.blocks].count("contract") == 6


def test_a_presearch_ends_in_time() -> None:
    graph = four_heads()
    (only,) = presearch(graph, "merge_contracts").run(until_s=0.0)
    assert only.graph is graph


def test_the_front_trades_time_for_memory_and_nothing_on_it_is_beaten() -> None:
    front = presearch(four_heads(), "merge_contracts").run()
    assert len(front) > 1
    times, bytes_ = zip(*(s.values for s in front), strict=True)
    assert list(times) == sorted(set(times))
    assert list(bytes_) == sorted(set(bytes_), reverse=True)


def steps(count: int) -> Graph:
    """Build states, each computed from the previous one by a cheap cell; each is read by a wide cell of its own too."""
    b = ExampleBuilder("steps")
    wide, state = b.tensor("wide", 1024, 256), b.tensor("state", 256)
    results = []
    for _ in range(count):
        state = b.cell(("add", ("input", 0), ("const", 1.0)), {state: "n"})
        results.append(b.cell(("mul", ("input", 0), ("input", 1)), {wide: "mn", state: "n"}))
    return b.result(*results, state)


def test_what_several_read_is_carried_into_all_of_them_or_none() -> None:
    graph = steps(4)
    search = presearch(graph, "fuse_shared_cell", "fuse_broadcast_cell", "fuse_cells")
    Rematerialization(search.evaluator).run()
    fastest = min(search.evaluator.front, key=lambda s: s.values)
    assert [b.operator for b in graph.blocks].count("cell") == 8
    assert [b.operator for b in fastest.graph.blocks].count("cell") == 5  # four wide ones and the last state
    assert replay(graph, fastest.moves).structural_hash == fastest.graph.structural_hash


def test_memory_is_saved_in_all_layers_before_it_shows() -> None:
    """Check that weights folded into products (slower) spare a tensor per layer; the peak sinks with the last one."""
    b = ExampleBuilder("layers")
    x = b.tensor("x", 64, 512)
    for k in range(3):
        w, v, u = (b.tensor(f"{n}{k}", 512, 512, role="parameter") for n in "wvu")
        left, right = b.contract("mk,kn->mn", x, w), b.contract("mk,kn->mn", x, v)
        x = b.contract("mk,kn->mn", b.contract("mn,ln->ml", left, right), b.contract("ml,lk->mk", x, u))
    graph = b.result(x)
    least = presearch(graph, "flatten_contract").run()[-1]
    assert least.cost.peak_memory_bytes < max(live_bytes(graph))


def test_a_limit_is_kept() -> None:
    search = presearch(four_heads(), "merge_contracts", limit=3)
    search.run()
    assert search.evaluated == 3


def test_what_costs_more_is_left_alone() -> None:
    graph = four_heads()
    assert [s.graph for s in presearch(graph, "expand_contract", "split_reduce").run()] == [graph]


def test_a_start_that_nothing_can_be_made_of_is_the_front() -> None:
    graph = four_heads()
    (only,) = Presearch(graph, (), criteria(graph), (), lambda *_: None).run()
    assert only.graph is graph


REUSE = ("associate_contract", "fuse_shared_cell", "fuse_broadcast_cell", "fuse_cells")


def reuse_or_repeat() -> Graph:
    """Build a product of three in the worst order, too small to take longer than its launches, beside shared steps.

    The other order saves flops, which no clock shows. Repeating the steps in what reads them saves launches for flops.
    """
    b = ExampleBuilder("reuse_or_repeat")
    left, right, column = b.tensor("left", 256, 256), b.tensor("right", 256, 256), b.tensor("column", 256, 1)
    product = b.contract("mk,kn->mn", b.contract("mk,kn->mn", left, right), column)
    wide, state = b.tensor("wide", 1024, 256), b.tensor("state", 256)
    results = []
    for _ in range(2):
        state = b.cell(("add", ("input", 0), ("const", 1.0)), {state: "n"})
        results.append(b.cell(("mul", ("input", 0), ("input", 1)), {wide: "mn", state: "n"}))
    return b.result(product, *results)


@pytest.mark.parametrize(
    "objective", ["energy_j", "compute_flops", "peak_compute_flops", "max(compute_flops^2, 1e9*time_s)"]
)
def test_what_is_best_by_an_objective_of_the_run_is_kept(objective: str) -> None:
    """Check it against a presearch by time and memory, which drops what is best by the objective."""
    graph = reuse_or_repeat()
    known = known_objectives(graph)
    known = known.including([known.named(objective)])
    name = known.named(objective).name

    def least(*objectives: str) -> float:
        front = presearch(graph, *REUSE, by=criteria(graph, objectives)).run()
        return min(costs_of(s.cost.vector(), MESH, known)[name] for s in front)

    assert least("time_s", objective) < least(*TIME_AND_MEMORY)
    assert least(objective) == least("time_s", objective)


@pytest.mark.parametrize("mesh", [MESH, EIGHT], ids=["one device", "eight devices"])
def test_a_search_begins_with_the_best_structure_by_each_objective(mesh: Mesh) -> None:
    graph = reuse_or_repeat()
    rules = (*REUSE, *VIEWS)
    objectives = ("time_s", "compute_flops")
    (least,) = presearch(graph, *REUSE, by=criteria(graph, ("compute_flops",))).run()
    result = search(graph, mesh=mesh, objectives=objectives, rules=rules, search=False)
    assert min(p.cost["compute_flops"] for p in result.frontier) == least.cost.compute_flops
    assert len({p.graph.structural_hash for p in result.frontier}) > 1


def test_whatever_is_on_the_front_costs_what_the_plain_model_says() -> None:
    graph = reuse_or_repeat()
    by = criteria(graph, ("time_s", "compute_flops", "energy_j"))
    front = presearch(graph, *REUSE, by=by).run()
    assert len(front) > 2
    for found in front:
        cost = reference_cost(found.graph, Placements(schedule_order=found.schedule_order), MESH)
        assert found.cost == cost
        reported = costs_of(cost.vector(), MESH)
        expected = [reported[name] for name in ("time_s", "energy_j", "compute_flops")]
        assert found.values == pytest.approx(expected, rel=1e-12), "the leading one first"


def test_on_one_device_what_breaks_a_bound_is_left_out() -> None:
    graph = reuse_or_repeat()
    free = presearch(graph, *REUSE, by=criteria(graph, ("time_s",))).run()
    bounded = presearch(graph, *REUSE, by=criteria(graph, ("time_s",), "compute_flops<=1e6")).run()
    assert [s.cost.compute_flops > 1e6 for s in free] == [True]
    assert all(s.cost.compute_flops <= 1e6 for s in bounded)
    assert bounded[0].cost.time_ticks > free[0].cost.time_ticks


def test_rules_leave_priced_blocks_as_they_are() -> None:
    """Check why resources are no criterion of their own: they are the same for all that rewriting makes."""
    graph = mixed()
    resources = resources_of(graph)
    search = StructuralSearch(list(catalog().values()))
    simple, _ = search.simplified(graph)
    front = search.presearch(simple, (), criteria(graph), RunOptions(), 60).run()
    expected = reference_cost(graph, Placements(), MESH).resources
    for found in (simple, *(s.graph for s in front)):
        assert UnshardedCosts(MESH.device, None, resources).cost(found).resources == expected


@pytest.mark.slow
def test_a_search_on_one_device_begins_with_it_and_ends_by_itself() -> None:
    graph = from_onnx(GRAPHS / "taso_nasrnn_h512_t5.onnx")
    rules = ("merge_contracts", "fuse_cells", "canonical_cell", "view_into_cell", *VIEWS)
    objectives = ("time_s", "peak_memory_bytes")
    result = search(graph, mesh=MESH, objectives=objectives, evaluations=2000, rules=rules)
    assert result.stopped == "converged"
    fastest = result.frontier[0]
    assert any(move.rule == "merge_contracts" for move in fastest.moves)
    tally = reference_cost(fastest.graph, Placements(), MESH)
    assert fastest.cost["time_s"] == tally.time_ticks / TICKS_PER_S
    assert fastest.cost["time_s"] < 0.25 * reference_cost(graph, Placements(), MESH).time_ticks / TICKS_PER_S


@pytest.mark.slow
def test_a_part_of_one_device_begins_with_what_is_found_for_a_device_alone() -> None:
    seeds = search(search=False)
    alone = search(mesh=EIGHT.part((("gpu", 1),)), search=False, evaluations=MOST_EVALUATED)
    part = [p for p in seeds.frontier if p.placements.devices == "gpu:1"]
    assert part[0].cost["time_s"] == alone.frontier[0].cost["time_s"]
    assert any(block.operator == "fused" for block in part[0].graph.blocks)
