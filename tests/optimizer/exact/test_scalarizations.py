"""Tests of the exact plans of weighted objectives: scales where the fastest plan has nothing of an objective."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TRAFFIC
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.optimizer.archive.report import goal_of
from tapestry.optimizer.exact.scalarizations import ExactPlacement
from tapestry.teg.builder import GraphBuilder
from tests.costmodel.programs import contract, product_of, weight

MESH = load_mesh("dgx-h100")


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Take warnings of overflow for errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def costs_of_exact(space: PlanSpace, names: Sequence[str], bounds: Sequence[str] = ()) -> np.ndarray:
    """Return the costs `(plans, columns)` of the exact plans under some objectives, without prefetch."""
    known = KnownObjectives()
    goal = goal_of([known.named(name) for name in names], all_constraints(bounds, MESH), MESH, 0.005)
    nothing = np.zeros(space.edge_count, np.int64)
    plans = list(ExactPlacement(space.space, space.state, goal).plans())
    return np.stack(
        [space.evaluate(Genes(plan.strategies, nothing, nothing)) for plan in plans if plan.prefetch == 0]
    )


def stacked() -> PlanSpace:
    """Build the space of two products of a large batch, fastest with no traffic and leanest with split weights."""
    b = GraphBuilder("stacked")
    hidden = contract(
        b, "up", b.source("x", (4096, 1024), "float32"), weight(b, "u", 1024, 4096), "nc,ch->nh"
    )
    b.sink(contract(b, "down", hidden, weight(b, "d", 4096, 1024), "nh,hc->nc"), site="y")
    return PlanSpace(b.build(), MESH)


@pytest.mark.parametrize(
    "names",
    [("time_s", "peak_memory_bytes", "traffic_bytes"), ("traffic_bytes", "peak_memory_bytes", "time_s")],
)
def test_an_objective_of_which_the_fastest_plan_has_nothing_does_not_outweigh_the_others(
    names: tuple[str, ...],
) -> None:
    space = stacked()
    costs = costs_of_exact(space, names)
    assert costs[costs[:, TIME].argmin(), TRAFFIC] == 0
    silent = costs[costs[:, TRAFFIC] == 0]
    assert costs[:, PEAK].min() < 0.9 * silent[:, PEAK].min()  # the leanest plan of all exchanges something
    without = costs_of_exact(space, ("time_s", "peak_memory_bytes"))
    assert costs[:, PEAK].min() <= 1.02 * without[:, PEAK].min()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_a_bound_that_the_fastest_plan_breaks_gets_multipliers(share: float) -> None:
    space, names = stacked(), ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
    free = costs_of_exact(space, names)
    most = int((1 + share) * free[:, PEAK].min())
    assert free[free[:, TIME].argmin(), PEAK] > most
    bound = costs_of_exact(space, names, (f"peak_memory_bytes<={most}",))
    fastest = [costs[costs[:, PEAK] <= most, TIME].min() for costs in (bound, free)]
    assert fastest[0] <= fastest[1]
    assert len(bound) > len(free)


def test_an_objective_of_which_no_plan_has_anything_changes_nothing() -> None:
    mesh = MESH.part((("gpu", 1),))
    space = PlanSpace(product_of(256, 256, 256), mesh)
    costs = costs_of_exact(space, ("traffic_bytes", "time_s"))
    assert (costs[:, TRAFFIC] == 0).all()
    assert costs[:, TIME].min() == costs_of_exact(space, ("time_s",))[:, TIME].min()
