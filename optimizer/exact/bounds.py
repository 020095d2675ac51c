"""Proven lower bounds of what any plan of a space costs.

The makespan is bounded through paths. In a stretch of slots either all blocks count, which run one after the other,
or all copies that begin after its first slot and end before its last one, which share the links: time is at least the
sum. `shares` `(slots,)` mix such choices: of a block its share counts, of a copy one minus the largest share among the
slots between its maker and its reader. The least of that sum over all plans is a pairwise problem, whose dual value
bounds it from below; as a function of the shares it is concave, and climbed by its subgradients.
"""

from __future__ import annotations

import numpy as np

from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.loops import largest_between
from tapestry.optimizer.exact.trws import Messages, new_messages, solve

CONSTANT_SHARES = (1.0, 0.5, 0.75, 0.9)
CLIMBS = 60
PATIENCE = 12  # climbs without a better bound, after which steps are halved
TIME_WEIGHTS = Weights(compute_ticks=1.0, least_copy_ticks=1.0)


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
    return bound


def _dual(
    costs: AdditiveCosts, shares: np.ndarray, messages: Messages | None
) -> tuple[float, np.ndarray, Messages]:
    """Return the bound that shares prove, and about by how much it grows with each of them."""
    most, at = largest_between(costs.spans, shares)
    queues = costs.queue_share
    problem = costs.problem(TIME_WEIGHTS, shared=True, slot_shares=shares, edge_shares=(1.0 - most) * queues)
    messages = new_messages(problem) if messages is None else messages
    solution = solve(problem, messages)
    slope = costs.ticks_of(solution.labels)
    copies = costs.edge_costs(TIME_WEIGHTS, solution.labels) * queues / costs.readers
    np.subtract.at(slope, at[at >= 0], copies[at >= 0])
    return solution.bound, slope, messages
