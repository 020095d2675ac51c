"""The two scans over a plan's slots: clocks, and memory. Compiled; `costmodel.kernel` keeps what they run over."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import MEMORY_WASTE, PEAK, TOTAL


@njit(_nrt=False)
def clock(space, state):
    """Compute the makespan in ticks: one compute queue, communication queues, copies issued slot by slot.

    A copy starts when all queues that it takes are free. `link` is when all copies between devices are done.
    Blocks that run beside copies lack the cores that these take (`hardware.timing.slowed_ticks`), but for copies that
    use the host's link alone.
    """
    state.queue_ticks[:] = 0
    return step_clock(space, state, 0, 0, space.slot_count, np.int64(0), np.int64(0), True)[0]


@njit(_nrt=False, inline="always")
def step_clock(space, state, stage, begin, end_slot, now, link, is_first):
    """Run the clocks over slots of a stage; return when the last block is done, and when the last copy is.

    Unless `is_first`, copies that only the first of some rounds makes are there already.
    """
    cores, taken = space.cores[stage], space.communication_cores[stage]
    for k in range(begin, end_slot):
        e = state.first_due[k]
        while e >= 0:
            if not is_first and state.is_once[e]:
                e = state.next_due[e]
                continue
            if space.queue_count == 1:
                end = max(link, now) + state.copy_ticks[e]
            else:
                end = _queued(state, state.copy_queues[e], now, state.copy_ticks[e])
            if not space.has_host or state.copy_queues[e] & ((1 << space.communication_queues) - 1):
                link = max(link, end)
            reader = space.edge_slot[e]
            state.ready[reader] = max(state.ready[reader], end)
            e = state.next_due[e]
        now = max(now, state.ready[k])
        ticks = state.slot_ticks[k]
        if link > now and taken > 0:
            ticks += min(ticks * taken // (cores - taken), (link - now) * taken // cores)
        now += ticks
        state.ready[k] = 0
    return now, link


@njit(_nrt=False, inline="always")
def _queued(state, queues, now, ticks):
    """Put a copy into its queues, a bit each; return when it ends."""
    begin = now
    for q in range(state.queue_ticks.shape[0]):
        if queues >> q & 1:
            begin = max(begin, state.queue_ticks[q])
    for q in range(state.queue_ticks.shape[0]):
        if queues >> q & 1:
            state.queue_ticks[q] = begin + ticks
    return begin + ticks


@njit(_nrt=False)
def memory(space, state, cost):
    """Compute the memory peaks per class, their maximum and sum, and the waste at the first sample of the global peak.

    Samples count 2 * position for the copies of a slot and 2 * position + 1 for its outputs.
    """
    _fill_peaks(space, state)
    highest, first = np.int64(-1), np.int64(0)
    for c in range(space.classes.shape[0]):
        peak, at = state.peaks[c], state.peak_samples[c]
        cost[TOTAL] += max(peak, np.int64(0)) * space.classes[c]
        if peak > highest or (peak == highest and at < first):
            highest, first = peak, at
    cost[PEAK] = highest
    cost[MEMORY_WASTE] = _waste(space, state, first)


@njit(_nrt=False, inline="always")
def _end_of(space, piece, pieces):
    """Return the position behind a piece of the scan: those of odd numbers are the second laps of loops."""
    if piece == pieces - 1:
        return space.slot_at.shape[0]
    first = space.loops[piece >> 1, 0]
    return space.position[first] + (1 + (piece & 1)) * space.lap[first]


@njit(_nrt=False)
def _fill_peaks(space, state):
    """Fill `state.peaks` with the peak of each class and `state.peak_samples` with its first sample.

    Of a loop, rounds between the laps that are scanned grow alike, so none is above both of its neighbors.
    """
    pieces = 2 * space.loops.shape[0] + 1 if space.skipped > 0 else 1
    state.live[:] = 0
    state.peaks[:] = -1
    state.peak_samples[:] = 0
    start = 0
    for piece in range(pieces):
        end = _end_of(space, piece, pieces)
        for c in range(state.live.shape[0]):
            state.live_before[c] = state.live[c]
        for c in range(0, space.classes.shape[0], 4):
            _scan(space, state, c, start, end)
        if piece & 1:
            for c in range(state.live.shape[0]):
                state.live[c] += space.skipped * (state.live[c] - state.live_before[c])
        start = end


@njit(_nrt=False)
def _scan(space, state, first, start, end):
    """Go on with live bytes and peaks of a class and the next three (the last is repeated) over positions.

    Four at a time, without branches: additions of one class wait for each other. Places are unsigned numbers: of others
    compiled code would ask whether they count from the end.
    """
    last = space.classes.shape[0] - 1
    c1, c2, c3 = (
        np.uintp(min(first + 1, last)),
        np.uintp(min(first + 2, last)),
        np.uintp(min(first + 3, last)),
    )
    c0 = np.uintp(first)
    live, live1, live2, live3 = state.live[c0], state.live[c1], state.live[c2], state.live[c3]
    peak, peak1, peak2, peak3 = state.peaks[c0], state.peaks[c1], state.peaks[c2], state.peaks[c3]
    samples = state.peak_samples
    at, at1, at2, at3 = samples[c0], samples[c1], samples[c2], samples[c3]
    for v in range(start, end):
        sample, k = np.int64(2 * v), np.uintp(v)
        for change in (state.before, state.during):
            live += change[k, c0]
            live1 += change[k, c1]
            live2 += change[k, c2]
            live3 += change[k, c3]
            at = sample if live > peak else at
            at1 = sample if live1 > peak1 else at1
            at2 = sample if live2 > peak2 else at2
            at3 = sample if live3 > peak3 else at3
            peak, peak1 = max(peak, live), max(peak1, live1)
            peak2, peak3 = max(peak2, live2), max(peak3, live3)
            sample += 1
    state.live[c0], state.live[c1], state.live[c2], state.live[c3] = live, live1, live2, live3
    state.peaks[c0], state.peaks[c1], state.peaks[c2], state.peaks[c3] = peak, peak1, peak2, peak3
    samples[c0], samples[c1], samples[c2], samples[c3] = at, at1, at2, at3


@njit(_nrt=False)
def _waste(space, state, sample):
    """Compute the live bytes over devices at a sample, minus the logical bytes of distinct live tensors."""
    position = sample >> 1
    total = _live_before(space, state, position + 1, (sample + 1) >> 1)
    for loop in range(space.loops.shape[0] if space.skipped > 0 else 0):
        first = space.loops[loop, 0]
        begin, end = space.position[first] + space.lap[first], space.position[first] + 2 * space.lap[first]
        if position >= end:
            grown = _live_before(space, state, end, end) - _live_before(space, state, begin, begin)
            total += space.skipped * grown
    return total


@njit(_nrt=False)
def _live_before(space, state, befores, durings):
    """Add up the first changes before slots and during them: live bytes over devices, minus the logical bytes."""
    return _live(space, state.before, state.logical_before, befores) + _live(
        space, state.during, state.logical_during, durings
    )


@njit(_nrt=False)
def _live(space, changes, logical, count):
    """Add up the first `count` changes over all devices, minus those of the logical bytes."""
    total, last = np.int64(0), space.classes.shape[0] - 1
    for c in range(0, last + 1, 4):
        c1, c2, c3 = min(c + 1, last), min(c + 2, last), min(c + 3, last)
        live, live1, live2, live3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for k in range(count):
            live += changes[k, c]
            live1 += changes[k, c1]
            live2 += changes[k, c2]
            live3 += changes[k, c3]
        total += live * space.classes[c]
        total += live1 * space.classes[c1] if c + 1 <= last else 0
        total += live2 * space.classes[c2] if c + 2 <= last else 0
        total += live3 * space.classes[c3] if c + 3 <= last else 0
    for k in range(count):
        total -= logical[k]
    return total
