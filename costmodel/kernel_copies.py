"""Steps about copies that the loops of the cost model share: which one serves a reader, which are due in a slot."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    ENERGY,
    ORDER,
    PAIR_ENERGY,
    PAIR_QUEUES,
    PAIR_TICKS,
    PAIR_TRAFFIC,
    RELAYOUT_ENERGY,
    RELAYOUT_TICKS,
    SPEC,
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
def count_copy(space, state, row, relayout, e, times):
    """Add so many copies of edge `e` to traffic and energy (or take them back), and note its ticks and queues."""
    state.totals[TRAFFIC] += times * space.pair_rows[row, PAIR_TRAFFIC]
    state.totals[ENERGY] += times * (
        space.pair_rows[row, PAIR_ENERGY] + space.relayout_rows[relayout, RELAYOUT_ENERGY]
    )
    between, again = space.pair_rows[row, PAIR_TICKS], space.relayout_rows[relayout, RELAYOUT_TICKS]
    state.copy_ticks[e] = max(between, 0) + max(again, 0)
    state.copy_queues[e] = space.pair_rows[row, PAIR_QUEUES]
