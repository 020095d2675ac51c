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
    ENERGY,
    FOREVER,
    MEMORY_WASTE,
    ORDER,
    PAIR_ENERGY,
    PAIR_LANDING,
    PAIR_QUEUES,
    PAIR_STAGING,
    PAIR_TICKS,
    PAIR_TRAFFIC,
    PEAK,
    PIECE_END,
    PIECE_FIRST,
    PIECE_LAPS,
    PIECE_ROW,
    PIECE_STAGE,
    PLACED,
    RELAYOUT_ENERGY,
    RELAYOUT_TICKS,
    SPEC,
    TOTAL,
    TRAFFIC,
    TURN_LAP,
    TURN_PIECE,
    TURN_ROUND,
)
from tapestry.costmodel.kernel_copies import serves
from tapestry.costmodel.kernel_scans import step_clock
from tapestry.costmodel.round_loops import change, copy_in_rounds, is_there, last_position


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
def tensor_in_stages(space, state, t, sign):
    """Add (or take back) a tensor: its buffers, the copies its readers share on each stage, and their lifetimes.

    The last use of its own buffer is a read on its stage, or the begin of a turn of another stage, which waits for a
    copy: at a position, or at -1 - the row of such a turn.
    """
    made_at, sliced, own = space.made_at[t], space.is_sliced[t], space.gene_stage[space.made_gene[t]]
    made = space.made_offset[t] + state.genes[space.made_gene[t]]
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
        same = known >= 0
        issue = max(made_at + 1, k - state.prefetch[e], space.first_slot[k])
        if same:
            issue = max(issue, space.slot_at[(state.segment_last[known] & (FOREVER - 1)) >> 1] + 1)
            if not is_there(space, state, known, k):
                known = np.int64(-1)
        else:
            known = _around(space, state, t, need, segments, k)
        read = (state.segment_last[known] & (FOREVER - 1)) >> 1 if known >= 0 else np.int64(-1)
        cuts = state.regather[e] > 0 and not sent
        if known >= 0 and not (cuts and read < late):
            state.segment_last[known] = (state.segment_last[known] & FOREVER) | after
            continue
        # A copy of what is there for all rounds is made in the first one, or again in each.
        again = space.lap[k] > 0 and not sliced and cuts
        once = space.lap[k] > 0 and not sliced and not again
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
            _sent_copy(space, state, t, pair, relayout, size, k, e, own, once, sign)
        else:
            if order > last_order:
                last_order, last_at = order, space.position[k] if once else late
            copy_in_rounds(space, state, pair, relayout, size, issue, k, e, once, sign)
    for r in range(segments):
        e = state.segments[r]
        if state.segment_last[e] < FOREVER:
            n = space.spec_ids[space.edge_needed[e] + state.genes[space.edge_slot[e]], PLACED]
            row = space.needed_bytes_offset[t] + n
            in_laps = sliced or state.is_again[e]
            change(space, state.before, state.segment_last[e] >> 1, 1, row, in_laps, -sign)
    row = space.made_bytes_offset[t] + space.spec_ids[made, PLACED]
    _buffer(space, state, t, row, own, last_order, last_at, stays, seen_at < 0, sign)
    _logical(space, state, t, seen_at, is_seen_forever, sign)


@njit(_nrt=False, inline="always")
def _around(space, state, t, need, segments, k):
    """Find the last copy of tensor `t` on the stage of slot `k` that serves it by row `need` of `spec_ids`; -1: none."""
    for r in range(segments):
        e = state.segments[segments - 1 - r]
        is_here = space.gene_stage[space.edge_slot[e]] == space.gene_stage[k]
        if is_here and is_there(space, state, e, k) and serves(space, state, t, need, e):
            return e
    return np.int64(-1)


@njit(_nrt=False, inline="always")
def _sent_copy(space, state, t, row, relayout, size, k, e, own, once, sign):
    """Add or subtract the copies of an edge from stage `own` to that of slot `k`.

    They begin when the turn ends that made the tensor, or with the turn that reads a source, which waits for them
    first.
    """
    alike = space.lap[k] > 0 and not once
    times = sign * (space.round_count if alike else 1)
    state.totals[TRAFFIC] += times * space.pair_rows[row, PAIR_TRAFFIC]
    state.totals[ENERGY] += times * (
        space.pair_rows[row, PAIR_ENERGY] + space.relayout_rows[relayout, RELAYOUT_ENERGY]
    )
    between, again = space.pair_rows[row, PAIR_TICKS], space.relayout_rows[relayout, RELAYOUT_TICKS]
    state.copy_ticks[e] = max(between, 0) + max(again, 0)
    state.copy_queues[e] = space.pair_rows[row, PAIR_QUEUES]
    staging, landing = space.pair_rows[row, PAIR_STAGING], space.pair_rows[row, PAIR_LANDING]
    other, reader, made_at = space.gene_stage[k], space.slot_piece[k], space.made_at[t]
    first = space.pieces[reader, PIECE_FIRST]
    read_row, laps = space.pieces[reader, PIECE_ROW], space.pieces[reader, PIECE_LAPS] if alike else 1
    begin_row, changes = read_row, state.begun
    if made_at >= 0:
        maker = space.slot_piece[made_at]
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
    made_at, sliced = space.made_at[t], space.is_sliced[t]
    if made_at < 0:
        times = sign * (space.round_count if sliced else 1)
        for c in range(space.classes.shape[0]):
            state.initial[own, c] += times * space.size_rows[row, c]
        if space.is_persistent[t] or is_unread:
            return
    else:
        at = last_position(space, made_at) if sliced else space.position[made_at]
        change(space, state.during, at, 0, row, sliced, sign)
        if is_unread:
            last_order, last_at = np.int64(1), last_position(space, made_at)
    if stays:
        return
    if last_at < 0:
        last_row = -1 - last_at
        for j in range(space.row_laps[last_row] if sliced else 1):
            for c in range(space.classes.shape[0]):
                state.freed[last_row - j, own, c] -= sign * space.size_rows[row, c]
    elif last_order & 1:
        change(space, state.before, last_at, 1, row, sliced, -sign)
    else:
        change(space, state.during, last_at, 0, row, sliced, -sign)


@njit(_nrt=False, inline="always")
def _logical(space, state, t, seen_at, is_seen_forever, sign):
    """Add (or take back) the logical bytes of a tensor, from its producer to the last block that reads it."""
    made_at, sliced, logical = space.made_at[t], space.is_sliced[t], sign * space.logical_bytes[t]
    is_unread = seen_at < 0
    if made_at < 0:
        state.logical_initial[0] += logical * (space.round_count if sliced else 1)
        if space.is_persistent[t] or is_unread:
            return
    else:
        at = last_position(space, made_at) if sliced else space.position[made_at]
        for j in range(space.laps if sliced else 1):
            state.logical_during[at - j * space.lap[made_at]] += logical
        if is_unread:
            seen_at = last_position(space, made_at)
    if is_seen_forever:
        return
    lap = space.lap[space.slot_at[seen_at]]
    for j in range(space.laps if sliced and lap > 0 else 1):
        state.logical_before[seen_at - j * lap + 1] -= logical


@njit(_nrt=False)
def clock_in_stages(space, state):
    """Compute the makespan in ticks: turn by turn, with the clocks of every stage and of copies between stages."""
    state.stage_now[:] = 0
    state.stage_link[:] = 0
    state.stage_queues[:] = 0
    state.lane_since[:] = 0
    state.lane_until[:] = 0
    state.known_turns[:] = -1
    before = np.int64(-1)
    rounds = space.round_count
    for turn in range(space.turns.shape[0]):
        piece, number = space.turns[turn, TURN_PIECE], space.turns[turn, TURN_ROUND]
        stage, first = space.pieces[piece, PIECE_STAGE], space.pieces[piece, PIECE_FIRST]
        if before >= 0:
            maker, made_in = space.turns[before, TURN_PIECE], space.turns[before, TURN_ROUND]
            e = state.first_sent[maker]
            while e >= 0:
                is_alike = space.lap[space.edge_slot[e]] > 0 and not state.is_once[e]
                last = space.pieces[maker, PIECE_LAPS] == 1 or made_in == rounds - 1
                if is_alike or last:
                    _send(space, state, e, made_in if is_alike else np.int64(0))
                e = state.next_sent[e]
        e = state.first_begun[piece]
        while e >= 0:
            if number == 0 or not state.is_once[e]:
                _send(space, state, e, number)
            e = state.next_sent[e]
        arrival = np.int64(0)
        e = state.first_waited[piece]
        while e >= 0:
            if number == 0 or not state.is_once[e]:
                end = state.sent_ends[space.edge_number[e], number]
                sender = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
                arrival = max(arrival, end)
                if sender != stage:
                    state.stage_now[sender] = max(state.stage_now[sender], end)
            e = state.next_waited[e]
        _run(space, state, piece, first, stage, number, arrival)
        before = turn
    end = np.int64(0)
    for s in range(space.stage_count):
        end = max(end, state.stage_now[s])
    return end


@njit(_nrt=False, inline="always")
def _send(space, state, e, number):
    """Begin a copy to another stage, of a round."""
    target = space.gene_stage[space.edge_slot[e]]
    source = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
    begin = max(state.stage_now[source], state.stage_now[target], state.lane_until[source, target])
    if space.queue_count == 1:
        begin = max(begin, state.stage_link[source], state.stage_link[target])
    else:
        for q in range(space.queue_count):
            if state.copy_queues[e] >> q & 1:
                begin = max(begin, state.stage_queues[source, q], state.stage_queues[target, q])
    is_free = False
    while not is_free:
        is_free = True
        for s in range(space.stage_count):
            if state.lane_since[source, s] <= begin < state.lane_until[source, s]:
                begin, is_free = state.lane_until[source, s], False
            if state.lane_since[s, target] <= begin < state.lane_until[s, target]:
                begin, is_free = state.lane_until[s, target], False
    end = begin + state.copy_ticks[e]
    state.lane_since[source, target], state.lane_until[source, target] = begin, end
    state.sent_ends[space.edge_number[e], number] = end


# What is known of a turn of a piece: arrival, link and queues found, then the end, and link and queues left, all after
# the begin of the turn; -1 for nothing known. Once for the first round, once for all others.
_ARRIVAL, _LINK, _QUEUES = 0, 1, 2


@njit(_nrt=False, inline="always")
def _run(space, state, piece, first, stage, number, arrival):
    """Run the clocks of one turn, or move on as it did before where it finds the same."""
    now, link = state.stage_now[stage], state.stage_link[stage]
    if state.first_due[first] < 0:  # nothing begins before what is awaited has arrived
        now = max(now, arrival)
    known, row, queues = state.known_turns, 2 * piece + (0 if number == 0 else 1), space.queue_count
    is_known = known[row, _ARRIVAL] == max(arrival - now, 0) and known[row, _LINK] == max(link - now, 0)
    for q in range(queues):
        is_known &= known[row, _QUEUES + q] == max(state.stage_queues[stage, q] - now, 0)
    left = _QUEUES + queues
    if not is_known:
        known[row, _ARRIVAL], known[row, _LINK] = max(arrival - now, 0), max(link - now, 0)
        for q in range(queues):
            known[row, _QUEUES + q] = max(state.stage_queues[stage, q] - now, 0)
            state.queue_ticks[q] = state.stage_queues[stage, q]
        state.ready[first] = max(state.ready[first], arrival)
        end = space.pieces[piece, PIECE_END]
        done, link = step_clock(space, state, first, end, now, link, number == 0)
        known[row, left], known[row, left + 1] = done - now, max(link - now, 0)
        for q in range(queues):
            known[row, left + 2 + q] = max(state.queue_ticks[q] - now, 0)
    state.stage_now[stage], state.stage_link[stage] = now + known[row, left], now + known[row, left + 1]
    for q in range(queues):
        state.stage_queues[stage, q] = now + known[row, left + 2 + q]


@njit(_nrt=False)
def memory_in_stages(space, state, cost):
    """Compute the memory peaks per stage and class, their maximum and sum, and the waste at the first sample of it."""
    classes, stages = space.classes.shape[0], space.stage_count
    _scan_rows(space, state)
    highest, total = np.int64(-1), np.int64(0)
    for s in range(stages):
        for c in range(classes):
            state.stage_live[s, c] = state.stage_peaks[s, c] = state.initial[s, c]
            highest = max(highest, state.initial[s, c])
            total += state.initial[s, c] * space.classes[c]
    waste = total - state.logical_initial[0]
    logical = state.logical_initial[0]
    before = np.int64(-1)
    for turn in range(space.turns.shape[0]):
        piece = space.turns[turn, TURN_PIECE]
        row, own = (
            space.pieces[piece, PIECE_ROW] + space.turns[turn, TURN_LAP],
            space.pieces[piece, PIECE_STAGE],
        )
        peak, sample = np.int64(-1), np.int64(0)
        others, released = np.int64(0), np.int64(0)
        for s in range(stages):
            for c in range(classes):
                live = state.stage_live[s, c] + state.begun[row, s, c]
                if before >= 0:
                    live += state.sent[before, s, c]
                if s == own:
                    state.stage_live[s, c] = live
                    continue
                state.stage_peaks[s, c] = max(state.stage_peaks[s, c], live)
                peak = max(peak, live)
                others += live * space.classes[c]
                released += state.freed[row, s, c] * space.classes[c]
                state.stage_live[s, c] = live + state.freed[row, s, c]
        for c in range(classes):
            top, at = state.stage_live[own, c] + state.row_peaks[row, c], state.row_samples[row, c]
            if top > peak or (top == peak and at < sample):
                peak, sample = top, at
            state.stage_peaks[own, c] = max(state.stage_peaks[own, c], top)
        if peak > highest:
            highest = peak
            waste = others + (released if sample > 0 else 0) - logical
            for c in range(classes):
                waste += state.stage_live[own, c] * space.classes[c]
            waste += _changed(space, state, row, sample)
        for c in range(classes):
            state.stage_live[own, c] += state.row_changes[row, c]
        logical += state.row_logical[row]
        before = row
    cost[PEAK], cost[MEMORY_WASTE] = highest, waste
    for s in range(stages):
        for c in range(classes):
            cost[TOTAL] += max(state.stage_peaks[s, c], np.int64(0)) * space.classes[c]


@njit(_nrt=False)
def _scan_rows(space, state):
    """Add up the changes of each lap of each piece: the most at a sample, the first such sample, and all of them.

    Samples count twice the slots of the piece, and one more for the outputs of a slot.
    """
    classes = space.classes.shape[0]
    for row in range(space.row_start.shape[0]):
        begin, end = space.row_start[row], space.row_start[row] + space.row_length[row]
        for c in range(classes):
            live, peak, at = np.int64(0), np.int64(-FOREVER), np.int64(0)
            for v in range(begin, end - 1):
                live += state.before[v, c]
                if live > peak:
                    peak, at = live, 2 * (v - begin)
                live += state.during[v, c]
                if live > peak:
                    peak, at = live, 2 * (v - begin) + 1
            state.row_peaks[row, c], state.row_samples[row, c] = peak, at
            state.row_changes[row, c] = live + state.before[end - 1, c]
        logical = np.int64(0)
        for v in range(begin, end):
            logical += state.logical_before[v] + state.logical_during[v]
        state.row_logical[row] = logical


@njit(_nrt=False)
def _changed(space, state, row, sample):
    """Add up the changes of a lap of a piece up to a sample, over its devices, minus those of the logical bytes."""
    begin, total = space.row_start[row], np.int64(0)
    befores, durings = begin + (sample >> 1) + 1, begin + ((sample + 1) >> 1)
    for c in range(space.classes.shape[0]):
        live = np.int64(0)
        for v in range(begin, befores):
            live += state.before[v, c]
        for v in range(begin, durings):
            live += state.during[v, c]
        total += live * space.classes[c]
    for v in range(begin, befores):
        total -= state.logical_before[v]
    for v in range(begin, durings):
        total -= state.logical_during[v]
    return total
