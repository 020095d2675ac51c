"""Tests of the conventions "lifetimes" and "chosen boundaries" of `docs/sharding.md` for carried state.

The old value is freed after its last reader; updates are issued as early as possible.
"""

import numpy as np
import pytest

import tapestry
from tapestry.costmodel.kernel_arrays import PEAK, TIME
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, Placements, scheduled_blocks
from tests.costmodel.programs import random_genes

MESH = load_mesh("dgx-h100")


MATRIX_BYTES = 8 * 8 * 4


def training(layers: int, carries: bool = True) -> Graph:
    """Build products in a row, their gradients, and then all updates with momentum, as frameworks export them."""
    with tapestry.program("training") as p:
        x = p.input("x", batch=4, f0=8)
        sizes = [{f"f{k}": 8, f"f{k + 1}": 8} for k in range(layers)]
        weights = [p.parameter(f"w{k}", **s) for k, s in enumerate(sizes)]
        moments = [p.parameter(f"m{k}", role="optimizer_state", **s) for k, s in enumerate(sizes)]
        values = [x]
        for w in weights:
            values.append(values[-1] @ w)
        error, gradients = values[-1], []
        for k in reversed(range(layers)):
            gradients.append(values[k].contract(error, "batch"))
            error = error.contract(weights[k], f"f{k + 1}")
        for k, (w, m, g) in enumerate(zip(weights, moments, reversed(gradients), strict=True)):
            momentum = m * 0.9 + g
            for name, old, new in (("m", m, momentum), ("w", w, w - momentum * 0.1)):
                if carries:
                    p.update(old, new)
                else:
                    p.output(f"new {name}{k}", new)
    return p.graph


def peak_bytes(graph: Graph, order: str = "program") -> int:
    """Return the first plan's peak; check that fast path, reference cost model and simulator agree for some plans."""
    space = PlanSpace(graph, MESH, schedule_order=order)
    rng = np.random.default_rng(3)
    plans = (space.abstract_genes(), *(random_genes(rng, space) for _ in range(4)))
    peaks = []
    for genes in plans:
        placements = space.placements(genes)
        cost = space.evaluate(genes)
        assert cost.tolist() == reference_cost(graph, placements, MESH).vector().tolist()
        run = simulate(expand(graph, placements, space.mesh_shape), MESH, dry=True)
        assert (int(run.peak_memory_bytes.max()), run.makespan_ticks) == (cost[PEAK], cost[TIME])
        peaks.append(int(cost[PEAK]))
    return peaks[0]


def test_the_old_value_of_carried_state_goes_with_its_last_reader() -> None:
    assert peak_bytes(training(3)) <= peak_bytes(training(3, carries=False)) - 2 * MATRIX_BYTES


@pytest.mark.slow
def test_early_updates_do_not_let_gradients_wait_for_each_other() -> None:
    graph = training(10)
    assert peak_bytes(graph, "update-early") <= peak_bytes(graph) - 4 * MATRIX_BYTES


@pytest.mark.parametrize("order", SCHEDULE_ORDERS)
def test_every_order_has_the_values_of_the_program(order: str, rng: np.random.Generator) -> None:
    graph = training(3)
    inputs = random_inputs(graph, rng)
    space = PlanSpace(graph, MESH)
    program = expand(graph, Placements(schedule_order=order), space.mesh_shape)
    outputs = simulate(program, MESH, inputs).outputs
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_allclose(outputs[site], value, rtol=1e-5, atol=1e-4)


def test_depth_first_makes_nothing_long_before_it_is_read() -> None:
    with tapestry.program("late") as p:
        x = p.input("x", row=4, column=8)
        early = x.exp()
        late = x.sin()
        p.output("y", late.cos() + early)
    sites = [b.site for b in scheduled_blocks(p.graph, "program")]
    assert [sites.index(b.site) for b in scheduled_blocks(p.graph, "depth-first")] == [1, 2, 0, 3, 4]


def test_updates_come_as_soon_as_all_they_need_is_there() -> None:
    graph = training(3)
    order = [b.site for b in scheduled_blocks(graph, "update-early")]
    assert sorted(order) == sorted(b.site for b in scheduled_blocks(graph, "program"))
    made = {t: k for k, s in enumerate(order) for t in graph.by_site[s].outputs}
    for k, site in enumerate(order):
        assert all(made.get(t, -1) < k for t in graph.by_site[site].inputs)
    first_update = min(k for k, s in enumerate(order) if graph.by_site[s].operator == "sink")
    assert first_update < len(order) / 2
