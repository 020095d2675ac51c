"""Copies written out as nodes: slices on the senders, sums and joins on the receivers.

Follows `copies` and `transfers` phase by phase: reduce-scatter steps, all-reduce steps on slices of the
flattened shard and their gathers, then the fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import accumulate, product

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan, flat_slices, group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import NodeWriter, Placed
from tapestry.teg.sharding.partition import lengths
from tapestry.teg.sharding.spec import boxes, volumes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers, scatter_sets
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
                pieces[box] = writer.accumulate(name, device, terms, plan.source.monoid, box)
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
    rows = dict(parts)
    for (_, names), (start, end) in zip(
        plan.reduce, flat_slices(length, plan.reduce, mesh_shape), strict=True
    ):
        members = group_members(mesh_shape, names)
        reduced = {}
        for d in rows:
            a, b = int(start[d] - starts[d]), int(end[d] - starts[d])
            if a < b:
                terms = [writer.flat_slice(name, int(m), rows[int(m)], a, b) for m in members[d]]
                reduced[d] = writer.accumulate(name, d, terms, plan.source.monoid, None)
        rows, starts = reduced, start
    for step, (_, names) in reversed(list(enumerate(plan.reduce))):
        members = group_members(mesh_shape, names)
        gathered = {}
        for d, box in full.items():
            pieces = [rows[int(m)] for m in members[d] if int(m) in rows]
            if pieces:
                gathered[d] = _gathered(writer, name, d, pieces, box if step == 0 else None)
        rows = gathered
    return rows


def _gathered(writer: NodeWriter, name: str, device: int, rows: list[str], box: ZRange | None) -> str:
    """Write rows one after the other to a row, or to the box whose elements they are."""
    if box is None:
        return writer.assemble_row(name, device, rows)
    firsts = accumulate((writer.tensors[t].shape[0] for t in rows), initial=0)
    pieces = [Placed(t, box, first) for t, first in zip(rows, firsts, strict=False)]
    return writer.assemble(name, device, pieces, box)


def _fetch(
    writer: NodeWriter,
    name: str,
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    middle: Local,
) -> Local:
    """Slice pieces where they are held and write them to their places at the receiver.

    Where replicas split a slow transfer, each continues its own assembly by what the others have received.
    """
    transfers = fetch_transfers(plan, shape, mesh_shape)
    direct: dict[int, list[Placed]] = {}
    gathered: dict[int, list[Transfer]] = {}
    for t in transfers:
        if t.gathered:
            gathered.setdefault(t.target, []).append(t)
            continue
        piece = _run(writer, name, t, middle[t.source])
        direct.setdefault(t.target, []).append(Placed(piece, _box(t), t.start))
    result = {}
    for device, pieces in direct.items():
        parts = [*(p.box for p in pieces), *map(_box, gathered.get(device, ()))]
        held = reduce(ZRange.bounding, parts)
        result[device] = writer.assemble(name, device, pieces, held, is_open=device in gathered)
    complete = {}
    for device, missing in gathered.items():
        rows = [Placed(_run(writer, name, t, result[t.source]), _box(t), t.start) for t in missing]
        begun = result.get(device)  # a share of a few elements may be empty
        held = writer.boxes[begun] if begun else reduce(ZRange.bounding, (p.box for p in rows))
        complete[device] = writer.assemble(name, device, rows, held, onto=begun)
    return result | complete


def _run(writer: NodeWriter, name: str, transfer: Transfer, tensor: str) -> str:
    """Write the slice of a tensor that a transfer moves, on the device that sends it."""
    box = _box(transfer)
    piece = writer.slice(name, transfer.source, tensor, box)
    if (transfer.start, transfer.end) == (0, box.size):
        return piece
    return writer.flat_slice(name, transfer.source, piece, transfer.start, transfer.end)


def _box(transfer: Transfer) -> ZRange:
    return ZRange(tuple(a for a, _ in transfer.box), tuple(b for _, b in transfer.box))
