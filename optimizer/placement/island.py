"""An island of the search: epochs of parent selection, variation, evaluation and archiving, all in numba.

An epoch is a function of its state alone (archive, generator, statistics), so it gives the same result on
any executor. Ranking between epochs uses DEAP's NSGA-II vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel import evaluate
from tapestry.optimizer.archive.goal import insert_one, objective_values, score
from tapestry.optimizer.placement.crossover import cross
from tapestry.optimizer.placement.rng import between, unit
from tapestry.optimizer.placement.variation import CROSSOVER, RELAYOUT, RULES, hash_plan, store_as, vary

POOL_SHARE = 0.15
MORE_MOVES_SHARE = 0.4
SETTLING_SHARE = 0.25
MOST_MOVES = 6
CHILDREN = 8
SEEN_SIZE = 1 << 18


class Statistics(NamedTuple):
    """The statistics of each rule: times applied, plans that entered the archive."""

    applied: np.ndarray
    improved: np.ndarray


def new_statistics() -> Statistics:
    """Create statistics with all counts zero."""
    return Statistics(np.zeros(len(RULES), np.int64), np.zeros(len(RULES), np.int64))


@njit(_nrt=False)
def _pick(random_state, weight, count):
    total = 0.0
    for i in range(count):
        total += weight[i]
    at = unit(random_state) * total
    for i in range(count):
        at -= weight[i]
        if at < 0.0:
            return i
    return count - 1


@njit()
def _new_plan(archive):
    return (
        np.zeros_like(archive.genes[0]),
        np.zeros_like(archive.prefetch[0]),
        np.zeros_like(archive.regather[0]),
    )


@njit(_nrt=False)
def _copy_plan(source, target):
    for g in range(source[0].shape[0]):
        target[0][g] = source[0][g]
    for e in range(source[1].shape[0]):
        target[1][e] = source[1][e]
        target[2][e] = source[2][e]


@njit()
def _select(random_state, archive, parent):
    """Copy a parent from the front (by weight) or, more rarely, the pool; return its hash."""
    front, pool = archive.size[0], archive.size[1]
    if front == 0 or (pool > 0 and unit(random_state) < POOL_SHARE):
        i = between(random_state, 0, pool)
        _copy_plan((archive.pool_genes[i], archive.pool_prefetch[i], archive.pool_regather[i]), parent)
        return archive.pool_digest[i]
    i = _pick(random_state, archive.weight, front)
    _copy_plan((archive.genes[i], archive.prefetch[i], archive.regather[i]), parent)
    return archive.digest[i]


@njit()
def _descend(space, state, search, archive, goal, random_state, plan, child, raw, value, digest, evaluations):
    """Optimize a plan's layouts: for every tied class in turn, try and insert all choices of orders, and keep the
    best.

    Returns the evaluations, at most about `evaluations`, and how many plans entered the front.
    """
    evaluate(space, state, plan[0], plan[1], plan[2], raw)
    least = score(goal, objective_values(goal, raw, value), value)
    own, done, entered = digest[0], 1, 0
    classes = search.slot_classes.shape[0]
    first = between(random_state, 0, classes)
    for k in range(classes):
        c = search.slot_classes[(first + k) % classes]
        low, high = search.gene_start[c], search.gene_start[c + 1]
        choices = search.choices[search.gene_members[low]]
        best = np.int64(-1)
        for o in range(choices if choices > 1 else 0):
            _copy_plan(plan, child)
            digest[0] = own
            store_as(space, search, child[0], low, high, o, digest)
            evaluate(space, state, child[0], child[1], child[2], raw)
            entered += insert_one(archive, goal, raw, value, child[0], child[1], child[2], digest[0])
            done += 1
            found = score(goal, objective_values(goal, raw, value), value)
            if found < least:
                best, least = np.int64(o), found
        if best >= 0:
            digest[0] = own
            store_as(space, search, plan[0], low, high, best, digest)
            own = digest[0]
        if done >= evaluations:
            break
    return done, entered


@njit()
def run_epoch(space, state, search, archive, goal, random_state, rule_weight, statistics, seen, evaluations):
    """Evaluate about `evaluations` new plans (fewer only if variation finds none); return how many.

    Where devices support several orders, a share of them optimizes the layouts of plans of the front.
    """
    parent = _new_plan(archive)
    child = _new_plan(archive)
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    digest = np.zeros(1, np.uint64)
    used = np.zeros(MOST_MOVES, np.int64)
    done, tries = 0, 0
    while space.has_dimension_orders and archive.size[0] > 0 and done < evaluations * SETTLING_SHARE:
        digest[0] = _select(random_state, archive, parent)
        left = np.int64(evaluations - done)
        more, entered = _descend(
            space, state, search, archive, goal, random_state, parent, child, raw, value, digest, left
        )
        done += more
        statistics.applied[RELAYOUT] += more
        statistics.improved[RELAYOUT] += entered
    while done < evaluations and tries < 64 * evaluations:
        parent_digest = _select(random_state, archive, parent)
        for _ in range(min(CHILDREN, evaluations - done)):
            tries += 1
            _copy_plan(parent, child)
            digest[0] = parent_digest
            moves = 0
            while moves < MOST_MOVES and (moves == 0 or unit(random_state) < MORE_MOVES_SHARE):
                used[moves] = _pick(random_state, rule_weight, rule_weight.shape[0])
                if used[moves] == CROSSOVER:
                    cross(random_state, space, search, archive, child[0], child[1], child[2], digest)
                else:
                    vary(used[moves], random_state, space, search, child[0], child[1], child[2], digest)
                moves += 1
            place = np.int64(digest[0] & np.uint64(SEEN_SIZE - 1))
            if seen[place] == digest[0]:
                continue
            seen[place] = digest[0]
            evaluate(space, state, child[0], child[1], child[2], raw)
            done += 1
            entered = insert_one(archive, goal, raw, value, child[0], child[1], child[2], digest[0])
            for r in range(moves):
                statistics.applied[used[r]] += 1
                statistics.improved[used[r]] += entered
    return done


@njit()
def insert_all(space, state, archive, goal, genes, prefetch, regather):
    """Evaluate and insert many plans (rows); return how many entered the front."""
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    entered = 0
    for i in range(genes.shape[0]):
        evaluate(space, state, genes[i], prefetch[i], regather[i], raw)
        digest = hash_plan(genes[i], prefetch[i], regather[i])
        if insert_one(archive, goal, raw, value, genes[i], prefetch[i], regather[i], digest):
            entered += 1
    return entered
