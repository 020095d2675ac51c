"""Plans costed again: by this version of the cost model, where an earlier one has costed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.plan import Plan
from tapestry.teg.graph import Graph


def recost(graph: Graph, plans: Sequence[Plan], mesh: Mesh, options: RunOptions) -> list[Plan]:
    """Return plans of a run with the costs that this version of the cost model gives them.

    `graph` is the run's program, whose resources have costs too. A plan is feasible if it fits into the devices and
    satisfies the bounds of the run; relative bounds need the run's best and are left to the search.

    Raises:
        ValueError: placements do not fit the program or the mesh.
    """
    known = known_objectives(graph)
    bounds = all_constraints(options.constraints, mesh, known)
    names = (*options.objectives, *(bound.objective for bound in bounds))
    known = known.including([known.named(name) for name in names])
    states = [(plan.graph, plan.placements) for plan in plans]
    costed = PlanCosts(mesh, options.compute_dtype, known=known)
    return [
        replace(
            plan,
            cost=cost,
            cost_model=COST_MODEL_VERSION,
            time=time,
            feasible=not any(b.excess(cost[b.objective]) for b in bounds if not b.is_relative),
        )
        for plan, cost, time in zip(plans, costed.costs(states), costed.times(states), strict=True)
    ]
