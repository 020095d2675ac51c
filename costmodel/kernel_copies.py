"""Steps about copies that the loops of the cost model share: which one serves a reader, which are due in a slot."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    ENERGY,
    HOST_ENERGY,
    HOST_TICKS,
    ON_HOST,
    ORDER,
    PAIR_ENERGY,
    PAIR_QUEUES,
    PAIR_TICKS,
    PAIR_TRAFFIC,
    PEAK,
    RELAYOUT_ENERGY,
    RELAYOUT_TICKS,
    SPEC,
    TOTAL,
    TRAFFIC,
)


@njit(_nrt=False, inline="always")
def around(space, state, t, need, segments):
    """Find the last copy of tensor `t` that holds what row `need` of `spec_ids` asks for, as an edge; -1: none."""
    for r in range(segments):
        e = state.segments[segments - 1 - r]
        if serves(space, state, t, need, e):
            return e
    return np.int64(-1)


@njit(_nrt=False, inline="always")
def serves(space, state, t, need, e):
    """Return whether the copy of tensor `t` that edge `e` makes holds what row `need` of `spec_ids` asks for."""
    held = space.edge_needed[e] + state.genes[space.edge_slot[e]]
    wanted = space.inside_offset[t] + space.spec_ids[need, SPEC]
    pair = wanted + space.spec_ids[held, SPEC] * space.needed_specs[t]
    return space.spec_ids[held, ORDER] == space.spec_ids[need, ORDER] and space.inside[pair]


@njit(_nrt=False, inline="always")
def enlist(state, issue, e, sign):
    """Add the copy of edge `e` to those due at slot `issue`, in edge order, or take it from them."""
    previous, at = np.int64(-1), state.first_due[issue]
    while at >= 0 and at < e:
        previous, at = at, state.next_due[at]
    following = at
    if sign > 0:
        state.next_due[e] = at
        following = e
    else:
        following = state.next_due[e]
    if previous < 0:
        state.first_due[issue] = following
    else:
        state.next_due[previous] = following


@njit(_nrt=False, inline="always")
def count_copy(space, state, row, relayout, made, size, e, times):
    """Add so many copies of edge `e` to traffic and energy (or take them back), and note its ticks and queues.

    `made` and `size` are the rows of sizes of the part that is there and of the part that is needed.
    """
    state.totals[TRAFFIC] += times * space.pair_rows[row, PAIR_TRAFFIC]
    state.totals[ENERGY] += times * (
        space.pair_rows[row, PAIR_ENERGY] + space.relayout_rows[relayout, RELAYOUT_ENERGY]
    )
    between, again = space.pair_rows[row, PAIR_TICKS], space.relayout_rows[relayout, RELAYOUT_TICKS]
    state.copy_ticks[e] = max(between, 0) + max(again, 0)
    state.copy_queues[e] = space.pair_rows[row, PAIR_QUEUES]
    if space.has_host:
        _count_host(space, state, between >= 0, made, size, e, times)


@njit(_nrt=False)
def _count_host(space, state, is_exchanged, made, size, e, times):
    """Add what a copy takes of the host's link.

    Where devices exchange parts as well, what they send comes from the host first, or goes there last.
    """
    from_host, to_host = space.host_rows[made, ON_HOST], space.host_rows[size, ON_HOST]
    if from_host + to_host == 0:
        return
    if not is_exchanged:
        state.copy_queues[e] = 0
    if to_host or not is_exchanged:
        state.copy_ticks[e] += space.host_rows[size, HOST_TICKS]
        state.totals[ENERGY] += times * space.host_rows[size, HOST_ENERGY]
    if from_host and is_exchanged:
        state.copy_ticks[e] += space.host_rows[made, HOST_TICKS]
        state.totals[ENERGY] += times * space.host_rows[made, HOST_ENERGY]
    state.copy_queues[e] |= (to_host + 2 * from_host) << space.communication_queues


@njit(_nrt=False, inline="always")
def host_staging(space, made, size, c):
    """Return the bytes of class `c` that wait on the device, as a part on its way from the host, and on one to it."""
    from_host = space.host_rows[made, ON_HOST] * space.host_bytes[made, c]
    return from_host, space.host_rows[size, ON_HOST] * space.host_bytes[size, c]


@njit(_nrt=False)
def add_on_host(space, state, row, stage, times):
    """Add so many parts, of a row of sizes, to what lies on the hosts of a stage, if they do."""
    if space.host_rows[row, ON_HOST]:
        for c in range(space.classes.shape[0]):
            state.host[stage * space.classes.shape[0] + c] += times * space.host_bytes[row, c]


@njit(_nrt=False)
def add_overflow(space, state, cost):
    """Count what the host of a device has no room for as memory of the device, which has to keep it."""
    most = np.int64(0)
    for c in range(state.host.shape[0]):
        beyond = max(state.host[c] - space.host_memory_bytes, 0)
        most = max(most, beyond)
        cost[TOTAL] += beyond * space.classes[c % space.classes.shape[0]]
    cost[PEAK] += most
