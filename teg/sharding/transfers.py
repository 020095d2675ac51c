"""Explicit transfers between devices for the copies of `teg.sharding.copies`.

Used where elements really move (simulator, materialized graphs). The cost model does not read this: it
counts by closed formulas of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan, group_members, scatter_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes, volumes

Box = tuple[tuple[int, int], ...]


class Transfer(NamedTuple):
    """A transfer of elements `[start, end)` of the flattened `box` from device `source` to device `target`.

    `axis` is the slowest mesh axis crossed (position), -1 for the device's own elements. Between stages, `source` is a
    device of the sending one, unless `gathered`: the elements are read from the source's result buffer (replicas that
    split a slow transfer), not from its held part.
    """

    target: int
    source: int
    box: Box
    start: int
    end: int
    axis: int
    gathered: bool = False


@lru_cache(maxsize=16384)
def fetch_transfers(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> tuple[Transfer, ...]:
    """Return all transfers of the fetch of `plan`, in order: own parts and fetched pieces, then local gathers.

    Each missing element arrives once, from the nearest holder: fewest slow axes differing, then lowest
    rotated index. Replicas on faster axes share a slow transfer in flattened slices. Between stages, sources are
    devices of the other one, as near as their places are, and everything crosses the axis of the route at least.
    """
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    chunks = _chunk_ids(held)
    first: list[Transfer] = []
    gathers: list[Transfer] = []
    for target in range(mesh_shape.device_count):
        for source in _nearest_holders(target, chunks, mesh_shape):
            box = _overlap(held[source], wanted[target])
            if box is None:
                continue
            axis = _slowest_axis(target, source, mesh_shape)
            if plan.route is not None:
                across = _axis_position(plan.route.axis, mesh_shape)
                axis = across if axis < 0 else min(axis, across)
            length = _box_volume(box)
            team = _replicas(target, axis, wanted, mesh_shape) if axis >= 0 else [target]
            if len(team) == 1:
                first.append(Transfer(target, source, box, 0, length, axis))
                continue
            size = -(-length // len(team))
            for rank, member in enumerate(team):
                start, end = min(rank * size, length), min((rank + 1) * size, length)
                if start == end:
                    continue
                if member == target:
                    first.append(Transfer(target, source, box, start, end, axis))
                else:
                    crossed = _slowest_axis(target, member, mesh_shape)
                    gathers.append(Transfer(target, member, box, start, end, crossed, gathered=True))
    return (*first, *gathers)


def _chunk_ids(held: np.ndarray) -> np.ndarray:
    """Number the distinct held boxes, with -1 for empty ones; `(devices,)`."""
    _, ids = np.unique(held.reshape(len(held), -1), axis=0, return_inverse=True)
    return np.where(volumes(held) > 0, ids.reshape(-1), -1)


def _nearest_holders(target: int, chunks: np.ndarray, mesh_shape: MeshShape) -> list[int]:
    """Find the nearest device holding each distinct chunk, as seen from `target`."""
    place = mesh_shape.axis_coordinates
    count = mesh_shape.device_count
    rotated = (np.arange(count) - target) % count
    differs = place != place[target]
    order = np.lexsort((rotated, *reversed([differs[:, k] for k in range(differs.shape[1])])))
    nearest: dict[int, int] = {}
    for source in order:
        if chunks[source] >= 0:
            nearest.setdefault(int(chunks[source]), int(source))
    return list(nearest.values())


def _overlap(held: np.ndarray, wanted: np.ndarray) -> Box | None:
    low, high = np.maximum(held[:, 0], wanted[:, 0]), np.minimum(held[:, 1], wanted[:, 1])
    if (high <= low).any():
        return None
    return tuple((int(a), int(b)) for a, b in zip(low, high, strict=True))


def _slowest_axis(a: int, b: int, mesh_shape: MeshShape) -> int:
    different = np.flatnonzero(mesh_shape.axis_coordinates[a] != mesh_shape.axis_coordinates[b])
    return int(different[0]) if len(different) else -1


def _replicas(target: int, axis: int, wanted: np.ndarray, mesh_shape: MeshShape) -> list[int]:
    """Return the devices that need the same box and differ from `target` only along axes faster than `axis`."""
    faster = tuple(s.name for s in mesh_shape.sub_axes if _axis_position(s.axis, mesh_shape) > axis)
    members = group_members(mesh_shape, faster)[target]
    return [int(m) for m in members if (wanted[m] == wanted[target]).all()]


def _axis_position(name: str, mesh_shape: MeshShape) -> int:
    return [n for n, _ in mesh_shape.axes].index(name)


def _box_volume(box: Box) -> int:
    volume = 1
    for a, b in box:
        volume *= b - a
    return volume


def scatter_sets(
    plan: CopyPlan, shape: Sequence[int], mesh_shape: MeshShape, done: int
) -> list[tuple[np.ndarray, ...]]:
    """Compute, per device and dimension, the coordinates it still reduces after `done` scatter steps.

    A device's set is the cartesian product of its coordinate arrays: what it and the devices it will
    still scatter to end up with.
    """
    middle = boxes(plan.middle, shape, mesh_shape)
    if done == 0:
        held = boxes(plan.source, shape, mesh_shape)
        return [tuple(np.arange(a, b) for a, b in held[d]) for d in range(mesh_shape.device_count)]
    members = scatter_members(mesh_shape, plan.scatter, done)
    result = []
    for d in range(mesh_shape.device_count):
        full = [m for m in members[d] if volumes(middle[m]) > 0]
        result.append(
            tuple(
                np.unique(np.concatenate([np.arange(*middle[m, k]) for m in full])) if full else np.arange(0)
                for k in range(len(shape))
            )
        )
    return result
