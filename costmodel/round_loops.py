"""The fast path of the cost model for plans with rounds: a loop is counted once, and composed.

What happens in a loop happens in every round alike, but for the first and the last: copies that serve all rounds, and
buffers in which rounds accumulate, begin in the first and end in the last. Bytes and flops are therefore multiples,
clocks repeat once the state between two rounds does, and memory is scanned in the *laps* that differ: the first two
rounds and the last two, between which the live bytes grow by as much in each round. `costmodel.reference` and the
simulator run all rounds. Imported by `costmodel.kernel`.

Positions of the scans number the slots, those of a loop once per lap. It follows the conventions "shared copies",
"rounds" and "lifetimes" of `docs/sharding.md`.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    FOREVER,
    ORDER,
    PAIR_STAGING,
    PAIR_TICKS,
    PLACED,
    RELAYOUT_TICKS,
    SPEC,
)
from tapestry.costmodel.kernel_copies import add_on_host, count_copy, enlist, host_staging, serves
from tapestry.costmodel.kernel_scans import step_clock


@njit(_nrt=False)
def tensors_in_rounds(space, state, count, sign):
    """Add (or take back) the first `count` affected tensors; a call for each would pass all arrays each time."""
    for r in range(count):
        _tensor(space, state, state.affected[r], sign)


@njit(_nrt=False, inline="always")
def _tensor(space, state, t, sign):
    """Add (or take back) a tensor: its buffers, the copies its readers share, and their lifetimes.

    Lifetimes end at 2 * position while waiting, or at 2 * position + 1 after the block there; FOREVER is added to those
    of sinks. Of a slot in a loop, the position is that in the last lap.
    """
    of_round = space.is_of_round[t]
    made = space.made_offset[t] + state.genes[space.made_gene[t]]
    made_row = space.made_bytes_offset[t] + space.spec_ids[made, PLACED]
    pairs = space.pair_offset[t] + space.spec_ids[made, SPEC] * space.needed_specs[t]
    relayouts = space.relayout_offset[t] + space.spec_ids[made, ORDER] * space.needed_count[t]
    state.generation[0] += 1
    generation = state.generation[0] << 32
    last_use, last_seen = np.int64(-1), np.int64(-1)
    segments = 0
    for r in range(space.reader_start[t], space.reader_start[t + 1]):
        e = space.reader_edge[r]
        k = space.edge_slot[e]
        late = last_position(space, k)
        after = 2 * late + 1 + (FOREVER if space.is_sink[k] else 0)
        last_seen = max(last_seen, after)
        need = space.edge_needed[e] + state.genes[k]
        n = space.spec_ids[need, PLACED]
        pair = space.pair_ids[pairs + space.spec_ids[need, SPEC]]
        relayout = relayouts + n if space.has_dimension_orders else 0
        if space.pair_rows[pair, PAIR_TICKS] < 0 and space.relayout_rows[relayout, RELAYOUT_TICKS] < 0:
            last_use = max(last_use, after)
            continue
        key = space.key_offset[t] + n
        known = state.stamp[key] - generation
        known, issue = known_copy(space, state, t, need, segments, k, e, known)
        read = (state.segment_last[known] & (FOREVER - 1)) >> 1 if known >= 0 else np.int64(-1)
        if known >= 0 and not (state.regather[e] and read < late):
            state.segment_last[known] = (state.segment_last[known] & FOREVER) | after
            continue
        # A copy of what is there for all rounds is made in the first one, or again in each.
        again = space.lap[k] > 0 and not of_round and state.regather[e] > 0
        once = space.lap[k] > 0 and not of_round and not again
        last_use = max(last_use, 2 * (space.position[k] if once else late))
        state.stamp[key] = generation + e
        state.segment_last[e] = after
        state.is_again[e] = again
        state.is_once[e] = once
        state.segments[segments] = e
        segments += 1
        size = space.needed_bytes_offset[t] + n
        copy_in_rounds(space, state, pair, relayout, made_row, size, issue, k, e, once, sign)
    for r in range(segments):
        e = state.segments[r]
        if state.segment_last[e] < FOREVER:
            n = space.spec_ids[space.edge_needed[e] + state.genes[space.edge_slot[e]], PLACED]
            row = space.needed_bytes_offset[t] + n
            change(
                space, state.before, state.segment_last[e] >> 1, 1, row, of_round or state.is_again[e], -sign
            )
    if space.has_host:
        add_on_host(space, state, made_row, np.int64(0), sign)
    _buffer(space, state, t, made_row, last_use, last_seen, sign)


@njit(_nrt=False, inline="always")
def last_position(space, k):
    """Return the position of slot `k` in the last lap."""
    return space.position[k] + (space.laps - 1) * space.lap[k]


@njit(_nrt=False, inline="always")
def is_there(space, state, e, k):
    """Return whether the copy of edge `e` may serve slot `k`: one that is made in each round serves its loop alone."""
    return not state.is_again[e] or space.first_slot[space.edge_slot[e]] == space.first_slot[k]


@njit(_nrt=False, inline="always")
def known_copy(space, state, t, need, segments, k, e, same):
    """Return the copy that edge `e` to slot `k` may share, or -1, and the slot in which one of its own is issued.

    `same` is the last copy in what it asks for, row `need` of `spec_ids`; -1: there is none.
    """
    issue = max(space.made_at[t] + 1, k - state.prefetch[e], space.first_slot[k])
    if same < 0:
        return _around(space, state, t, need, segments, k), issue
    issue = max(issue, space.slot_at[(state.segment_last[same] & (FOREVER - 1)) >> 1] + 1)
    return (same if is_there(space, state, same, k) else np.int64(-1)), issue


@njit(_nrt=False, inline="always")
def _around(space, state, t, need, segments, k):
    """Find the last copy of tensor `t` on the stage of slot `k` that serves it by row `need`; -1: none."""
    for r in range(segments):
        e = state.segments[segments - 1 - r]
        is_here = space.gene_stage[space.edge_slot[e]] == space.gene_stage[k]
        if is_here and is_there(space, state, e, k) and serves(space, state, t, need, e):
            return e
    return np.int64(-1)


@njit(_nrt=False, inline="always")
def change(space, changes, last, behind, row, in_laps, sign):
    """Change the bytes at the position `last`, or `behind` it, by a row of sizes; `in_laps`: in all laps alike."""
    lap = space.lap[space.slot_at[last]]
    for j in range(space.laps if in_laps and lap > 0 else 1):
        for c in range(space.classes.shape[0]):
            changes[last - j * lap + behind, c] += sign * space.size_rows[row, c]


@njit(_nrt=False, inline="always")
def copy_in_rounds(space, state, row, relayout, made, size, issue, k, e, once, sign):
    """Add or subtract the copies of one edge: their bytes from their issue on, staging until slot `k`, queue places."""
    lap = space.lap[k]
    alike = lap > 0 and not once
    count_copy(space, state, row, relayout, made, size, e, sign * (space.round_count if alike else 1))
    staging = space.pair_rows[row, PAIR_STAGING]
    is_staged = space.has_host and space.pair_rows[row, PAIR_TICKS] >= 0
    for j in range(space.laps if alike else 1):
        begin, end = space.position[issue] + j * lap, space.position[k] + j * lap
        for c in range(space.classes.shape[0]):
            state.before[begin, c] += sign * (space.size_rows[size, c] + space.staging_rows[staging, c])
            state.during[end, c] -= sign * space.staging_rows[staging, c]
            if is_staged:
                coming, going = host_staging(space, made, size, c)
                state.before[begin, c] += sign * (coming + going)
                state.during[end, c] -= sign * (coming + going)
    enlist(state, issue, e, sign)


@njit(_nrt=False, inline="always")
def _buffer(space, state, t, row, last_use, last_seen, sign):
    """Add (or take back) the tensor's own buffers, from their producer (sources: from the start) to their last use."""
    made_at, of_round = space.made_at[t], space.is_of_round[t]
    logical = sign * space.logical_bytes[t]
    if made_at < 0:
        times = space.round_count if of_round else 1
        for c in range(space.classes.shape[0]):
            state.before[0, c] += sign * times * space.size_rows[row, c]
        state.logical_before[0] += times * logical
        if space.is_persistent[t] or last_seen < 0:
            return
    else:
        # What accumulates begins in the first round, and ends after the last.
        at = last_position(space, made_at) if of_round else space.position[made_at]
        change(space, state.during, at, 0, row, of_round, sign)
        for j in range(space.laps if of_round else 1):
            state.logical_during[at - j * space.lap[made_at]] += logical
        if last_seen < 0:
            last_use = last_seen = 2 * last_position(space, made_at) + 1
    if last_use < FOREVER:
        if last_use & 1:
            change(space, state.before, last_use >> 1, 1, row, of_round, -sign)
        else:
            change(space, state.during, last_use >> 1, 0, row, of_round, -sign)
    if last_seen < FOREVER:
        at = last_seen >> 1
        lap = space.lap[space.slot_at[at]]
        for j in range(space.laps if of_round and lap > 0 else 1):
            state.logical_before[at - j * lap + 1] -= logical


@njit(_nrt=False)
def clock_in_rounds(space, state):
    """Compute the makespan in ticks as `kernel_scans.clock` does; a loop until two rounds leave the same state."""
    now, link = np.int64(0), np.int64(0)
    state.queue_ticks[:] = 0
    begin = 0
    for loop in range(space.loops.shape[0]):
        first, end = space.loops[loop, 0], space.loops[loop, 1]
        now, link = step_clock(space, state, 0, begin, first, now, link, True)
        for number in range(space.round_count):
            before, waited = now, max(link - now, 0)
            _remember(state, now)
            now, link = step_clock(space, state, 0, first, end, now, link, number == 0)
            if number > 0 and waited == max(link - now, 0) and _is_as_before(state, now):
                skipped = (space.round_count - 1 - number) * (now - before)
                now, link = now + skipped, link + skipped
                for q in range(state.queue_ticks.shape[0]):
                    state.queue_ticks[q] += skipped
                break
        begin = end
    return step_clock(space, state, 0, begin, space.slot_count, now, link, True)[0]


@njit(_nrt=False, inline="always")
def _remember(state, now):
    """Keep how long after `now`, the begin of a round, each queue is free."""
    for q in range(state.queue_ticks.shape[0]):
        state.queue_waits[q] = max(state.queue_ticks[q] - now, 0)


@njit(_nrt=False, inline="always")
def _is_as_before(state, now):
    """Return whether at `now`, the end of a round, each queue is free as long after it as it was at its begin."""
    changed = 0
    for q in range(state.queue_ticks.shape[0]):
        if state.queue_waits[q] != max(state.queue_ticks[q] - now, 0):
            changed += 1
    return changed == 0
