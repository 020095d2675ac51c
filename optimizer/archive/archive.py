"""The Pareto archive: an epsilon-dominance archive in arrays, with a pool of plans that break a bound.

Lower is better everywhere. An archive keeps at most one plan per box of the epsilon grid, and the best plan
of every objective whatever its box (Laumanns et al., Combining convergence and diversity, 2002).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import COSTS


class Archive(NamedTuple):
    """Plans and their costs. `size[0]` feasible plans, `size[1]` in the pool of infeasible ones.

    `value` are the chosen objectives `(capacity, m)`, `box` their grid cells, `raw` all integer costs. `trail`
    `(capacity, kinds of moves)` is how much of the way to a plan each kind of placement move has made.
    """

    size: np.ndarray
    value: np.ndarray
    box: np.ndarray
    raw: np.ndarray
    genes: np.ndarray
    prefetch: np.ndarray
    regather: np.ndarray
    digest: np.ndarray
    weight: np.ndarray
    trail: np.ndarray
    pool_violation: np.ndarray
    pool_raw: np.ndarray
    pool_genes: np.ndarray
    pool_prefetch: np.ndarray
    pool_regather: np.ndarray
    pool_digest: np.ndarray


def new_archive(
    capacity: int, pool: int, objectives: int, genes: int, edges: int, columns: int = COSTS, moves: int = 0
) -> Archive:
    """Create an empty archive of plans with so many `objectives`, integer costs (`columns`) and kinds of `moves`."""
    return Archive(
        np.zeros(2, np.int64),
        np.zeros((capacity, objectives)),
        np.zeros((capacity, objectives), np.int64),
        np.zeros((capacity, columns), np.int64),
        np.zeros((capacity, genes), np.int16),
        np.zeros((capacity, edges), np.int8),
        np.zeros((capacity, edges), np.int8),
        np.zeros(capacity, np.uint64),
        np.zeros(capacity),
        np.zeros((capacity, moves), np.float64),
        np.zeros(pool),
        np.zeros((pool, columns), np.int64),
        np.zeros((pool, genes), np.int16),
        np.zeros((pool, edges), np.int8),
        np.zeros((pool, edges), np.int8),
        np.zeros(pool, np.uint64),
    )


@njit()
def cell(value, epsilon):
    """Compute the grid cell of one objective: logarithmic, so that epsilon is relative."""
    return np.int64(-1) if value <= 0.0 else np.int64(np.floor(np.log(value) / np.log1p(epsilon)))


@njit()
def insert(archive, value, epsilon, raw, genes, prefetch, regather, digest):
    """Insert a feasible plan unless it is dominated; return True if it was inserted. Plans it dominates are removed.

    It is the last member then, and has no trail.
    """
    count = archive.size[0]
    m = value.shape[0]
    for i in range(count):  # most newcomers are no better than some member, and go at once
        if _no_worse(archive.value[i], value):
            return False
    extreme = False
    box = np.empty(m, np.int64)
    for j in range(m):
        box[j] = cell(value[j], epsilon[j])
        best = np.inf
        for i in range(count):
            best = min(best, archive.value[i, j])
        extreme |= value[j] < best
    for i in range(count):
        if extreme or not _no_worse(archive.box[i], box):
            continue
        if not (_no_worse(box, archive.box[i]) and _dominates(value, archive.value[i])):
            return False
    kept = 0
    for i in range(count):
        if not _covered(archive, i, kept, value, box, count):
            if kept != i:
                _move(archive, i, kept)
            kept += 1
    if kept == archive.value.shape[0]:
        if not extreme:
            archive.size[0] = kept
            return False
        kept -= 1
        _move(archive, kept, _expendable(archive, value))
    archive.value[kept] = value
    archive.box[kept] = box
    archive.raw[kept] = raw
    archive.genes[kept] = genes
    archive.prefetch[kept] = prefetch
    archive.regather[kept] = regather
    archive.digest[kept] = digest
    archive.weight[kept] = 1.0
    archive.trail[kept] = 0.0
    archive.size[0] = kept + 1
    return True


@njit()
def _no_worse(a, b):
    j = 0
    while j < a.shape[0] and a[j] <= b[j]:
        j += 1
    return j == a.shape[0]


@njit()
def _dominates(a, b):
    better = False
    for j in range(a.shape[0]):
        if a[j] > b[j]:
            return False
        better |= a[j] < b[j]
    return better


@njit()
def _covered(archive, i, kept, value, box, count):
    """Return whether member `i` must leave for a newcomer: dominated, or in a dominated box without being an extreme.

    The first `kept` members stay; of several that are equally good at an objective one is its extreme.
    """
    m = value.shape[0]
    if _dominates(value, archive.value[i]):
        return True
    for j in range(m):
        if box[j] > archive.box[i, j]:
            return False
    for j in range(m):
        mine = archive.value[i, j]
        extreme = mine < value[j]
        for k in range(kept):
            extreme &= mine < archive.value[k, j]
        for k in range(i + 1, count):
            extreme &= mine <= archive.value[k, j]
        if extreme:
            return False
    return True


@njit()
def _expendable(archive, value):
    """Find the last member of a full archive that is not the only best one at some objective, newcomer included."""
    count, m = archive.value.shape
    for r in range(count):
        i = count - 1 - r
        missed = False
        for j in range(m):
            best = value[j]
            for k in range(count):
                if k != i:
                    best = min(best, archive.value[k, j])
            missed |= archive.value[i, j] < best
        if not missed:
            return i
    return count - 1


@njit()
def _move(archive, i, k):
    archive.value[k] = archive.value[i]
    archive.box[k] = archive.box[i]
    archive.raw[k] = archive.raw[i]
    archive.genes[k] = archive.genes[i]
    archive.prefetch[k] = archive.prefetch[i]
    archive.regather[k] = archive.regather[i]
    archive.digest[k] = archive.digest[i]
    archive.weight[k] = archive.weight[i]
    archive.trail[k] = archive.trail[i]


@njit()
def insert_infeasible(archive, violation, raw, genes, prefetch, regather, digest):
    """Insert a plan that breaks a bound by `violation` (relative, summed); the pool keeps the smallest."""
    count = archive.size[1]
    for i in range(count):
        if archive.pool_digest[i] == digest:
            return False
    place = count
    if count == archive.pool_violation.shape[0]:
        place = np.argmax(archive.pool_violation)
        if archive.pool_violation[place] <= violation:
            return False
    else:
        archive.size[1] = count + 1
    archive.pool_violation[place] = violation
    archive.pool_raw[place] = raw
    archive.pool_genes[place] = genes
    archive.pool_prefetch[place] = prefetch
    archive.pool_regather[place] = regather
    archive.pool_digest[place] = digest
    return True
