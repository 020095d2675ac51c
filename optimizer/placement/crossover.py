"""Crossover of placements: a region of a plan is placed as another plan of the front places it."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.optimizer.placement.rng import between, unit
from tapestry.optimizer.placement.variation import TIED_SHARE, put, put_strategy


@njit(_nrt=False)
def cross(random_state, space, search, archive, genes, prefetch, regather, digest):
    """Take the decisions of a region from a plan of the front, drawn evenly; the plan may come out unchanged.

    A region is a run of tied classes, in all layers that have them, or for the smaller share a run of slots. Its length
    is drawn evenly by its logarithm.
    """
    if archive.size[0] == 0:
        return
    other = between(random_state, 0, archive.size[0])
    is_tied = unit(random_state) < TIED_SHARE
    length = search.slot_classes.shape[0] if is_tied else space.slot_count
    run = np.int64(np.exp(unit(random_state) * np.log(max(2, length))))
    first = between(random_state, 0, length)
    for k in range(first, min(first + run, length)):
        if is_tied:
            c = search.slot_classes[k]
            for r in range(search.gene_start[c], search.gene_start[c + 1]):
                _take(space, archive, other, search.gene_members[r], genes, prefetch, regather, digest)
        else:
            _take(space, archive, other, k, genes, prefetch, regather, digest)


@njit(_nrt=False, inline="always")
def _take(space, archive, other, g, genes, prefetch, regather, digest):
    """Take a slot's strategy, those of the sources that it reads, and how its inputs are copied."""
    n, m = genes.shape[0], prefetch.shape[0]
    put_strategy(space, genes, g, np.int64(archive.genes[other, g]), digest)
    for e in range(space.edge_start[g], space.edge_start[g + 1]):
        t = space.edge_tensor[e]
        if t < space.source_count:
            source = space.made_gene[t]
            put_strategy(space, genes, source, np.int64(archive.genes[other, source]), digest)
        put(prefetch, e, np.int64(archive.prefetch[other, e]), n, digest)
        put(regather, e, np.int64(archive.regather[other, e]), n + m, digest)
