"""Counts of fetches from boxes for every device at once: the nearest holders, and the elements crossing each axis."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tapestry.hardware.simulator.rounds import no_links
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import is_run
from tapestry.teg.sharding.spec import boxes, volumes
from tapestry.teg.sharding.stages import Route


def count_fetch(
    plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Count the elements received from the nearest holders.

    Directly and from replicas by axis crossed, `(axes, devices)`; by link `(devices, devices)`.

    Each missing element comes from its nearest holder; replicas share a slow transfer in equal slices. By link come
    two arrays: of what comes directly, between stages from devices of the other one, and from replicas.
    """
    devices = np.arange(mesh_shape.device_count)
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    source, common = _nearest(held, wanted, mesh_shape)
    axis = slowest_axis(source, devices[:, None], mesh_shape)
    if plan.route is not None:
        across = route_level(plan.route, mesh_shape)
        axis = np.where(axis < 0, across, np.minimum(axis, across))
    direct = np.zeros((len(mesh_shape.axes), mesh_shape.device_count), dtype=np.int64)
    gathered = np.zeros_like(direct)
    links, team_links = no_links(mesh_shape.device_count), no_links(mesh_shape.device_count)
    for level in range(len(mesh_shape.axes)):
        pieces = np.where(axis == level, common, 0)
        if not pieces.any():
            continue
        members = teams(level, wanted, mesh_shape)
        size = -(-pieces // (members >= 0).sum(axis=1)[:, None])
        for rank, member in enumerate(members.T):
            slices = np.clip(pieces - rank * size, 0, size)
            own = member == devices
            direct[level] += np.where(own, slices.sum(axis=1), 0)
            np.add.at(links, (source[own], devices[own, None]), slices[own])
            other = np.flatnonzero((member >= 0) & ~own)
            amount = slices[other].sum(axis=1)
            np.add.at(gathered, (slowest_axis(member[other], other, mesh_shape), other), amount)
            np.add.at(team_links, (member[other], other), amount)
    return direct, gathered, (links, team_links)


def route_level(route: Route, mesh_shape: MeshShape) -> int:
    """Return the position of the axis that a route between stages crosses."""
    return [name for name, _ in mesh_shape.axes].index(route.axis)


def moves_in_order(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> tuple[bool, bool]:
    """Return whether every piece that a device fetches is a run of what its sender holds, and whether all pieces that
    a device needs, its own among them, are runs of its part.
    """
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    first, chunk = distinct_rows(held.reshape(len(held), -1))
    chunks = held[first]
    sent, landed = True, True
    different = np.concatenate([wanted.reshape(len(wanted), -1), chunk[:, None]], axis=1)
    for device in distinct_rows(different)[0]:
        part = wanted[device]
        low, high = np.maximum(part[:, 0], chunks[:, :, 0]), np.minimum(part[:, 1], chunks[:, :, 1])
        some = (high > low).all(axis=1)
        others = some if plan.route is not None else some & (np.arange(len(chunks)) != chunk[device])
        sizes = chunks[:, :, 1] - chunks[:, :, 0]
        sent &= bool(is_run((high - low)[others], sizes[others]).all())
        landed &= bool(is_run((high - low)[some], part[:, 1] - part[:, 0]).all())
    return sent, landed


def packed_elements(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> np.ndarray:
    """Count the elements that devices pack, `(devices,)`: as many as the one that sends the most, of its part at most.

    Devices that hold the same part share what others need of it.
    """
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    first, chunk = distinct_rows(held.reshape(len(held), -1))
    low = np.maximum(wanted[:, None, :, 0], held[first][:, :, 0])
    high = np.minimum(wanted[:, None, :, 1], held[first][:, :, 1])
    needed = volumes(np.stack([low, np.maximum(low, high)], axis=-1))
    if plan.route is None:
        needed[np.arange(len(held)), chunk] = 0
    share = np.minimum(-(-needed.sum(axis=0) // np.bincount(chunk)), volumes(held[first]))
    return np.asarray(np.minimum(volumes(held), share.max()))


def _nearest(held: np.ndarray, wanted: np.ndarray, mesh_shape: MeshShape) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest holder per device and distinct chunk, and elements in common, `(devices, chunks)` both."""
    first, chunk = distinct_rows(held.reshape(len(held), -1))
    order = np.argsort(chunk, kind="stable")
    begins = np.searchsorted(chunk[order], np.arange(len(first)))
    nearest = np.minimum.reduceat(distances(mesh_shape)[:, order], begins, axis=1)
    source = (np.arange(len(held))[:, None] + nearest) % len(held)
    chunks = held[first]
    low = np.maximum(wanted[:, None, :, 0], chunks[:, :, 0])
    high = np.minimum(wanted[:, None, :, 1], chunks[:, :, 1])
    common = volumes(np.stack([low, np.maximum(low, high)], axis=-1))
    return source, common


@lru_cache(maxsize=64)
def distances(mesh_shape: MeshShape) -> np.ndarray:
    """Compute the distances between devices, `(targets, sources)`: slow axes that differ, then rotated index."""
    devices = np.arange(mesh_shape.device_count)
    place = mesh_shape.axis_coordinates
    distance = np.zeros((mesh_shape.device_count, mesh_shape.device_count), dtype=np.int64)
    for k in range(len(mesh_shape.axes)):
        distance = 2 * distance + (place[:, None, k] != place[None, :, k])
    return (
        distance * mesh_shape.device_count + (devices[None, :] - devices[:, None]) % mesh_shape.device_count
    )


def slowest_axis(a: np.ndarray, b: np.ndarray, mesh_shape: MeshShape) -> np.ndarray:
    """Return the slowest mesh axis on which devices differ, by position; -1 for a device and itself."""
    differ = mesh_shape.axis_coordinates[a] != mesh_shape.axis_coordinates[b]
    if not mesh_shape.axes:
        return np.full(differ.shape[:-1], -1)
    return np.where(differ.any(axis=-1), differ.argmax(axis=-1), -1)


def teams(level: int, wanted: np.ndarray, mesh_shape: MeshShape) -> np.ndarray:
    """Group devices that want the same box and differ on axes faster than `level` only, `(devices, most)`.

    Members come in order, -1 past the last one.
    """
    slower = mesh_shape.axis_coordinates[:, : level + 1]
    _, group = distinct_rows(np.concatenate([wanted.reshape(len(wanted), -1), slower], axis=1))
    sizes = np.bincount(group)
    order = np.argsort(group, kind="stable")
    begins = np.cumsum(sizes) - sizes
    column = np.arange(sizes.max())
    inside = column < sizes[group][:, None]
    return np.where(inside, order[np.where(inside, begins[group][:, None] + column, 0)], -1)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the first position of each distinct row, and the number of every row among the distinct ones."""
    number: dict[bytes, int] = {}
    place = [number.setdefault(row.tobytes(), len(number)) for row in rows]
    group = np.array(place, dtype=np.int64)
    first = np.full(len(number), len(rows))
    np.minimum.at(first, group, np.arange(len(rows)))
    return first, group
