"""The compiled loops of folds: devices that no table of a copy distinguishes, found for all pairs of specs at once.

Used by `costmodel.range_tables`. A partition is a label per device; pairs with the same partitions of all their
dimensions, and of the consumer spec's teams, share a fold.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import distinct_rows

_SMALL = 1 << 16


@njit()
def team_labels(team, crossing):
    """Number the devices whose teams are equal, `(needed, devices)`."""
    count, axes, devices = team.shape
    found = np.empty((count, devices), np.int64)
    columns = np.empty((devices, axes + axes * axes), np.int64)
    for n in range(count):
        for d in range(devices):
            for a in range(axes):
                columns[d, a] = team[n, a, d]
                for b in range(axes):
                    columns[d, axes + a * axes + b] = crossing[n, a, b, d]
        found[n] = distinct_rows(columns)[1]
    return found


@njit()
def fold_keys(variant, wanted, base, partition, team, used):
    """Find the pairs with the same partitions of devices: the number of each pair, and partitions per number."""
    rank = variant.shape[1]
    count = 0
    for h in range(used.shape[0]):
        for n in range(used.shape[1]):
            count += used[h, n]
    keys = np.empty((count, rank + 1), np.int64)
    count = 0
    for h in range(used.shape[0]):
        for n in range(used.shape[1]):
            if used[h, n]:
                for k in range(rank):
                    keys[count, k] = partition[base[k, 0] + variant[h, k] * base[k, 1] + wanted[n, k]]
                keys[count, rank] = team[n]
                count += 1
    first, number = distinct_rows(keys)
    of = np.full(used.shape, -1, np.int64)
    count = 0
    for h in range(used.shape[0]):
        for n in range(used.shape[1]):
            if used[h, n]:
                of[h, n] = number[count]
                count += 1
    return of, keys[first]


@njit()
def representatives(keys, partitions, teams):
    """Return of every fold where its classes begin, `(folds + 1,)`, and a device and the number of devices of each."""
    devices, rank = teams.shape[1], keys.shape[1] - 1
    start = np.zeros(len(keys) + 1, np.int64)
    device, weight = np.empty(4 * devices, np.int64), np.empty(4 * devices, np.int64)
    label = np.empty(devices, np.int64)
    seen, stamp = np.zeros(_SMALL, np.int64), 0
    partition_sizes, team_sizes = _sizes(partitions), _sizes(teams)
    for f in range(len(keys)):
        label[:] = 0
        count = 1
        for k in range(rank + 1):
            rows, sizes = (partitions, partition_sizes) if k < rank else (teams, team_sizes)
            size = sizes[keys[f, k]]
            if size > 1:
                count = _refine(label, count, rows[keys[f, k]], size, seen, stamp)
                stamp += devices
        at = start[f]
        start[f + 1] = at + count
        while at + count > len(device):
            device, weight = np.append(device, device), np.append(weight, weight)
        weight[at : at + count] = 0
        for d in range(devices):
            c = at + label[d]
            if weight[c] == 0:
                device[c] = d
            weight[c] += 1
    return start, device[: start[-1]].copy(), weight[: start[-1]].copy()


@njit()
def _sizes(labels):
    """Count the labels of each partition."""
    found = np.empty(len(labels), np.int64)
    for i in range(len(labels)):
        found[i] = labels[i].max() + 1
    return found


@njit()
def _refine(label, count, by, size, seen, stamp):
    """Number the devices anew by their label, of `count`, and by another partition of `size`; return how many differ.

    `seen` holds numbers above `stamp` only for what this call has seen.
    """
    devices = len(label)
    if count * size > len(seen):
        first, number = distinct_rows(np.column_stack((label, by)))
        label[:] = number
        return len(first)
    found = 0
    for d in range(devices):
        at = label[d] * size + by[d]
        if seen[at] <= stamp:
            found += 1
            seen[at] = stamp + found
        label[d] = seen[at] - stamp - 1
    return found


@njit()
def partitions_of(columns):
    """Number the devices whose rows are equal in each partition: `columns` `(partitions, devices, k)`."""
    found = np.empty(columns.shape[:2], np.int64)
    for i in range(len(columns)):
        found[i] = distinct_rows(columns[i])[1]
    return found


@njit()
def classes_of(keys, partitions):
    """Find the classes of devices that the partitions `keys` `(n, k)` of each row distinguish.

    Returns: row and device of every class, `(classes, 2)`; the class of each device in every row, `(n, devices)`.
    """
    devices = partitions.shape[1]
    found = np.empty((len(keys) * devices, 2), np.int64)
    number = np.empty((len(keys), devices), np.int64)
    label = np.empty(devices, np.int64)
    seen, stamp = np.zeros(_SMALL, np.int64), 0
    sizes = _sizes(partitions)
    total = 0
    for i in range(len(keys)):
        label[:] = 0
        count = 1
        for k in keys[i]:
            if sizes[k] > 1:
                count = _refine(label, count, partitions[k], sizes[k], seen, stamp)
                stamp += devices
        found[total : total + count] = -1
        for d in range(devices):
            c = total + label[d]
            if found[c, 0] < 0:
                found[c, 0], found[c, 1] = i, d
            number[i, d] = c
        total += count
    return found[:total].copy(), number
