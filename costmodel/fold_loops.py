"""The compiled loops of folds: devices that no table of a copy distinguishes, found for all pairs of specs at once.

Used by `costmodel.range_tables`. A partition is a label per device; pairs with the same partitions of all their
dimensions, and of the consumer spec's teams, share a fold.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import distinct_rows


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
    columns = np.empty((devices, rank + 1), np.int64)
    for f in range(len(keys)):
        for k in range(rank):
            columns[:, k] = partitions[keys[f, k]]
        columns[:, rank] = teams[keys[f, rank]]
        first, number = distinct_rows(columns)
        at = start[f]
        start[f + 1] = at + len(first)
        while at + len(first) > len(device):
            device, weight = np.append(device, device), np.append(weight, weight)
        device[at : at + len(first)] = first
        weight[at : at + len(first)] = np.bincount(number, minlength=len(first))
    return start, device[: start[-1]].copy(), weight[: start[-1]].copy()
