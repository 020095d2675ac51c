"""Replay of an epoch of an island with a witness: the plans that were evaluated, and some of them with their costs.

`record_epoch` makes the moves of `optimizer.placement.island.run_epoch` in the same order from the same random number
generator; that it does is checked by comparing the archives both leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.optimizer.archive.goal import insert_one
from tapestry.optimizer.placement.island import (
    CHILDREN,
    MOST_MOVES,
    SEEN_SIZE,
    _copy_plan,
    _credit,
    _new_plan,
    _select,
    vary_randomly,
)


class Witness(NamedTuple):
    """A record of an epoch: `digests` of all evaluated plans; genes and costs of those in `wanted` (ascending
    numbers).

    `place` holds the number of plans evaluated and of plans kept so far.
    """

    place: np.ndarray
    digests: np.ndarray
    wanted: np.ndarray
    strategies: np.ndarray
    prefetch: np.ndarray
    regather: np.ndarray
    costs: np.ndarray

    def plan(self, i: int) -> Genes:
        """Return kept plan `i`."""
        rows = (self.strategies[i], self.prefetch[i], self.regather[i])
        return Genes(*(row.astype(np.int64) for row in rows))


def new_witness(space: PlanSpace, evaluated: int, kept: int, rng: np.random.Generator) -> Witness:
    """Build an empty witness for `evaluated` plans, `kept` of them chosen at random."""
    kept = min(kept, evaluated)
    return Witness(
        np.zeros(2, np.int64),
        np.zeros(evaluated, np.uint64),
        np.sort(rng.choice(evaluated, size=kept, replace=False)),
        np.zeros((kept, space.gene_count), np.int16),
        np.zeros((kept, space.edge_count), np.int8),
        np.zeros((kept, space.edge_count), np.int8),
        np.zeros((kept, space.cost_count), np.int64),
    )


@njit()
def record_epoch(
    space, state, search, archive, goal, random_state, odds, statistics, seen, evaluations, witness
):
    """Run `run_epoch` with a witness; return how many plans were evaluated."""
    parent = _new_plan(archive)
    child = _new_plan(archive)
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    digest, trail = np.zeros(1, np.uint64), np.zeros_like(archive.trail[0])
    used = np.zeros(MOST_MOVES, np.int64)
    done, tries = 0, 0
    while done < evaluations and tries < 64 * evaluations:
        parent_digest = _select(random_state, archive, parent, trail)
        for _ in range(min(CHILDREN, evaluations - done)):
            tries += 1
            _copy_plan(parent, child)
            digest[0] = parent_digest
            moves = vary_randomly(random_state, space, search, archive, odds, child, digest, used, statistics)
            place = np.int64(digest[0] & np.uint64(SEEN_SIZE - 1))
            if moves == 0 or seen[place] == digest[0]:
                continue
            seen[place] = digest[0]
            evaluate(space, state, child[0], child[1], child[2], raw)
            done += 1
            _note(witness, child, raw, digest[0])
            if insert_one(archive, goal, raw, value, child[0], child[1], child[2], digest[0]):
                _credit(archive, trail, used, moves, statistics)
    return done


@njit()
def _note(witness, child, raw, digest):
    number, kept = witness.place[0], witness.place[1]
    witness.digests[number] = digest
    witness.place[0] = number + 1
    if kept < witness.wanted.shape[0] and witness.wanted[kept] == number:
        witness.strategies[kept] = child[0]
        witness.prefetch[kept] = child[1]
        witness.regather[kept] = child[2]
        witness.costs[kept] = raw
        witness.place[1] = kept + 1
