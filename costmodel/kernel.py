"""The fast path: the cost of one plan from arrays, without a Python object per candidate.

A plan is an integer vector of genes (strategy per slot and per source) plus a prefetch distance and a
regather flag per edge. `evaluate` is one pass over the edges (specs, shared copies, liveness as
differences), one over the slots (clocks and memory). `costmodel.plain` says the same slowly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Columns of a row of `pair_rows` before the staging bytes per class.
PAIR_TICKS, PAIR_TRAFFIC, PAIR_ENERGY, PAIR_STAGING = 0, 1, 2, 3
# Columns of a row of `block_rows` before the flops per class.
BLOCK_TICKS, BLOCK_ENERGY, BLOCK_FLOPS = 0, 1, 2

TIME, PEAK, TOTAL, FLOPS, PEAK_FLOPS, TRAFFIC, MEMORY_WASTE, FLOPS_WASTE, ENERGY = range(9)
COSTS = 9

FOREVER = np.int64(1) << 40


class Space(NamedTuple):
    """A compiled graph x mesh x view, for numba. Offsets point into the flat tables.

    Slots are blocks in issue order; genes are the slots' strategies, then the sources'. Tensors count the
    sources' first. Sizes in bytes, time in ticks, energy in pJ; `classes` counts devices per class.
    """

    slot_count: int
    source_count: int
    base_flops: int
    classes: np.ndarray  # (classes,)
    # per gene
    strategy_count: np.ndarray
    block_offset: np.ndarray  # row in block_rows of the gene's first strategy
    # per slot
    edge_start: np.ndarray  # (slots + 1,)
    out_start: np.ndarray  # (slots + 1,): tensors made by the slot
    is_sink: np.ndarray
    # per tensor
    made_at: np.ndarray  # slot, -1 for sources
    made_gene: np.ndarray
    made_offset: np.ndarray  # into spec_ids: strategy -> made spec
    pair_offset: np.ndarray  # row in pair_rows of (made 0, needed 0)
    needed_count: np.ndarray
    made_bytes_offset: np.ndarray  # row in size_rows
    needed_bytes_offset: np.ndarray
    key_offset: np.ndarray  # first shared-copy key of the tensor
    logical_bytes: np.ndarray
    lives_on: np.ndarray  # parameters and the like: live throughout
    # per edge
    edge_tensor: np.ndarray
    edge_needed: np.ndarray  # into spec_ids: strategy -> needed spec
    # tables
    spec_ids: np.ndarray
    pair_rows: np.ndarray  # (rows, 3 + classes)
    size_rows: np.ndarray  # (rows, classes)
    block_rows: np.ndarray  # (rows, 2 + classes)


class Scratch(NamedTuple):
    """Working arrays of one evaluation at a time; `stamp` holds generation << 32 | edge per shared-copy key."""

    generation: np.ndarray  # (1,)
    stamp: np.ndarray
    spec: np.ndarray
    last_use: np.ndarray
    last_seen: np.ndarray
    segment_last: np.ndarray
    segment_pair: np.ndarray
    segment_size: np.ndarray
    segment_forever: np.ndarray
    segments: np.ndarray
    next_due: np.ndarray
    first_due: np.ndarray
    last_due: np.ndarray
    ready: np.ndarray
    before: np.ndarray  # (slots + 1, classes): change of live bytes up to the copies of a slot
    during: np.ndarray  # (slots + 1, classes): from there to its outputs
    logical_before: np.ndarray
    logical_during: np.ndarray
    live: np.ndarray
    peak: np.ndarray
    flops: np.ndarray
    edge_slot: np.ndarray


def new_scratch(space: Space) -> Scratch:
    """Scratch arrays for `evaluate` on this space."""
    slots, edges, tensors = space.slot_count, len(space.edge_tensor), len(space.made_at)
    classes = len(space.classes)
    keys = int((space.key_offset + space.needed_count).max(initial=0))
    edge_slot = np.repeat(np.arange(slots), np.diff(space.edge_start)).astype(np.int64)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return Scratch(
        zeros(1), zeros(keys), zeros(tensors), zeros(tensors), zeros(tensors), zeros(edges), zeros(edges), zeros(edges),
        zeros(edges), zeros(edges), zeros(edges), zeros(slots), zeros(slots), zeros(slots),
        zeros(slots + 1, classes), zeros(slots + 1, classes), zeros(slots + 1), zeros(slots + 1),
        zeros(classes), zeros(classes), zeros(classes), edge_slot,
    )  # fmt: skip


@njit(cache=True)
def evaluate(space, scratch, genes, prefetch, regather, cost):  # type: ignore[no-untyped-def]
    """Fill `cost` `(COSTS,)` int64 with the plan's time (ticks), bytes, flops and dynamic energy (pJ)."""
    scratch.generation[0] += 1
    _reset(scratch)
    cost[:] = 0
    segment_count = _edges(space, scratch, genes, prefetch, regather, cost)
    _lifetimes(space, scratch, segment_count)
    cost[TIME] = _clock(space, scratch, genes, cost)
    _memory(space, scratch, cost)
    for c in range(space.classes.shape[0]):
        cost[FLOPS] += scratch.flops[c] * space.classes[c]
        cost[PEAK_FLOPS] = max(cost[PEAK_FLOPS], scratch.flops[c])
    cost[FLOPS_WASTE] = cost[FLOPS] - space.base_flops


@njit(cache=True)
def _reset(scratch):  # type: ignore[no-untyped-def]
    scratch.first_due[:] = -1
    scratch.ready[:] = 0
    scratch.before[:] = 0
    scratch.during[:] = 0
    scratch.logical_before[:] = 0
    scratch.logical_during[:] = 0
    scratch.flops[:] = 0
    scratch.last_use[:] = -1
    scratch.last_seen[:] = -1


@njit(cache=True)
def _edges(space, scratch, genes, prefetch, regather, cost):  # type: ignore[no-untyped-def]
    """Specs, views and shared copies of every edge in slot order; returns how many copies are made.

    `last_use` and `last_seen` are 2 * slot while waiting, 2 * slot + 1 after the slot's block.
    """
    classes = space.classes.shape[0]
    generation = scratch.generation[0] << 32
    for t in range(space.source_count):
        scratch.spec[t] = space.spec_ids[space.made_offset[t] + genes[space.made_gene[t]]]
    made = 0
    for k in range(space.slot_count):
        s = genes[k]
        for e in range(space.edge_start[k], space.edge_start[k + 1]):
            t = space.edge_tensor[e]
            n = space.spec_ids[space.edge_needed[e] + s]
            row = space.pair_offset[t] + scratch.spec[t] * space.needed_count[t] + n
            ticks = space.pair_rows[row, PAIR_TICKS]
            if ticks < 0:
                last = FOREVER if space.is_sink[k] else 2 * k + 1
                if last > scratch.last_use[t]:
                    scratch.last_use[t] = last
                if last > scratch.last_seen[t]:
                    scratch.last_seen[t] = last
                continue
            key = space.key_offset[t] + n
            known = scratch.stamp[key] - generation
            shared = 0 <= known < (1 << 32)
            if shared and not (regather[e] and scratch.segment_last[known] < k):
                scratch.segment_last[known] = k
                if space.is_sink[k]:
                    scratch.segment_forever[known] = 1
            else:
                issue = max(space.made_at[t] + 1, k - prefetch[e])
                if shared:
                    issue = max(issue, scratch.segment_last[known] + 1)
                scratch.stamp[key] = generation + e
                scratch.segment_last[e] = k
                scratch.segment_pair[e] = row
                scratch.segment_size[e] = space.needed_bytes_offset[t] + n
                scratch.segment_forever[e] = 1 if space.is_sink[k] else 0
                scratch.segments[made] = e
                made += 1
                cost[TRAFFIC] += space.pair_rows[row, PAIR_TRAFFIC]
                cost[ENERGY] += space.pair_rows[row, PAIR_ENERGY]
                for c in range(classes):
                    staging = space.pair_rows[row, PAIR_STAGING + c]
                    scratch.before[issue, c] += space.size_rows[scratch.segment_size[e], c] + staging
                    scratch.during[k, c] -= staging
                if 2 * k > scratch.last_use[t]:
                    scratch.last_use[t] = 2 * k
                _append_due(scratch, issue, e)
            if 2 * k + 1 > scratch.last_seen[t]:
                scratch.last_seen[t] = FOREVER if space.is_sink[k] else 2 * k + 1
        for t in range(space.out_start[k], space.out_start[k + 1]):
            p = space.spec_ids[space.made_offset[t] + s]
            scratch.spec[t] = p
            for c in range(classes):
                scratch.during[k, c] += space.size_rows[space.made_bytes_offset[t] + p, c]
            scratch.logical_during[k] += space.logical_bytes[t]
    return made


@njit(cache=True)
def _append_due(scratch, issue, e):  # type: ignore[no-untyped-def]
    scratch.next_due[e] = -1
    if scratch.first_due[issue] < 0:
        scratch.first_due[issue] = e
    else:
        scratch.next_due[scratch.last_due[issue]] = e
    scratch.last_due[issue] = e


@njit(cache=True)
def _lifetimes(space, scratch, segment_count):  # type: ignore[no-untyped-def]
    """Turn last uses into frees: while waiting of a slot, or after it."""
    classes = space.classes.shape[0]
    for r in range(segment_count):
        e = scratch.segments[r]
        if scratch.segment_forever[e] == 0:
            for c in range(classes):
                scratch.before[scratch.segment_last[e] + 1, c] -= space.size_rows[scratch.segment_size[e], c]
    for t in range(space.made_at.shape[0]):
        if space.lives_on[t]:
            continue
        last, seen = scratch.last_use[t], scratch.last_seen[t]
        if last < 0:
            if space.made_at[t] < 0:
                continue
            last = seen = 2 * space.made_at[t] + 1
        row = space.made_bytes_offset[t] + scratch.spec[t]
        if last < FOREVER:
            k = last >> 1
            if last & 1:
                for c in range(classes):
                    scratch.before[k + 1, c] -= space.size_rows[row, c]
            else:
                for c in range(classes):
                    scratch.during[k, c] -= space.size_rows[row, c]
        if seen < FOREVER:
            scratch.logical_before[(seen >> 1) + 1] -= space.logical_bytes[t]


@njit(cache=True)
def _clock(space, scratch, genes, cost):  # type: ignore[no-untyped-def]
    """Makespan in ticks; adds the blocks' energy and flops."""
    classes = space.classes.shape[0]
    now, link = np.int64(0), np.int64(0)
    for k in range(space.slot_count):
        e = scratch.first_due[k]
        while e >= 0:
            link = max(link, now) + space.pair_rows[scratch.segment_pair[e], PAIR_TICKS]
            reader = scratch.edge_slot[e]
            if link > scratch.ready[reader]:
                scratch.ready[reader] = link
            e = scratch.next_due[e]
        row = space.block_offset[k] + genes[k]
        now = max(now, scratch.ready[k]) + space.block_rows[row, BLOCK_TICKS]
        cost[ENERGY] += space.block_rows[row, BLOCK_ENERGY]
        for c in range(classes):
            scratch.flops[c] += space.block_rows[row, BLOCK_FLOPS + c]
    return now


@njit(cache=True)
def _memory(space, scratch, cost):  # type: ignore[no-untyped-def]
    """Peaks per class, their maximum and sum, and what is wasted at the first sample of the global peak."""
    classes = space.classes.shape[0]
    live, peak = scratch.live, scratch.peak
    live[:] = 0
    logical = np.int64(0)
    for t in range(space.source_count):
        logical += space.logical_bytes[t]
        row = space.made_bytes_offset[t] + scratch.spec[t]
        for c in range(classes):
            live[c] += space.size_rows[row, c]
    highest = np.int64(-1)
    for c in range(classes):
        peak[c] = live[c]
        highest = max(highest, live[c])
    waste = _waste(space, live, logical)
    for k in range(space.slot_count):
        logical += scratch.logical_before[k]
        top = np.int64(-1)
        for c in range(classes):
            live[c] += scratch.before[k, c]
            peak[c] = max(peak[c], live[c])
            top = max(top, live[c])
        if top > highest:
            highest = top
            waste = _waste(space, live, logical)
        logical += scratch.logical_during[k]
        top = np.int64(-1)
        for c in range(classes):
            live[c] += scratch.during[k, c]
            peak[c] = max(peak[c], live[c])
            top = max(top, live[c])
        if top > highest:
            highest = top
            waste = _waste(space, live, logical)
    cost[PEAK] = highest
    cost[MEMORY_WASTE] = waste
    for c in range(classes):
        cost[TOTAL] += peak[c] * space.classes[c]


@njit(cache=True)
def _waste(space, live, logical):  # type: ignore[no-untyped-def]
    total = -logical
    for c in range(live.shape[0]):
        total += live[c] * space.classes[c]
    return total
