"""The two scans over the turns of a plan with stages: clocks, and memory. Compiled.

`costmodel.kernel` keeps what they run over: `costmodel.stage_loops` fills it.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    FOREVER,
    MEMORY_WASTE,
    PEAK,
    PIECE_END,
    PIECE_FIRST,
    PIECE_LAPS,
    PIECE_ROW,
    PIECE_STAGE,
    TOTAL,
    TURN_LAP,
    TURN_PIECE,
    TURN_ROUND,
)
from tapestry.costmodel.kernel_scans import step_clock


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
        before = np.int64(turn)
    end = np.int64(0)
    for s in range(space.stage_count):
        end = max(end, state.stage_now[s])
    return end


@njit(_nrt=False, inline="always")
def _send(space, state, e, number):
    """Begin a copy to another stage, of a round."""
    target = space.gene_stage[space.edge_slot[e]]
    source = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
    begin = max(state.stage_now[source], state.stage_now[target])
    if space.queue_count == 1:
        begin = max(begin, state.stage_link[source], state.stage_link[target])
    else:
        for q in range(space.queue_count):
            if state.copy_queues[e] >> q & 1:
                begin = max(begin, state.stage_queues[source, q], state.stage_queues[target, q])
    take_lane(space, state, e, number, begin, state.copy_ticks[e])


@njit(_nrt=False, inline="always")
def take_lane(space, state, e, number, begin, ticks):
    """Run a copy to another stage, of a round, that is ready at `begin`, beside others; return when it begins and ends.

    Copies go one after the other for each pair of stages, and not beside what the sender sends, or the receiver
    receives, otherwise.
    """
    target = space.gene_stage[space.edge_slot[e]]
    source = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
    begin = max(begin, state.lane_until[source, target])
    is_free = False
    while not is_free:
        is_free = True
        for s in range(space.stage_count):
            if state.lane_since[source, s] <= begin < state.lane_until[source, s]:
                begin, is_free = state.lane_until[source, s], False
            if state.lane_since[s, target] <= begin < state.lane_until[s, target]:
                begin, is_free = state.lane_until[s, target], False
    end = begin + ticks
    state.lane_since[source, target], state.lane_until[source, target] = begin, end
    state.sent_ends[space.edge_number[e], number] = end
    return begin, end


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
        done, link = step_clock(space, state, stage, first, end, now, link, number == 0)
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
