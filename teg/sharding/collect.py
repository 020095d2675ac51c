"""Copies written out as nodes: slices on the senders, sums and concatenations on the receivers.

Follows `copies` and `transfers` phase by phase: reduce-scatter steps, all-reduce steps on slices of the
flattened shard and their gathers, then the fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan, flat_slices, group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import NodeWriter
from tapestry.teg.sharding.partition import lengths
from tapestry.teg.sharding.spec import boxes, volumes
from tapestry.teg.sharding.transfers import Box, fetch_transfers, scatter_sets
from tapestry.teg.zspace import ZRange

Local = dict[int, str]
"""A tensor on each device that holds a part of it."""


def as_range(box: np.ndarray) -> ZRange:
    """Convert one box `(rank, 2)` of an array to a range; it never ends before it starts."""
    start = tuple(int(s) for s in box[:, 0])
    return ZRange(start, tuple(s + int(n) for s, n in zip(start, lengths(box), strict=True)))


def write_copy(
    writer: NodeWriter,
    name: str,
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    source: Local,
) -> Local:
    """Write the nodes that make a copy called `name` from `source`; return the tensors of its result."""
    held = {d: {writer.boxes[t]: t} for d, t in source.items()}
    middle = source
    if plan.reduces:
        scattered = _scatter(writer, name, plan, shape, mesh_shape, held)
        middle = _all_reduce(writer, name, plan, mesh_shape, scattered)
    return _fetch(writer, name, plan, shape, mesh_shape, middle) if plan.fetch else middle


def _scatter(
    writer: NodeWriter,
    name: str,
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    held: dict[int, dict[ZRange, str]],
) -> Local:
    """Write the reduce-scatter steps; without any, the local slice that is reduced further."""
    assert plan.source.monoid is not None
    for done, (_, names) in enumerate(plan.scatter, start=1):
        members = group_members(mesh_shape, names)
        following: dict[int, dict[ZRange, str]] = {}
        for device, coordinates in enumerate(scatter_sets(plan, shape, mesh_shape, done)):
            pieces = {}
            for box in _runs(coordinates):
                terms = [_within(writer, name, int(m), held[int(m)], box) for m in members[device]]
                pieces[box] = writer.combine(name, device, terms, plan.source.monoid, box)
            if pieces:
                following[device] = pieces
        held = following
    result = {}
    for device, box in enumerate(boxes(plan.middle, shape, mesh_shape)):
        if volumes(box) > 0:
            result[device] = _within(writer, name, device, held[device], as_range(box))
    return result


def _runs(coordinates: tuple[np.ndarray, ...]) -> list[ZRange]:
    """Split a product of coordinate sets into boxes of consecutive coordinates."""
    per_dim = []
    for values in coordinates:
        if len(values) == 0:
            return []
        cuts = np.flatnonzero(np.diff(values) != 1) + 1
        per_dim.append([(int(run[0]), int(run[-1]) + 1) for run in np.split(values, cuts)])
    return [ZRange(tuple(a for a, _ in runs), tuple(b for _, b in runs)) for runs in product(*per_dim)]


def _within(writer: NodeWriter, name: str, device: int, held: Mapping[ZRange, str], box: ZRange) -> str:
    tensor = next(t for h, t in held.items() if h.contains(box))
    return writer.slice(name, device, tensor, box)


def _all_reduce(writer: NodeWriter, name: str, plan: CopyPlan, mesh_shape: MeshShape, parts: Local) -> Local:
    """Write the slice-wise reduction step by step, fastest axis first, then gather the slices in reverse."""
    if not plan.reduce:
        return parts
    assert plan.source.monoid is not None
    full = {d: writer.boxes[t] for d, t in parts.items()}
    length = np.array([full[d].size if d in full else 0 for d in range(mesh_shape.device_count)])
    starts = np.zeros_like(length)
    rows = {d: writer.flat(name, d, t) for d, t in parts.items()}
    for (_, names), (start, end) in zip(
        plan.reduce, flat_slices(length, plan.reduce, mesh_shape), strict=True
    ):
        members = group_members(mesh_shape, names)
        reduced = {}
        for d in rows:
            a, b = int(start[d] - starts[d]), int(end[d] - starts[d])
            if a < b:
                terms = [writer.flat_slice(name, int(m), rows[int(m)], a, b) for m in members[d]]
                reduced[d] = writer.combine(name, d, terms, plan.source.monoid, None)
        rows, starts = reduced, start
    for _, names in reversed(plan.reduce):
        members = group_members(mesh_shape, names)
        gathered = {}
        for d in full:
            pieces = [rows[int(m)] for m in members[d] if int(m) in rows]
            if pieces:
                gathered[d] = writer.concat(name, d, pieces, 0)
        rows = gathered
    return {d: writer.shaped(name, d, row, full[d]) for d, row in rows.items()}


def _fetch(
    writer: NodeWriter,
    name: str,
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    middle: Local,
) -> Local:
    """Slice pieces where they are held, gather them where a slow transfer was split, and join them at the receiver."""
    transfers = fetch_transfers(plan, shape, mesh_shape)
    forwarded = {(t.source, t.box, t.start) for t in transfers if t.gathered}
    received: dict[tuple[int, Box, int], str] = {}
    arrived: dict[int, dict[ZRange, list[tuple[int, str]]]] = {}
    for t in transfers:
        box = ZRange(tuple(a for a, _ in t.box), tuple(b for _, b in t.box))
        if t.gathered:
            piece = received[t.source, t.box, t.start]
        else:
            piece = writer.slice(name, t.source, middle[t.source], box)
            whole = (t.start, t.end) == (0, box.size)
            if not whole:
                row = writer.flat(name, t.source, piece)
                piece = writer.flat_slice(name, t.source, row, t.start, t.end)
            if (t.target, t.box, t.start) in forwarded:
                piece = writer.concat(name, t.target, [piece], 0, box if whole else None)
                received[t.target, t.box, t.start] = piece
        arrived.setdefault(t.target, {}).setdefault(box, []).append((t.start, piece))
    result = {}
    for device, pieces in arrived.items():
        parts = {box: _whole(writer, name, device, box, rows) for box, rows in pieces.items()}
        result[device] = writer.join(name, device, parts)
    return result


def _whole(writer: NodeWriter, name: str, device: int, box: ZRange, pieces: list[tuple[int, str]]) -> str:
    """Combine the slices of a box's flattened elements to one box."""
    rows = [piece for _, piece in sorted(pieces)]
    if rows[0] in writer.boxes:
        return rows[0]
    return writer.shaped(name, device, writer.concat(name, device, rows, 0), box)
