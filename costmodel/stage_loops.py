"""The fast path of the cost model for plans with stages: a piece is counted once per lap, and composed by turns.

What a piece does to its own stage, and to others, is the same in every round but the first and the last. So its changes
of memory are added up once for each of these *laps*, and its clock is run again only where the copies that it finds
under way differ; a pass over the turns of all stages puts pieces together. `costmodel.reference` and the simulator run
all turns. Imported by `costmodel.kernel`.

Positions of the scans number the slots of a piece, and one place behind them, once per lap. Orders say when something
happens: twice the number of slots in turns before, and one more after a block. It follows the conventions "shared
copies", "rounds", "stages" and "lifetimes" of `docs/sharding.md`.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    FOREVER,
    ORDER,
    PAIR_LANDING,
    PAIR_STAGING,
    PAIR_TICKS,
    PIECE_FIRST,
    PIECE_LAPS,
    PIECE_ROW,
    PLACED,
    RELAYOUT_TICKS,
    SPEC,
)
from tapestry.costmodel.kernel_copies import add_on_host, count_copy, host_staging
from tapestry.costmodel.round_loops import change, copy_in_rounds, known_copy, last_position


@njit(_nrt=False)
def begin_stages(state):
    """Forget what stages do."""
    state.initial[:] = 0
    state.logical_initial[:] = 0
    state.sent[:] = 0
    state.begun[:] = 0
    state.freed[:] = 0
    state.first_sent[:] = -1
    state.first_begun[:] = -1
    state.first_waited[:] = -1


@njit(_nrt=False)
def tensors_in_stages(space, state, count, sign):
    """Add (or take back) the first `count` affected tensors; a call for each would pass all arrays each time."""
    for r in range(count):
        _tensor(space, state, state.affected[r], sign)


@njit(_nrt=False, inline="always")
def _tensor(space, state, t, sign):
    """Add (or take back) a tensor: its buffers, the copies its readers share on each stage, and their lifetimes.

    The last use of its own buffer is a read on its stage, or the begin of a turn of another stage, which waits for a
    copy: at a position, or at -1 - the row of such a turn.
    """
    of_round, own = space.is_of_round[t], space.gene_stage[space.made_gene[t]]
    made = space.made_offset[t] + state.genes[space.made_gene[t]]
    row = space.made_bytes_offset[t] + space.spec_ids[made, PLACED]
    made_spec = space.spec_ids[made, SPEC] * space.needed_specs[t]
    relayouts = space.relayout_offset[t] + space.spec_ids[made, ORDER] * space.needed_count[t]
    state.generation[0] += 1
    generation = state.generation[0] << 32
    last_order, last_at, stays = np.int64(-1), np.int64(0), False
    seen_order, seen_at, is_seen_forever = np.int64(-1), np.int64(-1), False
    segments = 0
    for r in range(space.reader_start[t], space.reader_start[t + 1]):
        e = space.reader_edge[r]
        k = space.edge_slot[e]
        late = last_position(space, k)
        after = 2 * late + 1 + (FOREVER if space.is_sink[k] else 0)
        if space.order_last[k] > seen_order:
            seen_order, seen_at = space.order_last[k], late
        is_seen_forever |= space.is_sink[k]
        need = space.edge_needed[e] + state.genes[k]
        n = space.spec_ids[need, PLACED]
        sent = space.edge_number[e] >= 0
        pair = space.pair_ids[space.edge_pairs[e] + made_spec + space.spec_ids[need, SPEC]]
        relayout = relayouts + n if space.has_dimension_orders else 0
        if space.pair_rows[pair, PAIR_TICKS] < 0 and space.relayout_rows[relayout, RELAYOUT_TICKS] < 0:
            if space.order_last[k] + 1 > last_order:
                last_order, last_at = space.order_last[k] + 1, late
            stays |= space.is_sink[k]
            continue
        key = space.edge_keys[e] + n
        known = state.stamp[key] - generation
        known, issue = known_copy(space, state, t, need, segments, k, e, known)
        read = (state.segment_last[known] & (FOREVER - 1)) >> 1 if known >= 0 else np.int64(-1)
        cuts = state.regather[e] > 0 and not sent
        if known >= 0 and not (cuts and read < late):
            state.segment_last[known] = (state.segment_last[known] & FOREVER) | after
            continue
        # A copy of what is there for all rounds is made in the first one, or again in each.
        again = space.lap[k] > 0 and not of_round and cuts
        once = space.lap[k] > 0 and not of_round and not again
        state.stamp[key] = generation + e
        state.segment_last[e] = after
        state.is_again[e] = again
        state.is_once[e] = once
        state.segments[segments] = e
        segments += 1
        size = space.needed_bytes_offset[t] + n
        order = space.order_first[k] if once else space.order_last[k]
        if sent:
            piece = space.slot_piece[k]
            order -= 2 * (k - space.pieces[piece, PIECE_FIRST])
            if order > last_order:
                lap = 0 if once else space.pieces[piece, PIECE_LAPS] - 1
                last_order, last_at = order, -1 - (space.pieces[piece, PIECE_ROW] + lap)
            _sent_copy(space, state, t, pair, relayout, row, size, k, e, own, once, sign)
        else:
            if order > last_order:
                last_order, last_at = order, space.position[k] if once else late
            copy_in_rounds(space, state, pair, relayout, row, size, issue, k, e, once, sign)
    for r in range(segments):
        e = state.segments[r]
        if state.segment_last[e] < FOREVER:
            n = space.spec_ids[space.edge_needed[e] + state.genes[space.edge_slot[e]], PLACED]
            size = space.needed_bytes_offset[t] + n
            in_laps = of_round or state.is_again[e]
            change(space, state.before, state.segment_last[e] >> 1, 1, size, in_laps, -sign)
    if space.has_host:
        add_on_host(space, state, row, own, sign * (space.round_count if of_round else 1))
    _buffer(space, state, t, row, own, last_order, last_at, stays, seen_at < 0, sign)
    _logical(space, state, t, seen_at, is_seen_forever, sign)


@njit(_nrt=False, inline="always")
def _sent_copy(space, state, t, row, relayout, made, size, k, e, own, once, sign):
    """Add or subtract the copies of an edge from stage `own` to that of slot `k`.

    They begin when the turn ends that made the tensor, or the first one that a sliced source's stage has in the round,
    or with the turn that reads them, which waits for them first.
    """
    alike = space.lap[k] > 0 and not once
    count_copy(space, state, row, relayout, made, size, e, sign * (space.round_count if alike else 1))
    staging, landing = space.pair_rows[row, PAIR_STAGING], space.pair_rows[row, PAIR_LANDING]
    other, reader, made_at = space.gene_stage[k], space.slot_piece[k], space.made_at[t]
    first = space.pieces[reader, PIECE_FIRST]
    read_row, laps = space.pieces[reader, PIECE_ROW], space.pieces[reader, PIECE_LAPS] if alike else 1
    begin_row, changes = read_row, state.begun
    maker = np.int64(-1)
    if made_at >= 0:
        maker = space.slot_piece[made_at]
    elif space.is_of_round[t]:
        maker = space.first_before[reader, own]
    if maker >= 0:
        begin_row, changes = space.pieces[maker, PIECE_ROW], state.sent
        if not alike:  # complete after the last round
            begin_row += space.pieces[maker, PIECE_LAPS] - 1
        _insert(state.first_sent, state.next_sent, maker, e, sign)
    else:
        _insert(state.first_begun, state.next_sent, reader, e, sign)
    _insert(state.first_waited, state.next_waited, reader, e, sign)
    for j in range(laps):
        for c in range(space.classes.shape[0]):
            staged, landed = space.staging_rows[staging, c], space.staging_rows[landing, c]
            if space.has_host:
                coming, going = host_staging(space, made, size, c)
                staged, landed = staged + coming, landed + going
            changes[begin_row + j, other, c] += sign * (space.size_rows[size, c] + landed)
            changes[begin_row + j, own, c] += sign * staged
            state.freed[read_row + j, own, c] -= sign * staged
            state.during[space.position[first] + j * space.lap[first], c] -= sign * landed


@njit(_nrt=False, inline="always")
def _insert(heads, following, at, e, sign):
    """Add edge `e` to a list of edges in their order, or take it from there."""
    previous, here = np.int64(-1), heads[at]
    while here >= 0 and here < e:
        previous, here = here, following[here]
    after = e
    if sign > 0:
        following[e] = here
    else:
        after = following[e]
    if previous < 0:
        heads[at] = after
    else:
        following[previous] = after


@njit(_nrt=False, inline="always")
def _buffer(space, state, t, row, own, last_order, last_at, stays, is_unread, sign):
    """Add (or take back) the tensor's own buffers, from their producer (sources: from the start) to their last use."""
    made_at, of_round = space.made_at[t], space.is_of_round[t]
    if made_at < 0:
        times = sign * (space.round_count if of_round else 1)
        for c in range(space.classes.shape[0]):
            state.initial[own, c] += times * space.size_rows[row, c]
        if space.is_persistent[t] or is_unread:
            return
    else:
        at = last_position(space, made_at) if of_round else space.position[made_at]
        change(space, state.during, at, 0, row, of_round, sign)
        if is_unread:
            last_order, last_at = np.int64(1), last_position(space, made_at)
    if stays:
        return
    if last_at < 0:
        last_row = -1 - last_at
        for j in range(space.row_laps[last_row] if of_round else 1):
            for c in range(space.classes.shape[0]):
                state.freed[last_row - j, own, c] -= sign * space.size_rows[row, c]
    elif last_order & 1:
        change(space, state.before, last_at, 1, row, of_round, -sign)
    else:
        change(space, state.during, last_at, 0, row, of_round, -sign)


@njit(_nrt=False, inline="always")
def _logical(space, state, t, seen_at, is_seen_forever, sign):
    """Add (or take back) the logical bytes of a tensor, from its producer to the last block that reads it."""
    made_at, of_round, logical = space.made_at[t], space.is_of_round[t], sign * space.logical_bytes[t]
    is_unread = seen_at < 0
    if made_at < 0:
        state.logical_initial[0] += logical * (space.round_count if of_round else 1)
        if space.is_persistent[t] or is_unread:
            return
    else:
        at = last_position(space, made_at) if of_round else space.position[made_at]
        for j in range(space.laps if of_round else 1):
            state.logical_during[at - j * space.lap[made_at]] += logical
        if is_unread:
            seen_at = last_position(space, made_at)
    if is_seen_forever:
        return
    lap = space.lap[space.slot_at[seen_at]]
    for j in range(space.laps if of_round and lap > 0 else 1):
        state.logical_before[seen_at - j * lap + 1] -= logical
