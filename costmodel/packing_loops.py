"""The compiled loops of packing: which pieces of a fetch are no runs of memory, and how much devices pack of them.

Used by `costmodel.resharding_tables`, with the encoding of `costmodel.resharding_loops`. Counts follow the convention
"staging" of `docs/sharding.md`. Pieces are products of intervals, so what matters is tabulated per dimension.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import distinct_rows

# Of what a device needs along one dimension: it is nothing, it comes in several pieces. Of these pieces: one of them is
# longer than 1, or shorter than the chunk it is from; of its own chunk, or of others. There are pieces of others.
EMPTY, CUT, WIDE_OWN, WIDE_OTHER, SHORT_OWN, SHORT_OTHER, OTHER = 1, 2, 4, 8, 16, 32, 64
WIDE, SHORT = WIDE_OWN | WIDE_OTHER, SHORT_OWN | SHORT_OTHER


def cuts(held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find how the chunks of a dimension cut what devices need of it: flags `(held, wanted, devices)`, uint8.

    `held` `(held, devices, 2)`, `wanted` likewise.
    """
    found = np.zeros((len(held), len(wanted), held.shape[1]), dtype=np.uint8)
    start, end = wanted[..., 0], wanted[..., 1]
    for h, ranges in enumerate(held):
        chunks = np.unique(ranges[ranges[:, 1] > ranges[:, 0]], axis=0)
        if not len(chunks):
            continue
        first = np.minimum(np.searchsorted(chunks[:, 1], start, side="right"), len(chunks) - 1)
        last = np.maximum(np.searchsorted(chunks[:, 0], end, side="left") - 1, first)
        length = chunks[:, 1] - chunks[:, 0]
        own = np.searchsorted(chunks[:, 0], ranges[:, 0])
        own = np.where(ranges[:, 1] > ranges[:, 0], own, -1)
        found[h] |= np.where(last > first, CUT, 0).astype(np.uint8)
        for chunk in (first, last):
            piece = np.minimum(end, chunks[chunk, 1]) - np.maximum(start, chunks[chunk, 0])
            found[h] |= _flags(chunk == own, piece, length[chunk])
        inner, own_inside = last - first - 1, (first < own) & (own < last)
        full = length[np.minimum(first + 1, len(chunks) - 1)]
        found[h] |= np.where(own_inside, _flags(True, full, full), 0).astype(np.uint8)
        found[h] |= np.where(inner > own_inside, _flags(False, full, full), 0).astype(np.uint8)
    found[:, end <= start] = EMPTY
    return found


def _flags(is_own: np.ndarray | bool, piece: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    """Return the flags of pieces of these lengths, from chunks of these lengths."""
    wide, short = np.where(is_own, WIDE_OWN, WIDE_OTHER), np.where(is_own, SHORT_OWN, SHORT_OTHER)
    flags = np.where(is_own, 0, OTHER) | np.where(piece > 1, wide, 0) | np.where(piece < chunk, short, 0)
    return np.where(piece > 0, flags, 0).astype(np.uint8)


@njit()
def packed(flags, base, held, wanted, used):
    """Find the pairs `(holdings, needed)` in which devices fetch pieces that are no runs: of what some device holds, of
    what some device needs.

    A piece is a run unless it is cut along a dimension, and has more than one row before it. `flags` are the tables of
    `cuts`, flat, found by `base`, `held` and `wanted` as those of `fetches` are.
    """
    sent, landed = np.zeros(used.shape, np.bool_), np.zeros(used.shape, np.bool_)
    for h in range(used.shape[0]):
        for n in range(used.shape[1]):
            if used[h, n]:
                sent[h, n] = _is_packed(flags, base, held[h], wanted[n])
                landed[h, n] = _is_repacked(flags, base, held[h], wanted[n])
    return sent, landed


@njit()
def _is_packed(flags, base, held, wanted):
    """Return whether a device needs a piece of another one's chunk that is no run of this chunk.

    Chunks form a grid, so one of each dimension's pieces may be chosen freely, if only one of them is another's.
    """
    rank, devices = held.shape[0], base[0, 2] if base.shape[0] > 0 else 0
    flag = np.empty(rank, np.uint8)
    for d in range(devices):
        others, needs = 0, True
        for k in range(rank):
            flag[k] = flags[base[k, 0] + held[k] * base[k, 1] + wanted[k] * base[k, 2] + d]
            needs &= flag[k] & EMPTY == 0
            others += flag[k] & OTHER != 0
        if not needs or others == 0:
            continue
        for k in range(rank):
            for j in range(k):
                if flag[j] & WIDE == 0 or flag[k] & SHORT == 0:
                    continue
                here = (flag[j] & OTHER != 0) + (flag[k] & OTHER != 0)
                if others > here or flag[j] & WIDE_OTHER != 0 or flag[k] & SHORT_OTHER != 0:
                    return True
    return False


@njit()
def _is_repacked(flags, base, held, wanted):
    rank, devices = held.shape[0], base[0, 2] if base.shape[0] > 0 else 0
    for d in range(devices):
        wide, several = False, False
        for k in range(rank):
            flag = flags[base[k, 0] + held[k] * base[k, 1] + wanted[k] * base[k, 2] + d]
            if flag & EMPTY:
                several = False
                break
            several |= wide and flag & CUT != 0
            wide |= flag & WIDE != 0
        if several:
            return True
    return False


def demands(held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Count what all devices together need of each device's range of one dimension, `(held, wanted, devices)`.

    `held` `(held, devices, 2)`, `wanted` likewise.
    """
    points, at = np.unique(held, return_inverse=True)
    start, end = at.reshape(held.shape)[..., 0], at.reshape(held.shape)[..., 1]
    found = np.empty((len(held), len(wanted), held.shape[1]), dtype=np.int64)
    for n, ranges in enumerate(wanted):
        first, length = ranges[:, :1], np.maximum(ranges[:, 1:] - ranges[:, :1], 0)
        before = np.clip(points - first, 0, length).sum(axis=0)
        found[:, n] = np.maximum(before[end] - before[start], 0)
    return found


@njit()
def most_sent(sent, demand, base, lengths, lengths_base, held, wanted, boxes, volume):
    """Count the most that devices with other parts need of any device's, for the pairs `sent` `(holdings, needed)`.

    Devices that hold the same part share what is needed of it; none sends more than the part. `demand` are the tables
    of `demands`, flat, and `lengths` those of `overlaps`; each is found by its base, `held` and `wanted`. `boxes`
    `(holdings, devices, rank, 2)` and `volume` `(holdings, devices)` are those of holdings.

    Returns: elements `(holdings, needed)`, 0 for other pairs.
    """
    most, devices = np.zeros(sent.shape, np.int64), boxes.shape[1]
    for h in range(sent.shape[0]):
        _, part = distinct_rows(boxes[h].reshape(devices, 2 * boxes.shape[2]))
        holders = np.bincount(part)
        for n in range(sent.shape[1]):
            if sent[h, n]:
                needed = _needed_of_others(demand, base, lengths, lengths_base, held[h], wanted[n], part)
                for d in range(devices):
                    share = -(-needed[d] // holders[part[d]])
                    most[h, n] = max(most[h, n], min(volume[h, d], share))
    return most


@njit()
def _needed_of_others(demand, base, lengths, lengths_base, held, wanted, part):
    """Count what devices with other parts need of each device's, `(devices,)`; `part` numbers the parts they hold."""
    devices = len(part)
    needed, kept = np.empty(devices, np.int64), np.zeros(devices, np.int64)
    for d in range(devices):
        needs, own = 1, 1
        for k in range(len(held)):
            needs *= demand[base[k, 0] + held[k] * base[k, 1] + wanted[k] * base[k, 2] + d]
            if k > 0:
                # Ranges of two dimensions depend on different axes, and each was summed over all devices.
                needs //= devices
            at = lengths_base[k, 0] + held[k] * lengths_base[k, 1] + wanted[k] * lengths_base[k, 2]
            own *= lengths[at + lengths_base[k, 2] - devices + d]
        needed[d] = needs
        kept[part[d]] += own
    for d in range(devices):
        needed[d] -= kept[part[d]]
    return needed
