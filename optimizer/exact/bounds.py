"""Proven lower bounds of what any plan of a space costs, by the integer costs from which objectives follow.

What adds up over blocks and copies is bounded by the dual value of its pairwise problem, memory by `memory_bounds`.
The makespan is bounded through paths. In a stretch of slots either all blocks count, which run one after the other,
or all copies that begin after its first slot and end before its last one: time is at least the sum of those that take
one communication queue, and the mean of these sums over all queues. Between a block and the next one, it is at least
the copy that one hands to the other. `shares` `(slots,)` mix such choices: of a block its share counts, of a copy one
minus the largest share among the slots between its maker and its reader. Readers whose copies may serve each other pay
shares of one. The least of that sum over all plans is a pairwise problem, whose dual value bounds it from below, and
grows along its subgradients in the shares.
"""

from __future__ import annotations

from typing import NamedTuple

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
from tapestry.costmodel.resources import LARGEST
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.loops import largest_between
from tapestry.optimizer.exact.memory_bounds import memory_bound
from tapestry.optimizer.exact.trws import Messages, new_messages, solve

CONSTANT_SHARES = (1.0, 0.5, 0.75, 0.9)
CLIMBS = 60
CLIMB_PASSES, LAST_PASSES = 6, 60  # of each climb, and of the best shares at the end
PATIENCE = 8  # climbs without a better bound, after which steps are halved; after twice as many they end
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
    space, stages = costs.space, costs.space.stage_count
    devices = stages * float(space.classes.sum())
    found = np.zeros(COSTS + 2 * len(state.resources))
    if stages == 1:
        found[TIME] = time_bound(costs, float(fastest[TIME]), climbs)
        found[PEAK] = memory_bound(costs, state, leanest)
    else:  # what stages take, and hold, in the mean
        found[TIME] = _least(costs, Weights(compute_ticks=1.0)) / stages
        found[PEAK] = _least(costs, Weights(resident=1.0)) / stages
    found[TRAFFIC] = _least(costs, Weights(least_traffic=1.0))
    found[ENERGY] = min(_least(costs, Weights(least_energy=1.0)), LARGEST)
    work = _least_work(costs)
    found[FLOPS] = min(work[0], LARGEST)
    found[PEAK_FLOPS] = work[0] / devices
    found[FLOPS_WASTE] = max(work[0] - space.exact_flops, 0.0)
    found[TOTAL] = devices * found[PEAK]
    found[COSTS::2] = work[1:]
    found[COSTS + 1 :: 2] = work[1:] / devices
    return found


def _least_work(costs: AdditiveCosts) -> np.ndarray:
    """Return the least flops, then amounts of the program's own resources, that all devices together can need."""
    space = costs.space
    found = 0.0
    for g, count in enumerate(space.strategy_count):
        rows = space.repeats[g] * space.block_rows[space.block_offset[g] + np.arange(count), BLOCK_FLOPS:]
        found = found + (rows.reshape(count, -1, len(space.classes)) @ space.classes).min(axis=0)
    return np.asarray(found, dtype=np.float64)


def _least(costs: AdditiveCosts, weights: Weights) -> float:
    """Return a lower bound of what blocks and copies cost together, where several readers share a copy."""
    return max(solve(costs.problem(weights, shared=True)).bound, 0.0)


class Mix(NamedTuple):
    """A mix of paths: shares of slots `(slots,)`, and those of copies that readers who share them pay `(edges,)`."""

    slots: np.ndarray
    readers: np.ndarray


def time_bound(costs: AdditiveCosts, known: float, climbs: int = CLIMBS) -> float:
    """Return ticks that no plan of the space beats; `known` is the time of one of them, which sets the steps."""
    bound, best = 0.0, Mix(np.ones(costs.space.slot_count), costs.as_shares(np.ones(len(costs.readers))))
    messages = None
    for share in CONSTANT_SHARES:
        mix = best._replace(slots=np.full(costs.space.slot_count, share))
        found, _, messages = _dual(costs, mix, messages)
        if found > bound:
            bound, best = found, mix
    step, still = 1.0, 0
    mix = best
    for _ in range(climbs):
        found, slope, messages = _dual(costs, mix, messages)
        still = 0 if found > bound * (1 + 1e-5) else still + 1
        if found > bound:
            bound, best = found, mix
        if still >= 2 * PATIENCE:
            break
        if still == PATIENCE:
            step, mix = step / 2, best
            continue
        norm = float(slope.slots @ slope.slots + slope.readers @ slope.readers)
        if norm == 0.0 or bound >= known:
            break
        length = step * (known - found) / norm
        mix = Mix(
            np.clip(mix.slots + length * slope.slots, 0.0, 1.0),
            costs.as_shares(np.maximum(mix.readers + length * slope.readers, 0.0)),
        )
    return max(bound, _dual(costs, best, messages, LAST_PASSES)[0])


def _dual(
    costs: AdditiveCosts, mix: Mix, messages: Messages | None, passes: int = CLIMB_PASSES
) -> tuple[float, Mix, Messages]:
    """Return the bound that a mix of paths proves, and about by how much it grows with each share."""
    most, at = largest_between(costs.spans, mix.slots)
    counted, gain, low = counted_shares(costs, mix, most)
    problem = costs.problem(TIME_WEIGHTS, shared=mix.readers, slot_shares=mix.slots, edge_shares=counted)
    messages = new_messages(problem) if messages is None else messages
    solution = solve(problem, messages, passes=passes)
    slope = costs.ticks_of(solution.labels)
    copies = costs.edge_costs(TIME_WEIGHTS, solution.labels)
    np.subtract.at(slope, at[at >= 0], (copies * mix.readers)[at >= 0])
    np.add.at(slope, low, gain * copies * mix.readers)
    paid = copies * counted
    mean = np.bincount(costs.sharing, paid * mix.readers)
    return solution.bound, Mix(slope, paid - mean[costs.sharing]), messages


def counted_shares(
    costs: AdditiveCosts, mix: Mix, most: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the share in which each edge's copy counts; by how much it grows with that of a slot, and of which.

    Where both blocks count and nothing is between them, all of a copy does, or of several the mean.
    """
    follows, queues = costs.follows, costs.space.communication_queues
    ends = np.maximum(costs.spans, 0)
    low = np.where(mix.slots[ends[:, 0]] <= mix.slots[ends[:, 1]], ends[:, 0], ends[:, 1])
    alone = 1.0 / costs.side_by_side() - 1.0 / queues
    counted = np.where(follows, 1.0 / queues + alone * mix.slots[low], 1.0 - most)
    return counted, np.where(follows, alone, 0.0), low
