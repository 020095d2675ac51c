"""Counts of fetches by class of devices, for large meshes.

What a device receives follows from the lengths by which its wanted range overlaps the chunks of each
tensor dimension, from the mesh axes between it and those chunks, and from its place among the replicas
that share slow transfers. Devices for which all this is equal form a class; one of them is evaluated.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from tapestry.hardware.simulator.fetches import distinct_rows, route_level, slowest_axis, teams
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes

PAST_END = -2  # past the last member of a team


def count_fetch_by_class(
    plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape
) -> tuple[np.ndarray, np.ndarray]:
    """Count the elements fetched by axis crossed, `(axes, devices)`: directly, and gathered from replicas."""
    devices, axes = np.arange(mesh_shape.device_count), len(mesh_shape.axes)
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    overlaps = [
        _overlaps(plan.middle.dims[k].axes, held[:, k], wanted[:, k], mesh_shape) for k in range(len(shape))
    ]
    replicas = []
    for level in range(axes):
        members = teams(level, wanted, mesh_shape)
        replicas.append(np.where(members < 0, PAST_END, slowest_axis(members, devices[:, None], mesh_shape)))
    first, number = distinct_rows(np.concatenate([*map(_profile, overlaps), *replicas], axis=1))
    crossed = 0 if plan.route is None else 1 << route_level(plan.route, mesh_shape)
    counts = np.array([_received(d, overlaps, replicas, crossed) for d in first]).reshape(len(first), 2, axes)
    by_device = counts[number]
    return by_device[:, 0].T, by_device[:, 1].T


def _overlaps(
    sub_axes: tuple[str, ...], held: np.ndarray, wanted: np.ndarray, mesh_shape: MeshShape
) -> np.ndarray:
    """Compute device-chunk overlaps in one dimension, `(devices, chunks, 2)`: length, and mesh axes between.

    The axes are a number with bit `k` set where device and holders of the chunk differ on axis `k`.
    """
    chunk = mesh_shape.linear(sub_axes)
    _, holder = np.unique(chunk, return_index=True)
    start = np.maximum(wanted[:, None, 0], held[None, holder, 0])
    end = np.minimum(wanted[:, None, 1], held[None, holder, 1])
    between = np.zeros_like(start)
    for k, (name, _) in enumerate(mesh_shape.axes):
        mine = tuple(s.name for s in mesh_shape.sub_axes if s.axis == name and s.name in sub_axes)
        place = mesh_shape.linear(mine)
        between |= (place[:, None] != place[None, holder]).astype(np.int64) << k
    return np.stack([np.maximum(end - start, 0), between], axis=-1)


def _profile(overlaps: np.ndarray) -> np.ndarray:
    """Sort the overlaps of each device, `(devices, 2 chunks)`, so that equal rows mean equal devices."""
    length, between = overlaps[..., 0], np.where(overlaps[..., 0] > 0, overlaps[..., 1], 0)
    order = np.lexsort((between, length))
    return np.concatenate(
        [np.take_along_axis(length, order, axis=1), np.take_along_axis(between, order, axis=1)], axis=1
    )


def _received(
    device: int, overlaps: list[np.ndarray], replicas: list[np.ndarray], crossed: int
) -> np.ndarray:
    """Count the elements that one device receives, `(2, axes)`: directly by axis crossed, and from replicas.

    `replicas` gives per slowest axis crossed the axes between the device and those it shares with. The axes `crossed`,
    as bits, are between all pairs: those between two stages.
    """
    received = np.zeros((2, len(replicas)), dtype=np.int64)
    present = [o[device][o[device, :, 0] > 0] for o in overlaps]
    lengths = reduce(np.multiply.outer, [p[:, 0] for p in present]).reshape(-1)
    between = reduce(np.bitwise_or.outer, [p[:, 1] for p in present]).reshape(-1) | crossed
    for level, axes_between in enumerate(replicas):
        # The slowest axis is the lowest bit.
        pieces = lengths[between & ((2 << level) - 1) == 1 << level]
        team = axes_between[device][axes_between[device] != PAST_END]
        size = -(-pieces // len(team))
        slices = np.clip(pieces - np.arange(len(team))[:, None] * size, 0, size).sum(axis=1)
        received[0, level] += slices[team < 0].sum()
        np.add.at(received[1], team[team >= 0], slices[team >= 0])
    return received
