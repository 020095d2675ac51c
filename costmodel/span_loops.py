"""All blocks and copies of a plan of a space with their times, and those of them that decide when it ends. Compiled.

The clocks are those of `kernel_scans`, `round_loops` and `stage_scans`, but every turn is run. Imported by
`costmodel.time_estimates`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    PIECE_END,
    PIECE_FIRST,
    PIECE_LAPS,
    PIECE_STAGE,
    TURN_PIECE,
    TURN_ROUND,
    CompiledSpace,
    EvaluationState,
)
from tapestry.costmodel.stage_scans import take_lane


class Timeline(NamedTuple):
    """The spans of a plan in the order of issue, and the clocks while they are found. Times are in ticks.

    `what` `(spans,)` is the slot of a block, or -1 - the edge of a copy, `round` that in which it is run (0 for what is
    run once); `count` `(1,)` how many spans there are. `now` `(stages,)` and `free` `(stages, queues)` are when devices
    of a stage, and their queues, have nothing left to do.
    """

    what: np.ndarray
    round: np.ndarray
    start: np.ndarray
    end: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a timeline
    now: np.ndarray
    free: np.ndarray


def timeline_of(
    space: CompiledSpace, state: EvaluationState, slot_ticks: np.ndarray, copy_ticks: np.ndarray
) -> Timeline:
    """Return the timeline of the plan in `state`, whose blocks and copies take `slot_ticks` and `copy_ticks`."""
    spans = span_count(space, state)
    stages, queues = space.stage_count, space.queue_count
    zeros = np.zeros(spans, np.int32), np.zeros(spans, np.int32), np.zeros(spans, np.int64)
    clocks = np.zeros(1, np.int64), np.zeros(stages, np.int64), np.zeros((stages, queues), np.int64)
    timeline = Timeline(*zeros, np.zeros(spans, np.int64), *clocks)
    issue = _issue_in_stages if stages > 1 else _issue_in_rounds
    issue(space, state, slot_ticks, copy_ticks, timeline)
    return timeline


def span_count(space: CompiledSpace, state: EvaluationState) -> int:
    """Return how many spans the timeline of the plan in `state` has at most."""
    return int(_spans_in(space, state))


def critical_spans(timeline: Timeline) -> np.ndarray:
    """Return the numbers of the spans on the critical path, in the order of time.

    These are the spans that follow each other without a gap up to the end of the plan: before each comes what was
    issued last of what ended when it began.
    """
    count = int(timeline.count[0])
    order, path = np.argsort(timeline.end[:count], kind="stable"), np.zeros(count, np.int64)
    return path[: int(_walk(timeline, order, timeline.end[order], path))][::-1]


def critical_ticks(timeline: Timeline, slots: int, edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ticks of blocks `(slots,)` and the number of copies `(edges,)` on the critical path."""
    path = critical_spans(timeline)
    what, ticks = timeline.what[path], (timeline.end - timeline.start)[path]
    block_ticks, copies = np.zeros(slots, np.int64), np.zeros(edges, np.int64)
    np.add.at(block_ticks, what[what >= 0], ticks[what >= 0])
    np.add.at(copies, -1 - what[what < 0], 1)
    return block_ticks, copies


@njit(_nrt=False)
def _walk(timeline, order, ends, path):
    at = order[order.shape[0] - 1] if order.shape[0] > 0 else np.int64(-1)
    length = np.int64(0)
    while at >= 0:
        path[length] = at
        length += 1
        begin = timeline.start[at]
        place = np.searchsorted(ends, begin, side="right") - 1
        while place >= 0 and ends[place] == begin:
            before = order[place]
            if before < at and timeline.start[before] < begin:
                break
            place -= 1
        at = order[place] if place >= 0 and ends[place] == begin else np.int64(-1)
    return length


@njit(_nrt=False)
def _spans_in(space, state):
    """Count the blocks and copies of all turns; copies of all rounds as if each round made them."""
    if space.stage_count == 1:
        found = _spans_of(space, state, 0, space.slot_count)
        for loop in range(space.loops.shape[0]):
            found += (space.round_count - 1) * _spans_of(
                space, state, space.loops[loop, 0], space.loops[loop, 1]
            )
        return found
    found = np.int64(0)
    for turn in range(space.turns.shape[0]):
        piece = space.turns[turn, TURN_PIECE]
        found += _spans_of(space, state, space.pieces[piece, PIECE_FIRST], space.pieces[piece, PIECE_END])
        for first in (state.first_sent[piece], state.first_begun[piece]):
            e = first
            while e >= 0:
                found += 1
                e = state.next_sent[e]
    return found


@njit(_nrt=False, inline="always")
def _spans_of(space, state, first, end_slot):
    found = np.int64(end_slot - first)
    for k in range(first, end_slot):
        e = state.first_due[k]
        while e >= 0:
            found += 1
            e = state.next_due[e]
    return found


@njit(_nrt=False, inline="always")
def _add(timeline, what, number, start, end):
    at = timeline.count[0]
    timeline.what[at], timeline.round[at], timeline.start[at], timeline.end[at] = what, number, start, end
    timeline.count[0] = at + 1


@njit(_nrt=False)
def _run(space, state, slot_ticks, copy_ticks, timeline, stage, first, end_slot, number):
    """Run the blocks of slots on a stage, and the copies within it, in a round."""
    cores, taken = space.cores[stage], space.communication_cores[stage]
    free, now = timeline.free[stage], timeline.now[stage]
    for k in range(first, end_slot):
        e = state.first_due[k]
        while e >= 0:
            if number == 0 or not state.is_once[e]:
                start = now
                for q in range(free.shape[0]):
                    if free.shape[0] == 1 or state.copy_queues[e] >> q & 1:
                        start = max(start, free[q])
                end = start + copy_ticks[e]
                for q in range(free.shape[0]):
                    if free.shape[0] == 1 or state.copy_queues[e] >> q & 1:
                        free[q] = end
                state.ready[space.edge_slot[e]] = max(state.ready[space.edge_slot[e]], end)
                _add(timeline, -1 - e, number, start, end)
            e = state.next_due[e]
        now = max(now, state.ready[k])
        state.ready[k] = 0
        link = free[0]
        for q in range(1, space.communication_queues):
            link = max(link, free[q])
        ticks = slot_ticks[k]
        if link > now and taken > 0:
            ticks += min(ticks * taken // (cores - taken), (link - now) * taken // cores)
        _add(timeline, k, number, now, now + ticks)
        now += ticks
    timeline.now[stage] = now


@njit(_nrt=False)
def _issue_in_rounds(space, state, slot_ticks, copy_ticks, timeline):
    begin, alone, once = np.int64(0), np.int64(0), np.int64(0)  # literals would be compiled apart
    for loop in range(space.loops.shape[0]):
        first, end = space.loops[loop, 0], space.loops[loop, 1]
        _run(space, state, slot_ticks, copy_ticks, timeline, alone, begin, first, once)
        for number in range(space.round_count):
            _run(space, state, slot_ticks, copy_ticks, timeline, alone, first, end, np.int64(number))
        begin = end
    _run(space, state, slot_ticks, copy_ticks, timeline, alone, begin, space.slot_count, once)


@njit(_nrt=False)
def _issue_in_stages(space, state, slot_ticks, copy_ticks, timeline):
    state.lane_since[:] = 0
    state.lane_until[:] = 0
    rounds = space.round_count
    for turn in range(space.turns.shape[0]):
        piece, number = space.turns[turn, TURN_PIECE], space.turns[turn, TURN_ROUND]
        if turn > 0:
            maker, made_in = space.turns[turn - 1, TURN_PIECE], space.turns[turn - 1, TURN_ROUND]
            is_last = space.pieces[maker, PIECE_LAPS] == 1 or made_in == rounds - 1
            e = state.first_sent[maker]
            while e >= 0:
                is_alike = space.lap[space.edge_slot[e]] > 0 and not state.is_once[e]
                if is_alike or is_last:
                    _send(space, state, copy_ticks, timeline, e, made_in if is_alike else np.int64(0))
                e = state.next_sent[e]
        e = state.first_begun[piece]
        while e >= 0:
            if number == 0 or not state.is_once[e]:
                _send(space, state, copy_ticks, timeline, e, number)
            e = state.next_sent[e]
        first = space.pieces[piece, PIECE_FIRST]
        e = state.first_waited[piece]
        while e >= 0:
            if number == 0 or not state.is_once[e]:
                end = state.sent_ends[space.edge_number[e], number]
                sender = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
                state.ready[first] = max(state.ready[first], end)
                timeline.now[sender] = max(timeline.now[sender], end)
            e = state.next_waited[e]
        stage, end_slot = space.pieces[piece, PIECE_STAGE], space.pieces[piece, PIECE_END]
        _run(space, state, slot_ticks, copy_ticks, timeline, stage, first, end_slot, number)


@njit(_nrt=False)
def _send(space, state, copy_ticks, timeline, e, number):
    """Begin a copy to another stage, of a round."""
    target = space.gene_stage[space.edge_slot[e]]
    source = space.gene_stage[space.made_gene[space.edge_tensor[e]]]
    start = max(timeline.now[source], timeline.now[target])
    for q in range(timeline.free.shape[1]):
        if timeline.free.shape[1] == 1 or state.copy_queues[e] >> q & 1:
            start = max(start, timeline.free[source, q], timeline.free[target, q])
    start, end = take_lane(space, state, e, number, start, copy_ticks[e])
    _add(timeline, -1 - e, number, start, end)
