"""The two scans over a plan's slots: clocks, and memory. Compiled; `costmodel.kernel` keeps what they run over."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import MEMORY_WASTE, PEAK, TOTAL


@njit(_nrt=False)
def clock(space, state):
    """Compute the makespan in ticks: one compute stream, one link stream, copies issued slot by slot."""
    now, link = np.int64(0), np.int64(0)
    for k in range(space.slot_count):
        e = state.first_due[k]
        while e >= 0:
            link = max(link, now) + state.copy_ticks[e]
            reader = space.edge_slot[e]
            state.ready[reader] = max(state.ready[reader], link)
            e = state.next_due[e]
        now = max(now, state.ready[k]) + state.slot_ticks[k]
        state.ready[k] = 0
    return now


@njit(_nrt=False)
def memory(space, state, cost):
    """Compute the memory peaks per class, their maximum and sum, and the waste at the first sample of the global
    peak.

    Samples count 2 * slot for the copies of a slot and 2 * slot + 1 for its outputs.
    """
    highest, first = np.int64(-1), np.int64(0)
    for c in range(space.classes.shape[0]):
        live, peak, at = np.int64(0), np.int64(-1), np.int64(0)
        for k in range(space.slot_count):
            live += state.before[k, c]
            if live > peak:
                peak, at = live, np.int64(2 * k)
            live += state.during[k, c]
            if live > peak:
                peak, at = live, np.int64(2 * k + 1)
        cost[TOTAL] += max(peak, np.int64(0)) * space.classes[c]
        if peak > highest or (peak == highest and at < first):
            highest, first = peak, at
    cost[PEAK] = highest
    cost[MEMORY_WASTE] = _waste(space, state, first)


@njit(_nrt=False)
def _waste(space, state, sample):
    """Compute the live bytes over devices at a sample, minus the logical bytes of distinct live tensors."""
    befores, durings = (sample >> 1) + 1, (sample + 1) >> 1
    total = np.int64(0)
    for c in range(space.classes.shape[0]):
        live = np.int64(0)
        for k in range(befores):
            live += state.before[k, c]
        for k in range(durings):
            live += state.during[k, c]
        total += live * space.classes[c]
    for k in range(befores):
        total -= state.logical_before[k]
    for k in range(durings):
        total -= state.logical_during[k]
    return total
