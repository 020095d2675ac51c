"""The compiled loops of single dimensions: what devices hold of a dimension against what they need of it.

Used by `costmodel.range_tables`. Few ranges of a dimension differ, so that all that a copy does along one is
tabulated for pairs of them. `held` `(held, devices, 2)` are laid in mesh order, so the ranges of neighboring devices
leave no gap; `splits` `(held, sub-axes)` tells which sub-axes split them. `wanted` `(wanted, devices, 2)` likewise.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.resharding_loops import add_along, distinct_rows

# Of what a device needs along one dimension: it is nothing, it comes in several pieces. Of these pieces: one of them is
# longer than 1, or shorter than the chunk it is from; of its own chunk, or of others. There are pieces of others.
EMPTY, CUT, WIDE_OWN, WIDE_OTHER, SHORT_OWN, SHORT_OTHER, OTHER = 1, 2, 4, 8, 16, 32, 64
WIDE, SHORT = WIDE_OWN | WIDE_OTHER, SHORT_OWN | SHORT_OTHER


@njit()
def overlaps(held, wanted, block):
    """Compute the common lengths of ranges of one dimension, `(held, wanted, devices, levels)`.

    `block` are the sizes of the levels' blocks; the union of the ranges of a block's devices is an interval.
    """
    devices, levels = held.shape[1], block.shape[0]
    found = np.empty((held.shape[0], wanted.shape[0], devices, levels), np.int64)
    low, high = np.empty((devices, levels), np.int64), np.empty((devices, levels), np.int64)
    for h in range(held.shape[0]):
        for level in range(levels):
            span = block[level]
            for first in range(0, devices, span):
                least, most = np.int64(2**62), np.int64(-1)
                for d in range(first, first + span):
                    if held[h, d, 1] > held[h, d, 0]:
                        least, most = min(least, held[h, d, 0]), max(most, held[h, d, 1])
                low[first : first + span, level], high[first : first + span, level] = least, most
        for n in range(wanted.shape[0]):
            for d in range(devices):
                for level in range(levels):
                    start, end = max(low[d, level], wanted[n, d, 0]), min(high[d, level], wanted[n, d, 1])
                    found[h, n, d, level] = max(end - start, 0)
    return found


@njit()
def cuts(held, wanted):
    """Find how the chunks of a dimension cut what devices need of it: flags `(held, wanted, devices)`, uint8."""
    devices = held.shape[1]
    found = np.zeros((held.shape[0], wanted.shape[0], devices), np.uint8)
    for h in range(held.shape[0]):
        starts, ends, own = _chunks(held[h])
        for n in range(wanted.shape[0]):
            for d in range(devices):
                if wanted[n, d, 1] <= wanted[n, d, 0]:
                    found[h, n, d] = EMPTY
                elif d > 0 and _as_before(wanted[n], own, d):
                    found[h, n, d] = found[h, n, d - 1]
                elif len(starts) > 0:
                    found[h, n, d] = _cut(starts, ends, own[d], wanted[n, d, 0], wanted[n, d, 1])
    return found


@njit()
def _chunks(held):
    """Return starts and ends of the chunks that devices hold, ascending, and which of them each has; -1: nothing."""
    full = held[:, 1] > held[:, 0]
    starts, ends = np.unique(held[full, 0]), np.unique(held[full, 1])
    own = np.full(len(held), -1, np.int64)
    for d in range(len(held)):
        if full[d]:
            same = d > 0 and held[d, 0] == held[d - 1, 0] and full[d - 1]
            own[d] = own[d - 1] if same else np.searchsorted(starts, held[d, 0])
    return starts, ends, own


@njit()
def _as_before(wanted, own, d):
    """Return whether a device needs the same and holds the same as the one before it."""
    return own[d] == own[d - 1] and wanted[d, 0] == wanted[d - 1, 0] and wanted[d, 1] == wanted[d - 1, 1]


@njit()
def _cut(starts, ends, own, start, end):
    """Return the flags of what a device with chunk `own` needs, `[start, end)`."""
    first = min(np.searchsorted(ends, start, side="right"), len(starts) - 1)
    last = max(np.searchsorted(starts, end) - 1, first)
    flags = CUT if last > first else 0
    for chunk in (first, last):
        piece = min(end, ends[chunk]) - max(start, starts[chunk])
        flags |= _flags(chunk == own, piece, ends[chunk] - starts[chunk])
    own_inside = first < own < last
    if last - first > 1:
        full = ends[first + 1] - starts[first + 1]
        if own_inside:
            flags |= _flags(True, full, full)
        if last - first - 1 > own_inside:
            flags |= _flags(False, full, full)
    return flags


@njit()
def _flags(is_own, piece, chunk):
    """Return the flags of a piece of this length, from a chunk of this length."""
    if piece <= 0:
        return 0
    flags = 0 if is_own else OTHER
    if piece > 1:
        flags |= WIDE_OWN if is_own else WIDE_OTHER
    if piece < chunk:
        flags |= SHORT_OWN if is_own else SHORT_OTHER
    return flags


@njit()
def demands(held, wanted, shares):
    """Count what devices need of each device's range of one dimension, `(held, wanted, devices)`.

    Those that differ along the sub-axes that split `wanted` only are counted, `shares` `(wanted,)` devices: the rest
    repeats them.
    """
    devices = held.shape[1]
    found = np.zeros((held.shape[0], wanted.shape[0], devices), np.int64)
    starts, ends = (
        np.empty((wanted.shape[0], devices), np.int64),
        np.empty((wanted.shape[0], devices), np.int64),
    )
    start_sums = np.zeros((wanted.shape[0], devices + 1), np.int64)
    end_sums = np.zeros((wanted.shape[0], devices + 1), np.int64)
    for n in range(wanted.shape[0]):
        starts[n] = np.sort(wanted[n, :, 0])
        ends[n] = np.sort(np.maximum(wanted[n, :, 1], wanted[n, :, 0]))
        start_sums[n, 1:], end_sums[n, 1:] = np.cumsum(starts[n]), np.cumsum(ends[n])
    for h in range(held.shape[0]):
        first, last, own = _chunks(held[h])
        each = np.empty(len(first), np.int64)
        for n in range(wanted.shape[0]):
            ranges = (starts[n], start_sums[n], ends[n], end_sums[n])
            for c in range(len(first)):
                each[c] = (_before(last[c], *ranges) - _before(first[c], *ranges)) * shares[n] // devices
            for d in range(devices):
                if own[d] >= 0:
                    found[h, n, d] = each[own[d]]
    return found


@njit()
def _before(point, starts, start_sums, ends, end_sums):
    """Add up the parts before `point` of ranges; their starts and their ends are sorted, with the sums of the first."""
    begun, ended = np.searchsorted(starts, point), np.searchsorted(ends, point)
    return (begun - ended) * point - start_sums[begun] + end_sums[ended]


@njit()
def kept_of_part(own, held_splits, wanted_splits, mesh):
    """Add up what the devices of one part have already of what they need of one dimension, `(devices,)`.

    `own` is what each has; sub-axes that split no dimension of the holding, but this one of what is wanted, are added.
    """
    total = own.copy()
    for s in range(len(held_splits)):
        if wanted_splits[s] and not held_splits[s]:
            add_along(total, s, mesh)
    return total


@njit()
def owners(lengths, size, granule, splits, released, a, wanted, like, mesh):
    """Count the places on mesh axis `a` at which a device's group holds what it needs of one dimension: 0, 1 or 2,
    which is several; `(devices,)`, uint8.

    A group's places differ along the `released` sub-axes; devices on faster axes are at one place. Row `wanted` is
    `(devices, 2)`; `lengths` are those of `overlaps`, `splits` are the sub-axes that split the held dimension, of
    `size` in chunks of a `granule`. Devices are `like` others, as `likes` finds.
    """
    devices = len(like)
    found = np.empty(devices, np.uint8)
    parts, faster = 1, 1
    free, is_axis = np.bool_(False), np.bool_(True)
    for s in range(len(splits)):
        if splits[s]:
            parts *= mesh.sizes[s]
            faster *= mesh.sizes[s] if mesh.owner[s] > a else 1
            free |= released[s]
            is_axis &= released[s] or mesh.owner[s] != a
    if not free:
        for d in range(devices):
            found[d] = lengths[d, a + 1] > 0
        return found
    granules = -(-size // granule)
    chunk = -(-granules // parts) * granule * faster
    path = np.flatnonzero(splits & (mesh.owner <= a))
    weights, places_left = np.empty(len(path), np.int64), parts // faster
    for i in range(len(path)):
        places_left //= mesh.sizes[path[i]]
        weights[i] = places_left
    places = (path, weights, released, parts // faster, mesh)
    for d in range(devices):
        start, end = wanted[d, 0], wanted[d, 1]
        if like[d] != d:
            found[d] = found[like[d]]
        elif lengths[d, a] == lengths[d, a + 1]:
            # what is on the axis at all is at the device's own place
            found[d] = lengths[d, a] > 0
        elif is_axis and lengths[d, a + 1] > 0:
            found[d] = 2
        else:
            below = _places_below(-(-end // chunk), d, *places) - _places_below(start // chunk, d, *places)
            found[d] = min(below, 2)
    return found


@njit()
def _places_below(limit, d, path, weights, released, count, mesh):
    """Count the places of a device's group before the place `limit` of `count`.

    They are numbered along the sub-axes `path`, with `weights`.
    """
    free = 1
    for s in path:
        if released[s]:
            free *= mesh.sizes[s]
    if limit >= count:
        return free
    total = 0
    for i in range(len(path)):
        s, digit = path[i], 0
        while limit >= weights[i]:  # faster than a division: sub-axes are short
            limit -= weights[i]
            digit += 1
        if released[s]:
            free //= mesh.sizes[s]
            total += digit * free
            continue
        mine = mesh.coordinates[d, s]
        if mine != digit:
            return total + (free if mine < digit else 0)
    return total


@njit()
def likes(splits, wanted_splits, mesh):
    """Return of every device the first one at the same place along the sub-axes that split a range or another.

    Returns: distinct rows of such devices `(k, devices)`, and which of them a pair has, `(held, wanted)`.
    """
    masks = np.zeros((len(splits) * len(wanted_splits), splits.shape[1]), np.int64)
    for h in range(len(splits)):
        for n in range(len(wanted_splits)):
            masks[h * len(wanted_splits) + n] = splits[h] | wanted_splits[n]
    first, number = distinct_rows(masks)
    found = np.empty((len(first), mesh.coordinates.shape[0]), np.int64)
    for i in range(len(first)):
        found[i] = np.arange(found.shape[1])
        for s in range(splits.shape[1]):
            if not masks[first[i], s]:
                found[i] -= mesh.coordinates[:, s] * mesh.strides[s]
    return found, number.reshape(len(splits), len(wanted_splits))


@njit()
def all_owners(lengths, size, granules, splits, wanted, wanted_splits, constant, alike, mesh):
    """Compute `owners` of all pairs of ranges on all mesh axes, `(held, wanted, axes, devices)`; `alike`: of `likes`.

    A sub-axis is released unless it splits the dimension before and after; it splits nothing that is `constant`.
    """
    devices, axes = wanted.shape[1], mesh.axis_sizes.shape[0]
    found = np.empty((len(splits), len(wanted), axes, devices), np.uint8)
    released = np.empty(splits.shape[1], np.bool_)
    for h in range(len(splits)):
        for n in range(len(wanted)):
            like = alike[0][alike[1][h, n]]
            for a in range(axes):
                for s in range(len(released)):
                    stays = wanted_splits[n, s] and not constant[n]
                    released[s] = mesh.owner[s] == a and splits[h, s] and not stays
                found[h, n, a] = owners(
                    *(lengths[h, n], size, granules[h], splits[h], released, a, wanted[n], like, mesh)
                )
    return found


@njit()
def labels(tables, of, used, held, wanted, wanted_splits, alike, mesh):
    """Compute what parts have already and the labels of devices, `(variants, wanted, devices)` both.

    A variant is a held range, `of` `(variants,)`, of a holding that other dimensions of split too: `used`
    `(variants, sub-axes)`. `tables` are those of `overlaps`, `cuts`, `demands` and `owners`, `alike` is of `likes`.
    Devices for which all tables of a dimension are equal, and its ranges equally long, have the same label.
    """
    lengths, flags, demand, owned = tables
    devices, axes = held.shape[1], len(mesh.axis_sizes)
    kept = np.empty((len(of), len(wanted), devices), np.int64)
    number = np.empty((len(of), len(wanted), devices), np.int64)
    columns, at = np.empty((devices, 2 * axes + 6), np.int64), np.empty(devices, np.int64)
    for v in range(len(of)):
        h = of[v]
        for n in range(len(wanted)):
            kept[v, n] = kept_of_part(lengths[h, n, :, axes].copy(), used[v], wanted_splits[n], mesh)
            like = alike[0][alike[1][h, n]]
            count = 0
            for d in range(devices):
                if like[d] != d:
                    at[d] = at[like[d]]
                    continue
                row = columns[count]
                row[0], row[1], row[2] = flags[h, n, d], demand[h, n, d], kept[v, n, d]
                row[3], row[4] = held[h, d, 1] - held[h, d, 0], wanted[n, d, 1] - wanted[n, d, 0]
                for level in range(axes + 1):
                    row[5 + level] = lengths[h, n, d, level]
                for a in range(axes):
                    row[6 + axes + a] = owned[h, n, a, d]
                is_new = count == 0
                for c in range(columns.shape[1]):
                    is_new = is_new or row[c] != columns[count - 1, c]
                count += is_new
                at[d] = count - 1
            number[v, n] = distinct_rows(columns[:count])[1][at]
    return kept, number
