"""The compiled loops of reductions: partial terms combined axis by axis, on slices that are packed where they must be.

Used by `costmodel.resharding_tables`, with the encoding of `costmodel.resharding_loops`. Counts of packing follow the
convention "staging" of `docs/sharding.md`.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import REDUCE, SCATTER, add_along, code, stride_on_axis, volume_of

# Rounds per mesh axis of a reduction: reduce-scatter, all-reduce.
REDUCE_ROUNDS = 2


@njit()
def reductions(boxes, number, scattered, held, places, of, mesh):
    """Compute the reduce-scatter steps, then the all-reduce steps, fastest mesh axis first, of every request.

    A request leaves the holding `number` `(requests,)` among `boxes` `(holdings, devices, rank, 2)`. Where devices hold
    boxes of one size, before and after, they all cost the same, and one of them is counted.

    Returns: traffic `(requests,)`, staging `(requests, devices)`, the most that any device receives and the
    code of each round `(requests, axes, REDUCE_ROUNDS)`; the most that any device packs before the first step, and all
    that is packed `(requests, 2)`; elements.
    """
    count, device_count = of.shape[0], mesh.coordinates.shape[0]
    axis_count = mesh.axis_sizes.shape[0]
    traffic, packed = np.zeros(count, np.int64), np.zeros((count, 2), np.int64)
    staging = np.zeros((count, device_count), np.int64)
    moved = np.zeros((count, axis_count, REDUCE_ROUNDS), np.int64)
    meta = np.zeros((count, axis_count, REDUCE_ROUNDS), np.int64)
    held_even, even = _even(held), _even(boxes)
    volumes = np.empty(boxes.shape[:2], np.int64)
    for h in range(boxes.shape[0]):
        for d in range(device_count):
            volumes[h, d] = volume_of(boxes[h, d])
    for r in range(count):
        p, h = of[r, 0], number[r]
        devices = (
            1
            if held_even[p] and even[h] and _divides(volumes[h, 0], places[p], scattered[r], mesh)
            else device_count
        )
        volume = volumes[h, :devices].copy()
        is_cut = _is_cut(held[p, :devices], boxes[h, :devices])
        received, first = _scatter(
            volume, scattered[r], is_cut, mesh, staging[r, :devices], moved[r], meta[r], packed[r]
        )
        if first and is_cut:
            packed[r, 0], packed[r, 1] = volume.max(), volume.sum()
            staging[r, :devices] += volume
        traffic[r] = received + _all_reduce(
            volume, places[p], scattered[r], first, mesh, staging[r, :devices], moved[r], meta[r]
        )
        if devices < device_count:
            traffic[r] *= device_count
            packed[r, 1] *= device_count
            staging[r] = staging[r, 0]
    return traffic, staging, moved, meta, packed


@njit()
def _even(boxes):
    """Return of which boxes `(n, devices, rank, 2)` all devices have equally many elements of every dimension."""
    found = np.ones(boxes.shape[0], np.bool_)
    for h in range(boxes.shape[0]):
        for d in range(1, boxes.shape[1]):
            for k in range(boxes.shape[2]):
                if boxes[h, d, k, 1] - boxes[h, d, k, 0] != boxes[h, 0, k, 1] - boxes[h, 0, k, 0]:
                    found[h] = False
                    break
            if not found[h]:
                break
    return found


@njit()
def _divides(volume, places, scattered, mesh):
    """Return whether the slices of an all-reduce of `volume` elements are equal in each of its steps."""
    members = 1
    for s in range(len(places)):
        members *= mesh.sizes[s] if places[s] == -2 and not scattered[s] else 1
    return volume % members == 0


@njit()
def _scatter(volume, scattered, is_cut, mesh, staging, moved, meta, packed):
    """Compute the reduce-scatter steps; return the traffic, and whether no step has been made.

    Where parts are cut from what devices hold, and no runs of it, devices pack what they send in the first step.
    """
    device_count, sub_count = len(volume), len(scattered)
    axis_count = mesh.axis_sizes.shape[0]
    later = scattered.copy()
    whole = _later_volumes(volume, scattered, mesh)
    chosen = np.zeros(sub_count, np.bool_)
    steps = 0
    for a in range(axis_count):
        for s in range(sub_count):
            if scattered[s] and mesh.owner[s] == a:
                steps += 1
                break
    traffic, first = 0, True
    for r in range(axis_count):
        a = axis_count - 1 - r
        k = 1
        for s in range(sub_count):
            chosen[s] = scattered[s] and mesh.owner[s] == a
            if chosen[s]:
                k *= mesh.sizes[s]
                later[s] = False
        if k == 1:
            continue
        most = 0
        parts = _later_volumes(volume, later, mesh)
        for d in range(device_count):
            part = parts[d]
            received = (k - 1) * part
            traffic += received
            most = max(most, received)
            if first:
                sent = whole[d] - part if is_cut else 0
                packed[0], packed[1] = max(packed[0], sent), packed[1] + sent
                staging[d] = part * (2 if steps > 1 else 1) + sent
        moved[a, 0] = most
        meta[a, 0] = code(SCATTER, k, stride_on_axis(chosen, a, mesh))
        first = False
    return traffic, first


@njit()
def _is_cut(whole, box):
    """Return whether some device's box is no run of its box `whole`: it is cut in a dimension behind several rows."""
    for d in range(box.shape[0]):
        several, cut = False, False
        for k in range(box.shape[1]):
            length = box[d, k, 1] - box[d, k, 0]
            if length == 0:
                cut = False
                break
            cut |= several and length < whole[d, k, 1] - whole[d, k, 0]
            several |= length > 1
        if cut:
            return True
    return False


@njit()
def _later_volumes(volume, later, mesh):
    """Count the elements each device still reduces: the parts of the devices that differ from it along `later`.

    `volume` is that of every device, or of one of them, where all are equal.
    """
    total = volume.copy()
    for s in range(len(later)):
        if later[s] and len(volume) == 1:
            total *= mesh.sizes[s]
        elif later[s]:
            add_along(total, s, mesh)
    return total


@njit()
def _all_reduce(volume, places, scattered, first, mesh, staging, moved, meta):
    """Compute the all-reduce steps on slices of the flattened shard; return the traffic."""
    device_count, sub_count = len(volume), len(places)
    axis_count = mesh.axis_sizes.shape[0]
    chosen = np.zeros(sub_count, np.bool_)
    start, end = np.zeros(device_count, np.int64), volume.copy()
    traffic = 0
    for r in range(axis_count):
        a = axis_count - 1 - r
        k = 1
        for s in range(sub_count):
            chosen[s] = places[s] == -2 and not scattered[s] and mesh.owner[s] == a
            if chosen[s]:
                k *= mesh.sizes[s]
        if k == 1:
            continue
        most = 0
        for d in range(device_count):
            position = 0
            for s in range(sub_count):
                if chosen[s]:
                    position = position * mesh.sizes[s] + mesh.coordinates[d, s]
            length = end[d] - start[d]
            size = -(-length // k)
            low = min(start[d] + position * size, end[d])
            high = min(low + size, end[d])
            received, gathered = (k - 1) * (high - low), length - (high - low)
            start[d], end[d] = low, high
            traffic += received + gathered
            most = max(most, received + gathered)
            if first:
                staging[d] += high - low
        moved[a, 1] = most
        meta[a, 1] = code(REDUCE, k, stride_on_axis(chosen, a, mesh))
        first = False
    return traffic
