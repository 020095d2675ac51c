"""Tables of copies: what it costs to bring a tensor from each made spec to each needed spec.

Closed formulas over device arrays in numba; the plain model (`costmodel.plain`) says the same thing slowly
and is what tests compare with. One table serves all tensors of equal shape, type and spec lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from costmodel.compiled import njit

from costmodel.blockcost import has_energy
from hardware.mesh import Mesh
from hardware.timing import energy_pj, step_ticks
from teg.sharding.mesh import MeshShape
from teg.sharding.spec import Spec, boxes

KINDS = ("reduce_scatter", "all_gather", "fetch", "all_to_all")
SCATTER, GATHER, FETCH, EXCHANGE = range(4)
# Rounds per mesh axis: reduce-scatter, all-reduce's scatter half, its gather half, fetch, local gather.
ROUNDS = 5


@dataclass(frozen=True)
class CopyTable:
    """Per `(made, needed)` pair of specs: `ticks` (-1: a view), `traffic_bytes`, `energy_pj`, all `(made, needed)`;
    `staging_ids` names rows of the distinct `staging_bytes` `(rows, devices)`; buffer sizes `made_bytes` and `needed_bytes` `(specs, devices)`.
    """

    ticks: np.ndarray
    traffic_bytes: np.ndarray
    energy_pj: np.ndarray
    staging_ids: np.ndarray
    staging_bytes: np.ndarray
    made_bytes: np.ndarray
    needed_bytes: np.ndarray


@dataclass(frozen=True)
class MeshArrays:
    """A mesh shape for numba: sub-axis sizes, device strides and owners, coordinates, axis block sizes."""

    sizes: np.ndarray
    strides: np.ndarray
    owner: np.ndarray
    coordinates: np.ndarray
    axis_sizes: np.ndarray
    block: np.ndarray


def mesh_arrays(mesh: MeshShape) -> MeshArrays:
    sizes = np.array([s.size for s in mesh.sub_axes], dtype=np.int64)
    strides = np.array([int(np.prod(sizes[k + 1 :])) for k in range(len(sizes))], dtype=np.int64)
    names = [n for n, _ in mesh.axes]
    axis_sizes = np.array([n for _, n in mesh.axes], dtype=np.int64)
    block = np.array([int(np.prod(axis_sizes[k:])) for k in range(len(names) + 1)], dtype=np.int64)
    owner = np.array([names.index(s.axis) for s in mesh.sub_axes], dtype=np.int64)
    return MeshArrays(sizes, strides, owner, mesh.coordinates.astype(np.int64), axis_sizes, block)


def copy_table(
    shape: tuple[int, ...],
    item: int,
    made: Sequence[Spec],
    needed: Sequence[Spec],
    mesh: Mesh,
    layout: MeshShape,
) -> CopyTable:
    """The table for tensors of `shape` and `item` bytes per element."""
    arrays = mesh_arrays(layout)
    held = np.array([boxes(s, shape, layout) for s in made]).reshape(
        len(made), layout.device_count, len(shape), 2
    )
    wanted = np.array([boxes(s, shape, layout) for s in needed]).reshape(
        len(needed), layout.device_count, len(shape), 2
    )
    axes, axes_needed = _axis_places(made, layout), _axis_places(needed, layout)
    granule = np.array([[d.granule for d in s.dims] for s in made], dtype=np.int64).reshape(
        len(made), len(shape)
    )
    granule_needed = np.array([[d.granule for d in s.dims] for s in needed], dtype=np.int64).reshape(
        len(needed), len(shape)
    )
    # 0: plain chunk, 1: window over a split, 2: constant range
    window = np.array(
        [
            [0 if s.window(k) is None else (2 if s.window(k).stride == 0 else 1) for k in range(len(shape))]
            for s in needed
        ],  # type: ignore[union-attr]
        dtype=np.int64,
    ).reshape(len(needed), len(shape))
    volume, traffic, staging, moved, meta = _pairs(
        np.array(shape, dtype=np.int64),
        held,
        wanted,
        axes,
        axes_needed,
        granule,
        granule_needed,
        window,
        arrays.sizes,
        arrays.strides,
        arrays.owner,
        arrays.coordinates,
        arrays.axis_sizes,
        arrays.block,
    )
    ticks = _ticks(moved * item, meta, mesh)
    ticks[volume] = -1
    traffic *= item
    device = mesh.device
    energy = energy_pj(device, "float32", 0, 0, traffic, kind="vector") if has_energy(device) else traffic * 0
    distinct, ids = np.unique(staging.reshape(-1, layout.device_count), axis=0, return_inverse=True)
    return CopyTable(
        ticks,
        traffic,
        energy,
        ids.reshape(ticks.shape),
        distinct * item,
        _volumes(held) * item,
        _volumes(wanted) * item,
    )


def _volumes(box: np.ndarray) -> np.ndarray:
    return np.prod(box[..., 1] - box[..., 0], axis=-1, dtype=np.int64)


def _axis_places(specs: Sequence[Spec], layout: MeshShape) -> np.ndarray:
    """Per spec and sub-axis the dimension it splits, -1 if it replicates, -2 if it is partial."""
    places = np.full((len(specs), len(layout.sub_axes)), -1, dtype=np.int64)
    for k, spec in enumerate(specs):
        for d, split in enumerate(spec.dims):
            for a in split.axes:
                places[k, layout.positions[a]] = d
        for a in spec.partial:
            places[k, layout.positions[a]] = -2
    return places


def _ticks(moved: np.ndarray, meta: np.ndarray, mesh: Mesh) -> np.ndarray:
    """Sum over rounds of the time of each; `moved` `(made, needed, axes, rounds)` is the most any device receives."""
    total = np.zeros(moved.shape[:2], dtype=np.int64)
    for a, axis in enumerate(mesh.axes):
        for r in range(ROUNDS):
            amount = moved[:, :, a, r]
            active = amount > 0
            if not active.any():
                continue
            codes = meta[:, :, a, r]
            for code in np.unique(codes[active]):
                chosen = active & (codes == code)
                kind, members, stride = int(code) >> 40, (int(code) >> 20) & 0xFFFFF, int(code) & 0xFFFFF
                total[chosen] += step_ticks(axis, KINDS[kind], members, amount[chosen], stride)
    return total


@njit(cache=True)
def _code(kind, members, stride):  # type: ignore[no-untyped-def]
    return (kind << 40) | (members << 20) | stride


@njit(cache=True)
def _pairs(  # type: ignore[no-untyped-def]
    shape,
    held,
    wanted,
    axes,
    axes_needed,
    granule,
    granule_needed,
    window,
    sizes,
    strides,
    owner,
    coords,
    axis_sizes,
    block,
):
    made_count, device_count, rank, _ = held.shape
    need_count = wanted.shape[0]
    axis_count = axis_sizes.shape[0]
    view = np.zeros((made_count, need_count), np.bool_)
    traffic = np.zeros((made_count, need_count), np.int64)
    staging = np.zeros((made_count, need_count, device_count), np.int64)
    moved = np.zeros((made_count, need_count, axis_count, ROUNDS), np.int64)
    meta = np.zeros((made_count, need_count, axis_count, ROUNDS), np.int64)
    middle = np.zeros((device_count, rank, 2), np.int64)
    union = np.zeros((axis_count + 1, device_count, rank, 2), np.int64)
    scattered = np.zeros(sizes.shape[0], np.bool_)
    place = np.zeros(sizes.shape[0], np.int64)
    grain = np.zeros(rank, np.int64)
    for p in range(made_count):
        partial = False
        for s in range(sizes.shape[0]):
            partial |= axes[p, s] == -2
        if not partial:
            _unions(held[p], block, union)
        for n in range(need_count):
            if not partial and _nested(held[p], wanted[n]):
                view[p, n] = True
                continue
            scattered[:] = False
            place[:] = axes[p]
            grain[:] = granule[p]
            middle[:] = held[p]
            if partial:
                _middle(
                    shape,
                    held[p],
                    wanted[n],
                    axes[p],
                    axes_needed[n],
                    granule[p],
                    granule_needed[n],
                    window[n],
                    sizes,
                    coords,
                    middle,
                    scattered,
                    place,
                    grain,
                )
                _reductions(
                    middle,
                    axes[p],
                    scattered,
                    sizes,
                    strides,
                    owner,
                    coords,
                    axis_count,
                    traffic,
                    staging,
                    moved,
                    meta,
                    p,
                    n,
                )
            if not _equal(middle, wanted[n]):
                if partial:
                    for d in range(device_count):
                        staging[p, n, d] += _volume(middle[d])
                    _unions(middle, block, union)
                _fetch(union, wanted[n], block, traffic, moved, meta, p, n)
                _fetch_meta(
                    place,
                    axes_needed[n],
                    grain,
                    granule_needed[n],
                    window[n],
                    sizes,
                    owner,
                    axis_sizes,
                    meta,
                    p,
                    n,
                )
    return view, traffic, staging, moved, meta


@njit(cache=True)
def _volume(box):  # type: ignore[no-untyped-def]
    v = 1
    for k in range(box.shape[0]):
        v *= box[k, 1] - box[k, 0]
    return v


@njit(cache=True)
def _nested(outer, inner):  # type: ignore[no-untyped-def]
    for d in range(outer.shape[0]):
        if _volume(inner[d]) == 0:
            continue
        for k in range(outer.shape[1]):
            if inner[d, k, 0] < outer[d, k, 0] or inner[d, k, 1] > outer[d, k, 1]:
                return False
    return True


@njit(cache=True)
def _equal(a, b):  # type: ignore[no-untyped-def]
    for d in range(a.shape[0]):
        if _volume(a[d]) == 0 and _volume(b[d]) == 0:
            continue
        for k in range(a.shape[1]):
            if a[d, k, 0] != b[d, k, 0] or a[d, k, 1] != b[d, k, 1]:
                return False
    return True


@njit(cache=True)
def _middle(
    shape,
    held,
    wanted,
    axes,
    axes_needed,
    granule,
    granule_needed,
    window,
    sizes,
    coords,
    middle,
    scattered,
    place,
    grain,
):  # type: ignore[no-untyped-def]
    """Fill `middle` with the boxes in which partial terms are combined; mark scattered sub-axes."""
    for k in range(shape.shape[0]):
        split = False
        for s in range(sizes.shape[0]):
            split |= axes[s] == k
        if window[k] != 0:
            if window[k] == 2 and not split:
                middle[:, k] = wanted[:, k]
            continue
        added = False
        for s in range(sizes.shape[0]):
            if axes_needed[s] == k and axes[s] < 0:
                added = True
                place[s] = k
                if axes[s] == -2:
                    scattered[s] = True
        if not added:
            continue
        grain[k] = granule_needed[k]
        parts = 1
        for s in range(sizes.shape[0]):
            if place[s] == k:
                parts *= sizes[s]
        granules = -(-shape[k] // grain[k])
        chunk = -(-granules // parts) * grain[k]
        for d in range(middle.shape[0]):
            position = 0
            for s in range(sizes.shape[0]):
                if place[s] == k:
                    position = position * sizes[s] + coords[d, s]
            start = min(position * chunk, shape[k])
            middle[d, k, 0] = start
            middle[d, k, 1] = min(start + chunk, shape[k])
    if not _nested(held, middle):
        middle[:] = held
        scattered[:] = False
        place[:] = axes
        grain[:] = granule


@njit(cache=True)
def _stride_on_axis(chosen, a, sizes, owner):  # type: ignore[no-untyped-def]
    stride = 1
    for r in range(sizes.shape[0]):
        s = sizes.shape[0] - 1 - r
        if owner[s] != a:
            continue
        if chosen[s]:
            break
        stride *= sizes[s]
    return stride


@njit(cache=True)
def _later_volume(middle, d, later, sizes, strides, coords):  # type: ignore[no-untyped-def]
    """Elements device `d` still reduces: the middles of the devices that differ from it along `later`."""
    count = 1
    base = d
    for s in range(sizes.shape[0]):
        if later[s]:
            count *= sizes[s]
            base -= coords[d, s] * strides[s]
    total = 0
    for r in range(count):
        rest, member = r, base
        for s in range(sizes.shape[0]):
            if later[s]:
                member += (rest % sizes[s]) * strides[s]
                rest //= sizes[s]
        total += _volume(middle[member])
    return total


@njit(cache=True)
def _reductions(
    middle, axes, scattered, sizes, strides, owner, coords, axis_count, traffic, staging, moved, meta, p, n
):  # type: ignore[no-untyped-def]
    """Reduce-scatter steps, then all-reduce steps, fastest mesh axis first."""
    device_count, sub_count = coords.shape
    later = scattered.copy()
    chosen = np.zeros(sub_count, np.bool_)
    steps = 0
    for a in range(axis_count):
        for s in range(sub_count):
            if scattered[s] and owner[s] == a:
                steps += 1
                break
    first = True
    for r in range(axis_count):
        a = axis_count - 1 - r
        k = 1
        for s in range(sub_count):
            chosen[s] = scattered[s] and owner[s] == a
            if chosen[s]:
                k *= sizes[s]
                later[s] = False
        if k == 1:
            continue
        most = 0
        for d in range(device_count):
            slice_volume = _later_volume(middle, d, later, sizes, strides, coords)
            received = (k - 1) * slice_volume
            traffic[p, n] += received
            most = max(most, received)
            if first:
                staging[p, n, d] += slice_volume * (2 if steps > 1 else 1)
        moved[p, n, a, 0] = most
        meta[p, n, a, 0] = _code(SCATTER, k, _stride_on_axis(chosen, a, sizes, owner))
        first = False
    start, end = np.zeros(device_count, np.int64), np.zeros(device_count, np.int64)
    for d in range(device_count):
        end[d] = _volume(middle[d])
    for r in range(axis_count):
        a = axis_count - 1 - r
        k = 1
        for s in range(sub_count):
            chosen[s] = axes[s] == -2 and not scattered[s] and owner[s] == a
            if chosen[s]:
                k *= sizes[s]
        if k == 1:
            continue
        most_scatter, most_gather = 0, 0
        for d in range(device_count):
            position = 0
            for s in range(sub_count):
                if chosen[s]:
                    position = position * sizes[s] + coords[d, s]
            length = end[d] - start[d]
            size = -(-length // k)
            low = min(start[d] + position * size, end[d])
            high = min(low + size, end[d])
            received, gathered = (k - 1) * (high - low), length - (high - low)
            start[d], end[d] = low, high
            traffic[p, n] += received + gathered
            most_scatter, most_gather = max(most_scatter, received), max(most_gather, gathered)
            if first:
                staging[p, n, d] += high - low
        moved[p, n, a, 1], moved[p, n, a, 2] = most_scatter, most_gather
        stride = _stride_on_axis(chosen, a, sizes, owner)
        meta[p, n, a, 1], meta[p, n, a, 2] = _code(SCATTER, k, stride), _code(GATHER, k, stride)
        first = False


@njit(cache=True)
def _unions(middle, block, union):  # type: ignore[no-untyped-def]
    """Per device and level the bounding box of what the devices of its block hold.

    Level a is the block of devices equal on the a slowest axes. With sub-axes in mesh order the union of a
    block's chunks is that box.
    """
    device_count, rank, _ = middle.shape
    for level in range(block.shape[0]):
        span = block[level]
        for first in range(0, device_count, span):
            for k in range(rank):
                low, high = np.int64(1 << 62), np.int64(-1)
                for m in range(first, first + span):
                    if middle[m, k, 1] > middle[m, k, 0] and _volume(middle[m]) > 0:
                        low, high = min(low, middle[m, k, 0]), max(high, middle[m, k, 1])
                for m in range(first, first + span):
                    union[level, m, k, 0], union[level, m, k, 1] = low, high


@njit(cache=True)
def _overlap(held, wanted):  # type: ignore[no-untyped-def]
    volume = 1
    for k in range(held.shape[0]):
        volume *= max(np.int64(0), min(held[k, 1], wanted[k, 1]) - max(held[k, 0], wanted[k, 0]))
    return volume


@njit(cache=True)
def _fetch(union, wanted, block, traffic, moved, meta, p, n):  # type: ignore[no-untyped-def]
    """Each missing element once, from the nearest level that has it; replicas share slow transfers."""
    device_count = wanted.shape[0]
    axis_count = block.shape[0] - 1
    for d in range(device_count):
        near = _overlap(union[axis_count, d], wanted[d])
        for r in range(axis_count):
            a = axis_count - 1 - r
            have = _overlap(union[a, d], wanted[d])
            missing = have - near
            near = have
            if missing == 0:
                continue
            traffic[p, n] += missing
            team, slowest = (1, a) if a == axis_count - 1 else _team(wanted, d, block, a)
            own = -(-missing // team)
            moved[p, n, a, 3] = max(moved[p, n, a, 3], own)
            if team > 1:
                moved[p, n, slowest, 4] = max(moved[p, n, slowest, 4], missing - missing // team)


@njit(cache=True)
def _team(wanted, d, block, a):  # type: ignore[no-untyped-def]
    """How many devices on faster axes than `a` need the same box, and the slowest axis between them."""
    span = block[a + 1]
    first = d // span * span
    team, slowest = 0, block.shape[0] - 2
    for m in range(first, first + span):
        same = True
        for k in range(wanted.shape[1]):
            if wanted[m, k, 0] != wanted[d, k, 0] or wanted[m, k, 1] != wanted[d, k, 1]:
                same = False
        if same:
            team += 1
            for b in range(a + 1, block.shape[0] - 1):
                if m // block[b + 1] != d // block[b + 1]:
                    slowest = min(slowest, b)
                    break
    return team, slowest


@njit(cache=True)
def _fetch_meta(place, axes_needed, grain, granule_needed, window, sizes, owner, axis_sizes, meta, p, n):  # type: ignore[no-untyped-def]
    """Kind, members and stride of the fetch round on each mesh axis."""
    regular = True
    for k in range(grain.shape[0]):
        if window[k] != 0:
            regular = False
        split_here, split_there = False, False
        for s in range(sizes.shape[0]):
            split_here |= place[s] == k
            split_there |= axes_needed[s] == k
        if split_here and split_there and grain[k] != granule_needed[k]:
            regular = False
    released = np.zeros(sizes.shape[0], np.bool_)
    for a in range(axis_sizes.shape[0]):
        members, exchange = 1, False
        for s in range(sizes.shape[0]):
            released[s] = owner[s] == a and place[s] >= 0 and axes_needed[s] != place[s]
            if released[s]:
                members *= sizes[s]
                exchange |= axes_needed[s] >= 0
        if members == 1 or not regular:
            meta[p, n, a, 3] = _code(FETCH, axis_sizes[a], 1)
        else:
            meta[p, n, a, 3] = _code(
                EXCHANGE if exchange else GATHER, members, _stride_on_axis(released, a, sizes, owner)
            )
        _replicas_meta(axes_needed, a, sizes, owner, axis_sizes, meta, p, n)


@njit(cache=True)
def _replicas_meta(axes_needed, a, sizes, owner, axis_sizes, meta, p, n):
    """Members and stride of the gather among replicas on one mesh axis: along its sub-axes that split nothing.

    Windows may be equal by accident where all split something; the whole axis takes part then.
    """
    free = np.zeros(sizes.shape[0], np.bool_)
    members = 1
    for s in range(sizes.shape[0]):
        free[s] = owner[s] == a and axes_needed[s] < 0
        if free[s]:
            members *= sizes[s]
    if members == 1:
        meta[p, n, a, 4] = _code(GATHER, axis_sizes[a], 1)
    else:
        meta[p, n, a, 4] = _code(GATHER, members, _stride_on_axis(free, a, sizes, owner))
