"""An island of the search: epochs of parent selection, variation, evaluation and archiving, all in numba.

An epoch is a function of its state alone (archive, generator, statistics), so it gives the same result on
any executor. Ranking between epochs uses DEAP's NSGA-II vocabulary.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel import evaluate
from tapestry.optimizer.archive.goal import insert_one, objective_values, score
from tapestry.optimizer.placement.credits import HISTORY
from tapestry.optimizer.placement.crossover import cross
from tapestry.optimizer.placement.rng import between, unit
from tapestry.optimizer.placement.search_space import PLACE_CLASSES
from tapestry.optimizer.placement.variation import (
    CROSSOVER,
    PROGRAM,
    RELAYOUT,
    class_at,
    draw_place,
    hash_plan,
    store_as,
    vary_at,
)

POOL_SHARE = 0.15
MORE_MOVES_SHARE = 0.4
SETTLING_SHARE = 0.25
MOST_MOVES = 6
CHILDREN = 8
SEEN_SIZE = 1 << 18
CLASSES = len(PLACE_CLASSES)
# The places that are drawn for a move, at most: each may be refused by its class.
PLACES = 4


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
def _select(random_state, archive, parent, trail):
    """Copy a parent from the front (by weight) or, more rarely, the pool, and its trail; return its hash."""
    front, pool = archive.size[0], archive.size[1]
    if front == 0 or (pool > 0 and unit(random_state) < POOL_SHARE):
        i = between(random_state, 0, pool)
        _copy_plan((archive.pool_genes[i], archive.pool_prefetch[i], archive.pool_regather[i]), parent)
        trail[:] = 0.0
        return archive.pool_digest[i]
    i = _pick(random_state, archive.weight, front)
    _copy_plan((archive.genes[i], archive.prefetch[i], archive.regather[i]), parent)
    trail[:] = archive.trail[i]
    return archive.digest[i]


@njit(_nrt=False)
def _credit(archive, trail, used, moves, statistics):
    """Give credit for the plan that has just entered the front to its moves and those of its parent's trail."""
    own = archive.trail[archive.size[0] - 1]
    for k in range(own.shape[0]):
        own[k] = HISTORY * trail[k]
    for r in range(moves):
        own[used[r]] += (1.0 - HISTORY) / moves
        statistics.improved[used[r] // CLASSES, used[r] % CLASSES] += 1
    for k in range(own.shape[0]):
        statistics.credit[k // CLASSES, k % CLASSES] += own[k]


@njit()
def _descend(
    space,
    state,
    search,
    archive,
    goal,
    random_state,
    plan,
    trail,
    child,
    raw,
    value,
    digest,
    evaluations,
    statistics,
):
    """Optimize a plan's layouts: for every tied class in turn, try and insert all choices of orders, and keep the
    best.

    Returns the evaluations, at most about `evaluations`.
    """
    evaluate(space, state, plan[0], plan[1], plan[2], raw)
    least = score(goal, objective_values(goal, raw, value), value)
    own, done = digest[0], 1
    used = np.full(1, RELAYOUT * CLASSES + PROGRAM, np.int64)
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
            if insert_one(archive, goal, raw, value, child[0], child[1], child[2], digest[0]):
                _credit(archive, trail, used, 1, statistics)
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
    statistics.applicable[RELAYOUT, PROGRAM] += done
    statistics.applied[RELAYOUT, PROGRAM] += done
    return done


@njit()
def vary_randomly(random_state, space, search, archive, odds, child, digest, used, statistics):
    """Make some random moves on a plan, drawn by their odds; return how many changed it, and what they were in `used`.

    A move is the kind times the number of classes of places, plus the class of its place.
    """
    moves, drawn = 0, 0
    while drawn < MOST_MOVES and (drawn == 0 or unit(random_state) < MORE_MOVES_SHARE):
        rule, before = _pick(random_state, odds.rule, odds.rule.shape[0]), digest[0]
        place, at = np.int64(-1), np.int64(PROGRAM)
        for _ in range(PLACES):
            place = draw_place(rule, random_state, search)
            at = class_at(rule, place, search)
            if odds.place[rule, at] >= 1.0 or unit(random_state) < odds.place[rule, at]:
                break
        if rule == CROSSOVER:
            cross(random_state, space, search, archive, child[0], child[1], child[2], digest)
        else:
            vary_at(rule, place, random_state, space, search, child[0], child[1], child[2], digest)
        if digest[0] != before:
            used[moves] = rule * CLASSES + at
            statistics.applicable[rule, at] += 1
            moves += 1
        drawn += 1
    return moves


@njit()
def run_epoch(space, state, search, archive, goal, random_state, odds, statistics, seen, evaluations):
    """Evaluate about `evaluations` new plans (fewer only if variation finds none); return how many.

    Where devices support several orders, a share of them optimizes the layouts of plans of the front.
    """
    parent = _new_plan(archive)
    child = _new_plan(archive)
    trail = np.zeros_like(archive.trail[0])
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    digest = np.zeros(1, np.uint64)
    used = np.zeros(MOST_MOVES, np.int64)
    done, tries = 0, 0
    while space.has_dimension_orders and archive.size[0] > 0 and done < evaluations * SETTLING_SHARE:
        digest[0] = _select(random_state, archive, parent, trail)
        left = np.int64(evaluations - done)
        done += _descend(
            space,
            state,
            search,
            archive,
            goal,
            random_state,
            parent,
            trail,
            child,
            raw,
            value,
            digest,
            left,
            statistics,
        )
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
            for r in range(moves):
                statistics.applied[used[r] // CLASSES, used[r] % CLASSES] += 1
            if insert_one(archive, goal, raw, value, child[0], child[1], child[2], digest[0]):
                _credit(archive, trail, used, moves, statistics)
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
