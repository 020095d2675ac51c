"""The compiled loops of fetches: each missing element once, from the nearest device that has it.

Overlap is separable: the share of a consumer spec within the part that a block of devices holds is a product over
tensor dimensions, and per dimension there are few different ranges. So lengths are tabulated per dimension
(`costmodel.range_tables`), and a pair costs one product per level and class of devices. Level a counts the devices
equal on the a slowest mesh axes, the last one the device alone.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import (
    BROADCAST,
    EXCHANGE,
    FETCH,
    FETCH_ROUNDS,
    GATHER,
    code,
    distinct_rows,
    stride_on_axis,
)

# A mark beside a round's code, above its kind: a gather among the devices of a regular group.
REGULAR = 1 << 50


@njit()
def fetches(tables, folds, used, held_volume, wanted_volume, team, crossing, across):
    """Compute the transfers that assemble every consumer spec from every holding it is `used` with.

    `tables` and `folds` are those of `range_tables`; `team` and `crossing` those of `teams`. With `across` not -1, they
    are on another stage, and everything crosses this mesh axis at least.

    Returns: `nested` and `same` (the consumer spec is within, is equal to the holding), traffic, all
    `(holdings, needed)`; the most that any device receives per round, `(holdings, needed, axes, FETCH_ROUNDS)`; the
    most that any device has already of what it needs, and all that devices have, `(holdings, needed, 2)`; elements.
    """
    (count, need_count), axis_count, device_count = used.shape, team.shape[1], team.shape[2]
    rank, levels = tables.held.shape[1], axis_count + 1
    nested = np.zeros((count, need_count), np.bool_)
    same = np.zeros((count, need_count), np.bool_)
    traffic = np.zeros((count, need_count), np.int64)
    moved = np.zeros((count, need_count, axis_count, FETCH_ROUNDS), np.int64)
    kept = np.zeros((count, need_count, 2), np.int64)
    at = np.empty(rank, np.int64)
    volume = np.empty(levels, np.int64)
    gathered, most = np.empty(axis_count, np.int64), np.empty((axis_count, FETCH_ROUNDS), np.int64)
    for h in range(count):
        for n in range(need_count):
            if not used[h, n]:
                continue
            for k in range(rank):
                at[k] = row_of(tables, h, n, k) * levels * device_count
            fold = folds.of[h, n]
            lacks, differs = np.int64(0), np.int64(0)
            received, most_kept, all_kept = np.int64(0), np.int64(0), np.int64(0)
            most[:] = 0
            for c in range(folds.start[fold], folds.start[fold + 1]):
                d, weight = folds.device[c], folds.weight[c]
                volume[:] = 1
                for k in range(rank):
                    for level in range(levels):
                        volume[level] *= tables.lengths[at[k] + d * levels + level]
                if across >= 0:
                    volume[across + 1 :] = 0
                own = volume[axis_count]
                lacks += weight * (wanted_volume[n, d] - own)
                differs += held_volume[h, d] != wanted_volume[n, d]
                most_kept = max(most_kept, own)
                all_kept += weight * own
                gathered[:] = 0
                for a in range(axis_count):
                    missing = volume[a] - volume[a + 1]
                    if missing == 0:
                        continue
                    received += weight * missing
                    members = team[n, a, d]
                    if members == 1:
                        most[a, 0] = max(most[a, 0], missing)
                        continue
                    share = -(-missing // members)
                    most[a, 0] = max(most[a, 0], share)
                    for b in range(a + 1, axis_count):
                        gathered[b] += min(missing, share * crossing[n, a, b, d])
                for b in range(1, axis_count):
                    most[b, 1] = max(most[b, 1], gathered[b])
            kept[h, n, 0], kept[h, n, 1] = most_kept, all_kept
            nested[h, n] = lacks == 0
            same[h, n] = lacks == 0 and differs == 0
            if lacks != 0:
                moved[h, n], traffic[h, n] = most, received
    return nested, same, traffic, moved, kept


@njit()
def row_of(tables, h, n, k):
    """Return the row of a holding's and a consumer spec's ranges of a dimension."""
    return tables.base[k, 0] + tables.held[h, k] * tables.base[k, 1] + tables.wanted[n, k]


@njit()
def teams(wanted, block):
    """Count devices that differ on axes faster than a only and need the same box, and how many of them each axis
    separates.

    Data that crosses axis a is split among a team, whose members then read each other's parts: over the slowest
    axis on which two of them differ.

    Returns: the size `(needed, axes, devices)`, 1 on the fastest axis, and the others of the team by the axis
    to them `(needed, axes, axes, devices)`.
    """
    need_count, device_count, rank, _ = wanted.shape
    axis_count = block.shape[0] - 1
    team = np.ones((need_count, axis_count, device_count), np.int64)
    crossing = np.zeros((need_count, axis_count, axis_count, device_count), np.int64)
    for n in range(need_count):
        for d in range(device_count):
            first = d // block[1] * block[1]
            for m in range(first, first + block[1]):
                same = m != d
                for k in range(rank):
                    same &= wanted[n, m, k, 0] == wanted[n, d, k, 0]
                    same &= wanted[n, m, k, 1] == wanted[n, d, k, 1]
                if not same:
                    continue
                b = 1
                while m // block[b + 1] == d // block[b + 1]:
                    b += 1
                for a in range(b):
                    team[n, a, d] += 1
                    crossing[n, a, b, d] += 1
    return team, crossing


@njit()
def fetch_rounds(rows, used, places, granules, halo, constant, tables, folds, mesh, across, send):
    """Encode kind, members and stride of the fetch round, and of the gather among replicas, on each mesh axis.

    `halo` `(needed, rank)`: the dimension is read through windows that differ by device; `constant`: through one that
    does not; `tables` and `folds` are those of `range_tables`. Replicas gather along the sub-axes that
    split nothing. Windows may be equal by accident where all sub-axes split something; the whole axis takes part then.
    `send` is the code of what comes from another stage, over the axis `across` (-1: none).

    Returns: codes `(holdings, needed, axes, FETCH_ROUNDS)`.
    """
    axis_count = mesh.axis_sizes.shape[0]
    result = np.zeros((rows.shape[0], places.shape[0], axis_count, FETCH_ROUNDS), np.int64)
    least, most = _extremes(tables.owned, mesh.coordinates.shape[0])
    chosen = np.zeros((2, places.shape[1]), np.bool_)
    for a in range(axis_count):
        held, wanted = _on_axis(rows, places, granules, halo, constant, a, mesh)
        held_first, held_number = distinct_rows(held)
        wanted_first, wanted_number = distinct_rows(wanted)
        known = np.full((len(held_first), len(wanted_first), FETCH_ROUNDS), -1, np.int64)
        for h in range(rows.shape[0]):
            for n in range(places.shape[0]):
                if not used[h, n]:
                    continue
                i, j = held_number[h], wanted_number[n]
                if known[i, j, 0] < 0:
                    known[i, j, 0], known[i, j, 1] = _encode(
                        h, n, rows, places, granules, halo, constant, a, mesh, chosen
                    )
                fetch = known[i, j, 0]
                result[h, n, a, 0], result[h, n, a, 1] = fetch & ~REGULAR, known[i, j, 1]
                if a == across:
                    result[h, n, a, 0] = send
                elif fetch & REGULAR != 0 and has_one_owner(tables, folds, h, n, a, least, most, mesh):
                    result[h, n, a, 0] += code(BROADCAST - GATHER, 0, 0)
    return result


@njit()
def _on_axis(rows, places, granules, halo, constant, a, mesh):
    """Return what the rounds on mesh axis `a` depend on, of every holding and of every consumer spec."""
    sub_count, rank = places.shape[1], granules.shape[1]
    held = np.full((rows.shape[0], 2 * sub_count), -1, np.int64)
    wanted = np.empty((places.shape[0], sub_count + rank), np.int64)
    for s in range(sub_count):
        mine = mesh.owner[s] == a
        for h in range(rows.shape[0]):
            if mine and rows[h, s] >= 0:
                held[h, s], held[h, sub_count + s] = rows[h, s], rows[h, sub_count + rows[h, s]]
        for n in range(places.shape[0]):
            wanted[n, s] = max(places[n, s], -1) if mine else -1
    for n in range(places.shape[0]):
        for k in range(rank):
            wanted[n, sub_count + k] = 4 * granules[n, k] + 2 * halo[n, k] + constant[n, k]
    return held, wanted


@njit()
def _encode(h, n, rows, places, granules, halo, constant, a, mesh, chosen):
    """Return the rounds of a pair on mesh axis `a`; one that may be a broadcast is marked `REGULAR`.

    `chosen` `(2, sub-axes)` is work space.
    """
    sub_count = places.shape[1]
    members, exchange, irregular, replicas = 1, False, False, 1
    for s in range(sub_count):
        mine, k, to = mesh.owner[s] == a, rows[h, s], places[n, s]
        is_free = mine and to < 0
        if is_free:
            replicas *= mesh.sizes[s]
        moves = to >= 0 and not constant[n, to]
        released = mine and k >= 0 and not (moves and to == k)
        if released:
            members *= mesh.sizes[s]
            exchange |= moves
        elif mine and k >= 0:
            irregular |= halo[n, k] or rows[h, sub_count + k] != granules[n, k]
        chosen[0, s], chosen[1, s] = released, is_free
    kind = EXCHANGE if exchange else GATHER
    if members == 1:
        fetch = code(FETCH, mesh.axis_sizes[a], 1)
    elif irregular:
        fetch = code(kind, mesh.axis_sizes[a], 1)
    else:
        fetch = code(kind, members, stride_on_axis(chosen[0], a, mesh)) | (0 if exchange else REGULAR)
    if replicas == 1:
        return fetch, code(GATHER, mesh.axis_sizes[a], 1)
    return fetch, code(GATHER, replicas, stride_on_axis(chosen[1], a, mesh))


@njit()
def _extremes(owned, devices):
    """Return the least and the most places of each row of `owned`, `(rows,)`."""
    count = len(owned) // devices
    least, most = np.empty(count, np.uint8), np.empty(count, np.uint8)
    for i in range(count):
        row = owned[i * devices : (i + 1) * devices]
        least[i], most[i] = row.min(), row.max()
    return least, most


@njit()
def has_one_owner(tables, folds, h, n, a, least, most, mesh):
    """Return whether each device finds all it reads across axis `a` at one place of its group there.

    The places that have a part of it are those that have one in every dimension, and each sub-axis splits one. Mostly
    the `least` and `most` places of any device, by row of `owned`, decide.
    """
    fold, devices, axes = folds.of[h, n], mesh.coordinates.shape[0], mesh.axis_sizes.shape[0]
    several, empty = 0, 0
    for k in range(tables.held.shape[1]):
        row = row_of(tables, h, n, k) * axes + a
        several += most[row] > 1
        empty += least[row] == 0
    if several == 0 or empty == 0:
        return several == 0
    for c in range(folds.start[fold], folds.start[fold + 1]):
        places = 1
        for k in range(tables.held.shape[1]):
            at = (row_of(tables, h, n, k) * axes + a) * devices
            places *= tables.owned[at + folds.device[c]]
        if places > 1:
            return False
    return True


@njit()
def lie_inside(boxes):
    """Find the pairs [m, n] of specs whose part n lies inside part m on every device; an empty part lies in any."""
    count, devices, rank = boxes.shape[:3]
    inside = np.ones((count, count), np.bool_)
    for n in range(count):
        for m in range(count):
            for d in range(devices):
                empty, within = False, True
                for k in range(rank):
                    empty |= boxes[n, d, k, 1] <= boxes[n, d, k, 0]
                    within &= (
                        boxes[m, d, k, 0] <= boxes[n, d, k, 0] and boxes[n, d, k, 1] <= boxes[m, d, k, 1]
                    )
                if not (empty or within):
                    inside[m, n] = False
                    break
    return inside
