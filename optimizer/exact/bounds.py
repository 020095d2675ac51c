"""Proven lower bounds of what any plan of a space costs, by the integer costs from which objectives follow.

What adds up over blocks and copies is bounded by the dual value of its pairwise problem, memory by `memory_bounds`.
The makespan is bounded through paths. In a stretch of slots either all blocks count, which run one after the other,
or all copies that begin after its first slot and end before its last one, which share the links: time is at least the
sum. `shares` `(slots,)` mix such choices: of a block its share counts, of a copy one minus the largest share among the
slots between its maker and its reader. The least of that sum over all plans is a pairwise problem, whose dual value
bounds it from below; as a function of the shares it is concave, and climbed by its subgradients.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.kernel_arrays import (
    BLOCK_FLOPS,
    COSTS,
    ENERGY,
    FLOPS,
    FLOPS_WASTE,
    PEAK,
    PEAK_FLOPS,
    TIME,
    TOTAL,
    TRAFFIC,
    EvaluationState,
)
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.loops import largest_between
from tapestry.optimizer.exact.memory_bounds import memory_bound
from tapestry.optimizer.exact.trws import Messages, new_messages, solve

CONSTANT_SHARES = (1.0, 0.5, 0.75, 0.9)
CLIMBS = 60
CLIMB_PASSES, LAST_PASSES = 6, 60  # of each climb, and of the best shares at the end
PATIENCE = 12  # climbs without a better bound, after which steps are halved
TIME_WEIGHTS = Weights(compute_ticks=1.0, least_copy_ticks=1.0)


def cost_bounds(
    costs: AdditiveCosts,
    state: EvaluationState,
    fastest: np.ndarray,
    leanest: np.ndarray,
    climbs: int = CLIMBS,
) -> np.ndarray:
    """Return what every plan of the space costs at least, in the order of a plan's integer costs `(costs,)`.

    `fastest` `(costs,)` are the costs of a plan of little time, `leanest` `(genes,)` the strategies of one of little
    memory: bounds are climbed towards them. Zero where nothing is known.
    """
    space, devices = costs.space, float(costs.space.classes.sum())
    found = np.zeros(COSTS + 2 * len(state.resources))
    found[TIME] = time_bound(costs, float(fastest[TIME]), climbs)
    found[TRAFFIC] = _least(costs, Weights(least_traffic=1.0))
    found[ENERGY] = _least(costs, Weights(least_energy=1.0))
    work = _least_work(costs)
    found[FLOPS] = work[0]
    found[PEAK_FLOPS] = found[FLOPS] / devices
    found[FLOPS_WASTE] = max(found[FLOPS] - space.base_flops, 0.0)
    found[PEAK] = memory_bound(costs, state, leanest)
    found[TOTAL] = devices * found[PEAK]
    found[COSTS::2] = work[1:]
    found[COSTS + 1 :: 2] = work[1:] / devices
    return found


def _least_work(costs: AdditiveCosts) -> np.ndarray:
    """Return the least flops, then amounts of the program's own resources, that all devices together can need."""
    space = costs.space
    found = 0.0
    for g, count in enumerate(space.strategy_count):
        rows = space.block_rows[space.block_offset[g] + np.arange(count), BLOCK_FLOPS:]
        found = found + (rows.reshape(count, -1, len(space.classes)) @ space.classes).min(axis=0)
    return np.asarray(found, dtype=np.float64)


def _least(costs: AdditiveCosts, weights: Weights) -> float:
    """Return a lower bound of what blocks and copies cost together, where several readers share a copy."""
    return max(solve(costs.problem(weights, shared=True)).bound, 0.0)


def time_bound(costs: AdditiveCosts, known: float, climbs: int = CLIMBS) -> float:
    """Return ticks that no plan of the space beats; `known` is the time of one of them, which sets the steps."""
    bound, best = 0.0, np.ones(costs.space.slot_count)
    messages = None
    for share in CONSTANT_SHARES:
        shares = np.full(costs.space.slot_count, share)
        found, _, messages = _dual(costs, shares, messages)
        if found > bound:
            bound, best = found, shares
    step, still = 1.0, 0
    shares = best.copy()
    for _ in range(climbs):
        found, slope, messages = _dual(costs, shares, messages)
        if found > bound * (1 + 1e-5):
            still = 0
        else:
            still += 1
        if found > bound:
            bound, best = found, shares.copy()
        if still >= PATIENCE:
            step, still, shares = step / 2, 0, best.copy()
            continue
        norm = float(slope @ slope)
        if norm == 0.0 or bound >= known:
            break
        shares = np.clip(shares + step * (known - found) / norm * slope, 0.0, 1.0)
    return max(bound, _dual(costs, best, messages, LAST_PASSES)[0])


def _dual(
    costs: AdditiveCosts, shares: np.ndarray, messages: Messages | None, passes: int = CLIMB_PASSES
) -> tuple[float, np.ndarray, Messages]:
    """Return the bound that shares prove, and about by how much it grows with each of them."""
    most, at = largest_between(costs.spans, shares)
    queues = costs.queue_share
    problem = costs.problem(TIME_WEIGHTS, shared=True, slot_shares=shares, edge_shares=(1.0 - most) * queues)
    messages = new_messages(problem) if messages is None else messages
    solution = solve(problem, messages, passes=passes)
    slope = costs.ticks_of(solution.labels)
    copies = costs.edge_costs(TIME_WEIGHTS, solution.labels) * queues / costs.readers
    np.subtract.at(slope, at[at >= 0], copies[at >= 0])
    return solution.bound, slope, messages
