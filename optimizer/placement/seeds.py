"""Initial plans, found by propagation: logical axes are assigned to dimension groups in an order of preference.

A group holds the dimensions that run along one logical dimension of the model, whatever it is called; preferring the
batch gives data parallelism, heads then hidden width give tensor parallelism, and so on. Nothing is looked up by
name.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import permutations, product

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import CompiledSpace
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.optimizer.placement.search_space import SearchSpace
from tapestry.optimizer.placement.variation import source_fits, with_digit

GROUPS_IN_PURE_SEEDS = 10
GROUPS_IN_MIXED_SEEDS = 5
LONGEST_PREFERENCE = 3


def seed_plans(space: PlanSpace, search: SearchSpace, limit: int = 4096) -> np.ndarray:
    """Build the strategy genes of the seeds, `(seeds, genes)`, each once, in order of preference.

    The abstract plan comes first; every other seed has its sources sharded as their readers need them, and again
    spread over all axes.
    """
    groups = search.group_dim.shape[1]
    axes = search.axes
    pure = [
        p
        for n in range(1, LONGEST_PREFERENCE + 1)
        for p in permutations(range(min(groups, GROUPS_IN_PURE_SEEDS)), n)
    ]
    mixed = [p for n in (0, 1, 2) for p in permutations(range(min(groups, GROUPS_IN_MIXED_SEEDS)), n)]
    preferences = [[p] * axes for p in pure]
    preferences += [list(c) for c in product(mixed, repeat=2) if c[0] != c[1] and axes > 1]
    preferences = preferences[: max(1, limit // 2)]
    tables = np.full((len(preferences), axes, LONGEST_PREFERENCE), -1, dtype=np.int64)
    for n, preference in enumerate(preferences):
        per_axis = preference if len(preference) == axes else [preference[0]] + [preference[1]] * (axes - 1)
        for a, wanted in enumerate(per_axis):
            tables[n, a, : len(wanted)] = wanted
    rows = np.zeros((1 + 2 * len(tables), space.gene_count), dtype=np.int64)
    rows[0] = space.abstract_genes().strategies
    propagate_all(space.space, search, tables, rows[1:])
    return _distinct(space.with_state(rows))


def random_seeds(space: PlanSpace, search: SearchSpace, count: int, rng: np.random.Generator) -> np.ndarray:
    """Build the strategy genes of at most `count` seeds, `(seeds, genes)`, each once, in random orders of preference.

    The first groups, which most blocks share, are preferred more often.
    """
    groups, half = search.group_dim.shape[1], (count + 1) // 2
    drawn = rng.random((half, search.axes, LONGEST_PREFERENCE)) ** 2
    rows = np.zeros((2 * half, space.gene_count), dtype=np.int64)
    propagate_all(space.space, search, (drawn * groups).astype(np.int64), rows)
    rows = _distinct(rows[:count])
    policies = rng.integers(len(search.policies), size=len(rows))
    return space.with_state(rows - rows % search.choices + search.policies[policies])


def stored_seeds(plans: np.ndarray, search: SearchSpace) -> np.ndarray:
    """Return every plan with tensors in the program's order, and again by one of the policies of orders, in turn."""
    others = len(search.policies) - 1
    if others == 0:
        return plans
    turn = 1 + np.arange(len(plans)) % others
    stored = plans - plans % search.choices + search.policies[turn]
    rows: np.ndarray = np.stack([plans, stored], axis=1).reshape(-1, plans.shape[1])
    return _distinct(rows)


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Return each row once, in order of first occurrence."""
    first: dict[bytes, int] = {}
    for k, row in enumerate(rows):
        first.setdefault(blake2b(row.tobytes()).digest(), k)
    return rows[list(first.values())]


@njit()
def propagate_all(space, search, preferences, rows):
    """Fill two rows of genes per preference: sources placed as they are read, and sources spread over all axes."""
    for n in range(preferences.shape[0]):
        propagate(space, search, preferences[n], rows[2 * n])
        rows[2 * n + 1] = rows[2 * n]
        spread_sources(space, search, rows[2 * n + 1])


@njit()
def propagate(space, search, preference, genes):
    """Choose for each slot and axis the first preferred group that the block can take; sources follow their readers."""
    for g in range(space.slot_count):
        s = np.int64(0)
        for a in range(search.axes):
            for r in range(preference.shape[1]):
                group = preference[a, r]
                if group < 0:
                    break
                dim = search.group_dim[search.class_of[g], group]
                if dim < 0:
                    continue
                found = with_digit(space, search, g, s, a, dim)
                if found >= 0:
                    s = found
                    break
        genes[g] = s
    for t in range(space.source_count):
        if search.reader_start[t + 1] > search.reader_start[t]:
            source_fits(
                space, search, genes, t, search.reader_edge[search.reader_start[t]], np.zeros(1, np.uint64)
            )


@njit()
def spread_sources(space, search, genes):
    """Shard sources over every axis: idle axes split the last dimension that accepts them."""
    for t in range(space.source_count):
        g = space.made_gene[t]
        s = np.int64(genes[g])
        for a in range(search.axes):
            if search.digits[space.block_offset[g] + s, a] >= 0:
                continue
            for r in range(search.dim_count[g]):
                found = with_digit(space, search, g, s, a, search.dim_count[g] - 1 - r)
                if found >= 0:
                    s = found
                    break
        genes[g] = s


def genes_rows(strategies: np.ndarray, space: CompiledSpace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build strategy rows with no prefetch and no regather, in the archive's types."""
    edges = len(space.edge_tensor)
    rows = len(strategies)
    return strategies.astype(np.int16), np.zeros((rows, edges), np.int8), np.zeros((rows, edges), np.int8)
