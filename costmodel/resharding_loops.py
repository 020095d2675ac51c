"""The compiled loops behind `costmodel.resharding_tables`: closed formulas over boxes of devices.

Specs are encoded as small integers: `places` `(specs, sub-axes)` is the dimension that a sub-axis splits (-1: it
replicates, -2: it is partial), `granules` `(specs, rank)`. Boxes are `(specs, devices, rank, 2)`. `MeshArrays`
is passed as the tuple `mesh`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit

KINDS = ("reduce_scatter", "all_gather", "fetch", "all_to_all", "all_reduce", "broadcast", "send")
SCATTER, GATHER, FETCH, EXCHANGE, REDUCE, BROADCAST, SEND = range(7)
# Rounds per mesh axis of a fetch: the fetch, then the gather among replicas.
FETCH_ROUNDS = 2


class MeshArrays(NamedTuple):
    """A mesh shape: sub-axis sizes, device strides and owners, coordinates, axis sizes, axis block sizes."""

    sizes: np.ndarray
    strides: np.ndarray
    owner: np.ndarray
    coordinates: np.ndarray
    axis_sizes: np.ndarray
    block: np.ndarray


@njit()
def code(kind, members, stride):
    """Encode a round as one number: kind of exchange, group size, distance between neighbors."""
    return (kind << 40) | (members << 20) | stride


@njit()
def _mixed(h, value):
    h = (h ^ np.uint64(value + 3)) * np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(29))


@njit()
def distinct_rows(rows):
    """Find the distinct rows of `(n, k)`: the position where each occurs first, and every row's number among them."""
    n, width = rows.shape
    size = 4
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int64)
    ids, first = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for i in range(n):
        h = np.uint64(width)
        for j in range(width):
            h = _mixed(h, rows[i, j])
        at = np.int64(h & np.uint64(size - 1))
        while True:
            known = table[at]
            if known < 0:
                table[at] = count
                first[count] = i
                ids[i] = count
                count += 1
                break
            same = True
            for j in range(width):
                if rows[i, j] != rows[first[known], j]:
                    same = False
                    break
            if same:
                ids[i] = known
                break
            at = (at + 1) & (size - 1)
    return first[:count].copy(), ids


@njit()
def ascending(rows, some):
    """Find the order of `some` `(n,)` rows of `(m, k)`, the first column most significant, `(n,)`."""
    order = np.arange(len(some))
    # ranges of equal rows up to a column, which decides
    open_ranges = [(0, len(some), 0)]
    while len(open_ranges) > 0:
        begin, end, column = open_ranges.pop()
        mine = order[begin:end].copy()
        while column < rows.shape[1] and (rows[some[mine], column] == rows[some[mine[0]], column]).all():
            column += 1
        if column == rows.shape[1]:
            continue
        mine = mine[np.argsort(rows[some[mine], column])]
        order[begin:end] = mine
        first = 0
        for i in range(1, end - begin + 1):
            if i == end - begin or rows[some[mine[i]], column] != rows[some[mine[first]], column]:
                if i - first > 1:
                    open_ranges.append((begin + first, begin + i, column + 1))
                first = i
    return order


@njit()
def requests(places, whole, preference, preferred_granule, constant):
    """Find the consumer specs that require the terms of a partial producer spec to be combined in the same way.

    A consumer spec determines its request through the axes it adds (`preference` and its granule, where the producer
    spec leaves the sub-axis free) and through the `constant` ranges it reads of dimensions the producer spec keeps
    `whole`.

    Returns: number of the request per pair `(made, needed)`, -1 where nothing is partial; the first pair of
    each request `(requests, 2)`.
    """
    made_count, sub_count = places.shape
    need_count, rank = preference.shape[0], constant.shape[1]
    request = np.full((made_count, need_count), -1, np.int64)
    of = np.empty((made_count * need_count, 2), np.int64)
    size = 4
    while size < 2 * need_count:
        size *= 2
    table = np.empty(size, np.int64)
    count = 0
    for p in range(made_count):
        if not (places[p] == -2).any():
            continue
        table[:] = -1
        for n in range(need_count):
            h = np.uint64(1)
            for s in range(sub_count):
                if places[p, s] < 0:
                    h = _mixed(_mixed(h, preference[n, s]), preferred_granule[n, s])
            for k in range(rank):
                if whole[p, k]:
                    h = _mixed(_mixed(h, constant[n, k, 0]), constant[n, k, 1])
            at = np.int64(h & np.uint64(size - 1))
            while True:
                known = table[at]
                if known < 0:
                    table[at] = count
                    of[count, 0], of[count, 1] = p, n
                    request[p, n] = count
                    count += 1
                    break
                if _same_request(
                    places[p], whole[p], preference, preferred_granule, constant, n, of[known, 1]
                ):
                    request[p, n] = known
                    break
                at = (at + 1) & (size - 1)
    return request, of[:count].copy()


@njit()
def _same_request(places, whole, preference, preferred_granule, constant, a, b):
    for s in range(places.shape[0]):
        if places[s] < 0 and (
            preference[a, s] != preference[b, s] or preferred_granule[a, s] != preferred_granule[b, s]
        ):
            return False
    for k in range(whole.shape[0]):
        if whole[k] and (constant[a, k, 0] != constant[b, k, 0] or constant[a, k, 1] != constant[b, k, 1]):
            return False
    return True


@njit()
def middles(shape, held, places, granules, of, preference, preferred_granule, whole, constant, mesh):
    """Compute the holding in which each request combines the terms, and the sub-axes that it scatters.

    Returns: holdings as rows (see `lay`) `(requests, sub-axes + 3 rank)`, `scattered` `(requests, sub-axes)`.
    """
    sub_count, rank = places.shape[1], shape.shape[0]
    rows = np.empty((of.shape[0], sub_count + 3 * rank), np.int64)
    scattered = np.zeros((of.shape[0], sub_count), np.bool_)
    box = np.empty(held.shape[1:], np.int64)
    for r in range(of.shape[0]):
        p, n = of[r]
        row = rows[r]
        _describe(places[p], granules[p], row)
        for s in range(sub_count):
            k = preference[n, s]
            if places[p, s] < 0 and k >= 0:
                row[s] = k
                row[sub_count + k] = preferred_granule[n, s]
                scattered[r, s] = places[p, s] == -2
        for k in range(rank):
            if whole[p, k]:
                row[sub_count + rank + 2 * k] = constant[n, k, 0]
                row[sub_count + rank + 2 * k + 1] = constant[n, k, 1]
        lay(shape, row, mesh, box)
        if not _nested(held[p], box) or _overfull(shape, row, mesh):
            _describe(places[p], granules[p], row)
            scattered[r] = False
    return rows, scattered


@njit()
def _overfull(shape, row, mesh):
    """Return whether a dimension has more devices than elements."""
    for k in range(shape.shape[0]):
        parts = 1
        for s in range(mesh.sizes.shape[0]):
            if row[s] == k:
                parts *= mesh.sizes[s]
        if parts > shape[k]:
            return True
    return False


@njit()
def _describe(places, granules, row):
    """Fill `row` with a producer spec without its partial terms, as the row of a holding."""
    sub_count, rank = places.shape[0], granules.shape[0]
    row[:] = -1
    for k in range(rank):
        row[sub_count + k] = 1
    for s in range(sub_count):
        if places[s] >= 0:
            row[s] = places[s]
            row[sub_count + places[s]] = granules[places[s]]


@njit()
def made_holdings(places, granules):
    """Convert producer specs to rows of holdings, `(specs, sub-axes + 3 rank)`."""
    rows = np.empty((places.shape[0], places.shape[1] + 3 * granules.shape[1]), np.int64)
    for p in range(places.shape[0]):
        _describe(places[p], granules[p], rows[p])
    return rows


@njit()
def lay_all(shape, rows, mesh):
    """Compute the boxes `(holdings, devices, rank, 2)` of holdings stated as rows."""
    boxes = np.empty((rows.shape[0], mesh.coordinates.shape[0], shape.shape[0], 2), np.int64)
    for r in range(rows.shape[0]):
        lay(shape, rows[r], mesh, boxes[r])
    return boxes


@njit()
def lay(shape, row, mesh, box):
    """Fill `box` `(devices, rank, 2)` of a holding: dimension per sub-axis, granules, constant ranges or -1."""
    sub_count, rank = mesh.sizes.shape[0], shape.shape[0]
    for k in range(rank):
        low, high = row[sub_count + rank + 2 * k], row[sub_count + rank + 2 * k + 1]
        if low >= 0:
            for d in range(box.shape[0]):
                box[d, k, 0], box[d, k, 1] = low, high
            continue
        parts = 1
        for s in range(sub_count):
            if row[s] == k:
                parts *= mesh.sizes[s]
        granule = row[sub_count + k]
        granules = -(-shape[k] // granule)
        chunk = -(-granules // parts) * granule if parts > 1 else shape[k]
        for d in range(box.shape[0]):
            position = 0
            for s in range(sub_count):
                if row[s] == k:
                    position = position * mesh.sizes[s] + mesh.coordinates[d, s]
            start = min(position * chunk, shape[k])
            box[d, k, 0], box[d, k, 1] = start, min(start + chunk, shape[k])


@njit()
def volume_of(box):
    """Count the elements of a box `(rank, 2)`."""
    v = 1
    for k in range(box.shape[0]):
        v *= box[k, 1] - box[k, 0]
    return v


@njit()
def _nested(outer, inner):
    for d in range(outer.shape[0]):
        for k in range(outer.shape[1]):
            if inner[d, k, 0] < outer[d, k, 0] or inner[d, k, 1] > outer[d, k, 1]:
                if volume_of(inner[d]) == 0:
                    break
                return False
    return True


@njit()
def stride_on_axis(chosen, a, mesh):
    """Return the distance on mesh axis `a` between neighbors of a group along the `chosen` sub-axes."""
    stride = 1
    for r in range(chosen.shape[0]):
        s = chosen.shape[0] - 1 - r
        if mesh.owner[s] != a:
            continue
        if chosen[s]:
            break
        stride *= mesh.sizes[s]
    return stride


@njit()
def distinct_rounds(moved, meta):
    """Find the distinct rounds in which anything moves; `moved` and `meta` `(n, axes, rounds)` are bytes and codes.

    Returns: axis, code and bytes of each, `(k, 3)`, and which of them every round is, -1: nothing moves.
    """
    number = np.full(moved.shape, -1, np.int64)
    rows = np.empty((np.count_nonzero(moved), 3), np.int64)
    count = 0
    for i in range(moved.shape[0]):
        for a in range(moved.shape[1]):
            for r in range(moved.shape[2]):
                if moved[i, a, r] > 0:
                    rows[count, 0], rows[count, 1], rows[count, 2] = a, meta[i, a, r], moved[i, a, r]
                    number[i, a, r] = count
                    count += 1
    first, of = distinct_rows(rows[:count])
    for i in range(moved.shape[0]):
        for a in range(moved.shape[1]):
            for r in range(moved.shape[2]):
                if number[i, a, r] >= 0:
                    number[i, a, r] = of[number[i, a, r]]
    return rows[first], number


@njit()
def added_rounds(number, own, start):
    """Add up the ticks of rounds by axis; `number` is that of `distinct_rounds`, `own` and `start` are theirs.

    Returns: ticks beyond the starts `(n, axes)`, those of all starts `(n,)`, and the axes used `(n,)`, a bit each.
    """
    work = np.zeros(number.shape[:2], np.int64)
    least, used = np.zeros(number.shape[0], np.int64), np.zeros(number.shape[0], np.int64)
    for i in range(number.shape[0]):
        for a in range(number.shape[1]):
            for r in range(number.shape[2]):
                k = number[i, a, r]
                if k >= 0:
                    work[i, a] += own[k] - start[k]
                    least[i] += start[k]
                    used[i] |= 1 << a
    return work, least, used


@njit()
def add_along(total, s, mesh):
    """Replace the number of each device, `(devices,)`, by the sum of those that differ from it along sub-axis `s`."""
    stride, size = mesh.strides[s], mesh.sizes[s]
    for first in range(0, len(total), stride * size):
        for d in range(first, first + stride):
            added = 0
            for i in range(size):
                added += total[d + i * stride]
            for i in range(size):
                total[d + i * stride] = added
