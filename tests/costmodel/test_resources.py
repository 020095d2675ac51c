"""Tests of a program's own resources: sums and peaks per device, equal in the fast path and the reference."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import COSTS, new_state
from tapestry.costmodel.known_objectives import KnownObjectives, known_objectives
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.resources import (
    Resource,
    ResourceError,
    counted,
    declared_resources,
    resources_of,
    whole_amount,
)
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import run_pinned, simulate
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.variation import RULES, hash_plan, vary
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.costs import CostTable, cost_table
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.cases import examples
from tests.costmodel.programs import TANH, random_genes, weight

LABELS = (("m", "k"), ("k", "n"))
SEED = {"m": {"gpu": 1, "ram": 1}, "k": {"gpu": 128, "ram": 64}, "n": {"gpu": 4, "ram": 8}}
MESHES = ("dgx-h100", "tpu-v5e-4x4", "2x-dgx-h100")


def priced_chain(*tables: CostTable | None) -> Graph:
    """Build products in a row, 12 x 10 by 10 x 10, each with one of the tables; ends in a block without one."""
    b = GraphBuilder("chain")
    x = b.source("x", (12, 10), "float32")
    for k, table in enumerate(tables):
        w = weight(b, f"w{k}", 10, 10)
        (x,) = b.apply("contract", (x, w), site=f"y{k}", costs=table, labels=LABELS, output=("m", "n"))
    dims = (("a", 12), ("b", 10))
    cell = {"expr": TANH, "labels": (("a", "b"),), "dims": dims, "dtype": "float32"}
    b.sink(b.apply("cell", (x,), site="z", **cell)[0])
    return b.build()


def mixed() -> Graph:
    """Build a chain whose tables name whole, tenths and very fine amounts, and figures of the operator's own."""
    return priced_chain(
        cost_table({"gpu": 10, "flops": 1e6}, SEED),
        cost_table({"usd": 0.25}, {"n": {"usd": 0.1}, "m": {"bytes": 64}}),
        None,
        cost_table(
            {"gpu": 3, "third": 1 / 3, "seconds": 1e-6}, {"k": {"third": 1 / 3}, "m": {"seconds": 1e-7}}
        ),
    )


def test_the_marginal_table_of_the_whitepaper() -> None:
    graph = priced_chain(cost_table({}, SEED))
    space = PlanSpace(graph, load_mesh("dgx-h100"))
    raw = space.evaluate(space.abstract_genes())

    cost = costs_of(raw, space.mesh, known_objectives(graph))

    # On each of eight devices: 12 rows, 10 columns, 10 terms.
    assert (cost["peak_gpu"], cost["gpu"]) == (12 + 128 * 10 + 4 * 10, 8 * 1332)
    assert (cost["peak_ram"], cost["ram"]) == (12 + 64 * 10 + 8 * 10, 8 * 732)


def test_the_seconds_of_a_table_override_the_class_of_kernels() -> None:
    table = cost_table({"seconds": 2e-6}, {"m": {"seconds": 1e-7}})
    stated, usual = priced_chain(table, None), priced_chain(None, None)
    device = load_mesh("dgx-h100").device
    one = replace(load_mesh("dgx-h100"), device=replace(device, launch_overhead_s=1e-3))
    times = []
    for mesh in (one, one.at_quantile(0.9)):
        program = expand(stated, Placements(), MeshShape(mesh.axis_sizes))
        run = simulate(program, mesh, dry=True)
        (mine,) = (span for span in run.spans if span.time_class.name == "cost table")
        assert mine.time_class.error == 0.0
        times.append(mine.end_ticks - mine.start_ticks)
        assert run.makespan_ticks == reference_cost(stated, Placements(), mesh).time_ticks
        pinned = run_pinned(materialize(program).graph, mesh, dry=True)
        assert pinned.makespan_ticks == run.makespan_ticks
    assert (np.array(times) == 2e6 + 12 * 1e5).all()  # 12 rows on every device, no launch and no error
    priced, unpriced = (UnshardedCosts(device).sums(graph).time_ticks for graph in (stated, usual))
    assert priced != unpriced and not known_objectives(stated).columns[COSTS:]


@pytest.mark.parametrize("mesh", MESHES)
def test_the_fast_path_and_the_reference_count_the_same(mesh: str, rng: np.random.Generator) -> None:
    graph = mixed()
    space = PlanSpace(graph, load_mesh(mesh))
    known = known_objectives(graph)
    seen = set()
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(6))):
        placements, fast = space.placements(genes), space.evaluate(genes)

        slow = reference_cost(graph, placements, space.mesh)

        assert fast.tolist() == slow.vector().tolist(), placements
        assert tuple(slow.resources) == known.columns[COSTS:]
        cost = costs_of(fast, space.mesh, known)
        summed = declared_resources(graph, placements, MeshShape(space.mesh.axis_sizes))
        assert cost["gpu"] == summed["gpu"]
        assert cost["usd"] == pytest.approx(summed["usd"], rel=1e-12)
        assert summed["third"] <= cost["third"] <= summed["third"] * (1 + 1e-5)
        seen.add((cost["gpu"], cost["peak_gpu"], cost["usd"]))
    assert len(seen) > 3, "plans differ in what they need"


@settings(max_examples=examples(20))
@given(st.data())
def test_random_tables(data: st.DataObject) -> None:
    amount = st.one_of(st.integers(0, 10**6), st.floats(0, 100, allow_nan=False))
    steps = st.dictionaries(
        st.sampled_from("mkn"), st.dictionaries(st.sampled_from("abc"), amount, max_size=2)
    )
    tables = st.builds(cost_table, st.dictionaries(st.sampled_from("abc"), amount), steps)
    graph = priced_chain(*data.draw(st.lists(st.one_of(st.none(), tables), min_size=1, max_size=3)))
    space = PlanSpace(graph, load_mesh("dgx-h100"))
    genes = random_genes(np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))), space)
    placements = space.placements(genes)
    assert space.evaluate(genes).tolist() == reference_cost(graph, placements, space.mesh).vector().tolist()


def test_a_walk_of_small_changes_counts_as_a_new_state_does(rng: np.random.Generator) -> None:
    space = PlanSpace(mixed(), load_mesh("dgx-h100"))
    search, random_state = search_space(space), new_rng(rng)
    plan = space.compiled_genes(random_genes(rng, space))
    digest = np.array([hash_plan(*plan)], np.uint64)
    cost, fresh = np.zeros(space.cost_count, np.int64), np.zeros(space.cost_count, np.int64)
    seen = set()
    for step in range(60 * len(RULES)):
        vary(step % len(RULES), random_state, space.space, search, *plan, digest)
        evaluate(space.space, space.state, *plan, cost)
        evaluate(space.space, new_state(space.space), *plan, fresh)
        assert cost.tolist() == fresh.tolist()
        seen.add(tuple(cost[COSTS:]))
    assert len(seen) > 20


def test_who_counts_no_resources_gets_none() -> None:
    graph = mixed()
    space = PlanSpace(graph, load_mesh("dgx-h100"), resources=())
    genes = space.abstract_genes()
    raw = space.evaluate(genes)
    assert raw.shape == (COSTS,)
    assert raw.tolist() == PlanSpace(graph, space.mesh).evaluate(genes)[:COSTS].tolist()
    assert "gpu" not in costs_of(raw, space.mesh)


def test_amounts_are_counted_in_the_power_of_ten_that_makes_them_whole() -> None:
    scales = {"gpu": 1, "ram": 1, "third": 10**6, "usd": 100}
    assert {r.name: r.scale for r in resources_of(mixed())} == scales
    assert (whole_amount(0.1, 10), whole_amount(1e-9, 10**6), whole_amount(1 / 3, 10**6)) == (1, 1, 333_334)


def test_an_empty_part_costs_nothing_and_a_fixed_amount_is_paid_per_part() -> None:
    block = priced_chain(cost_table({"gpu": 5}, {"m": {"gpu": 2}})).by_site["y0"]
    sizes = np.array([[3, 1, 1], [0, 1, 1]])
    assert counted(block.definition, Resource("gpu"), sizes).tolist() == [11, 0]


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (
            "time_s",
            "block 'y0': its cost table names a resource 'time_s': 'time_s' is an objective of every program",
        ),
        ("memory_bytes", "'memory_bytes' is a word of expressions"),
        ("compute_flops", "objective of every program .executed on all devices"),
        ("max", "'max' is a word of expressions"),
        ("memory_bytes", "call the resource something else, such as 'own_memory_bytes'"),
    ],
)
def test_a_resource_may_not_shadow_what_means_something_else(resource: str, message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        known_objectives(priced_chain(cost_table({resource: 1})))


def test_the_peak_of_a_resource_may_not_be_another_resource() -> None:
    graph = priced_chain(cost_table({"gpu": 1}), cost_table({"peak_gpu": 1}))
    with pytest.raises(ResourceError, match="'peak_gpu' is a resource itself, of block 'y1'"):
        known_objectives(graph)
    graph = priced_chain(cost_table({"memory_bytes_": 1, "compute_flops": 2}))
    with pytest.raises(ResourceError, match="'compute_flops'"):
        known_objectives(graph)


@pytest.mark.parametrize("amount", [1e300, 2**60])
def test_amounts_beyond_counting_are_refused(amount: float) -> None:
    graph = priced_chain(cost_table({}, {"m": {"ram": amount}}))
    with pytest.raises(
        ResourceError, match=r"amounts of 'ram' add up to more than 4.6.e.18; state them in a larger"
    ):
        PlanSpace(graph, load_mesh("dgx-h100"))


def test_a_program_without_tables_has_no_resources() -> None:
    assert known_objectives(priced_chain(None)) == KnownObjectives()
