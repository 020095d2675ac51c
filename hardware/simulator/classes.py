"""Fetches counted once per class of devices: for large meshes.

What a device receives follows from the lengths by which its wanted range overlaps the chunks of each
tensor dimension, from the mesh axes between it and those chunks, and from its place among the replicas
that share slow transfers. Devices for which all this is equal form a class; one of them is evaluated.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from teg.sharding.copies import CopyPlan
from teg.sharding.mesh import MeshShape
from teg.sharding.spec import boxes


def fetch_by_class(plan: CopyPlan, shape: tuple[int, ...], mesh: MeshShape) -> tuple[np.ndarray, np.ndarray]:
    """Elements fetched by axis crossed, `(axes, devices)`: directly, and gathered from replicas."""
    held, wanted = boxes(plan.middle, shape, mesh), boxes(plan.needed, shape, mesh)
    overlaps = [
        _overlaps(plan.middle.dims[k].axes, held[:, k], wanted[:, k], mesh) for k in range(len(shape))
    ]
    teams = [_teams(level, wanted, mesh) for level in range(len(mesh.axes))]
    rows = np.concatenate(
        [*map(_profile, overlaps), *(team.reshape(len(team), -1) for team in teams)], axis=1
    )
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    counts = [_received(device, overlaps, teams, len(mesh.axes)) for device in first]
    by_class = np.array(counts)[inverse.reshape(-1)]
    return by_class[:, 0].T, by_class[:, 1].T


def _overlaps(sub_axes: tuple[str, ...], held: np.ndarray, wanted: np.ndarray, mesh: MeshShape) -> np.ndarray:
    """Per device and chunk of one dimension, `(devices, chunks, 2)`: common length, and mesh axes between.

    The axes are a number with bit `k` set where device and holders of the chunk differ on axis `k`.
    """
    chunk = mesh.linear(sub_axes)
    _, holder = np.unique(chunk, return_index=True)
    start = np.maximum(wanted[:, None, 0], held[None, holder, 0])
    end = np.minimum(wanted[:, None, 1], held[None, holder, 1])
    between = np.zeros_like(start)
    for k, (name, _) in enumerate(mesh.axes):
        mine = tuple(s.name for s in mesh.sub_axes if s.axis == name and s.name in sub_axes)
        place = mesh.linear(mine)
        between |= (place[:, None] != place[None, holder]).astype(np.int64) << k
    return np.stack([np.maximum(end - start, 0), between], axis=-1)


def _profile(overlaps: np.ndarray) -> np.ndarray:
    """The overlaps of each device in an order of their own, `(devices, 2 chunks)`: equal rows, equal devices."""
    length, between = overlaps[..., 0], np.where(overlaps[..., 0] > 0, overlaps[..., 1], 0)
    order = np.lexsort((between, length))
    return np.concatenate(
        [np.take_along_axis(length, order, axis=1), np.take_along_axis(between, order, axis=1)], axis=1
    )


def _teams(level: int, wanted: np.ndarray, mesh: MeshShape) -> np.ndarray:
    """Devices that want the same box and differ on axes faster than `level` only, `(devices, most)`.

    Per member, in order of device: slowest mesh axis between it and the device, -1 for the device itself,
    -2 past the last one.
    """
    slower = mesh.axis_coordinates[:, : level + 1]
    _, group = np.unique(
        np.concatenate([wanted.reshape(len(wanted), -1), slower], axis=1), axis=0, return_inverse=True
    )
    group = group.reshape(-1)
    sizes = np.bincount(group)
    order = np.argsort(group, kind="stable")
    begins = np.cumsum(sizes) - sizes
    column = np.arange(sizes.max())
    inside = column < sizes[group][:, None]
    members = order[np.where(inside, begins[group][:, None] + column, 0)]
    differ = mesh.axis_coordinates[members] != mesh.axis_coordinates[:, None, :]
    slowest = np.where(differ.any(axis=-1), differ.argmax(axis=-1), -1)
    return np.where(inside, slowest, -2)


def _received(device: int, overlaps: list[np.ndarray], teams: list[np.ndarray], axes: int) -> np.ndarray:
    """Elements that one device receives, `(2, axes)`: directly by axis crossed, and from replicas."""
    received = np.zeros((2, axes), dtype=np.int64)
    present = [o[device][o[device, :, 0] > 0] for o in overlaps]
    lengths = reduce(np.multiply.outer, [p[:, 0] for p in present]).reshape(-1)
    between = reduce(np.bitwise_or.outer, [p[:, 1] for p in present]).reshape(-1)
    for level in range(axes):
        # The slowest axis is the lowest bit.
        pieces = lengths[between & ((2 << level) - 1) == 1 << level]
        team = teams[level][device]
        team = team[team > -2]
        size = -(-pieces // len(team))
        for rank, crossed in enumerate(team):
            taken = int((np.minimum((rank + 1) * size, pieces) - np.minimum(rank * size, pieces)).sum())
            if crossed < 0:
                received[0, level] += taken
            else:
                received[1, crossed] += taken
    return received
