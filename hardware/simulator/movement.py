"""Execution of copies on arrays: every element that a device gets from another one is moved, and counted.

The order in which terms are combined is that of the members' positions, so that replicas agree to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import EllipsisType

import numpy as np

from tapestry.hardware.simulator.parts import (
    Memo,
    box_part,
    emptied,
    flat_parts,
    frozen,
    same_bits,
    set_part,
)
from tapestry.hardware.simulator.rounds import (
    CopyCounts,
    Exchange,
    fetch_exchanges,
    joined_counts,
    no_links,
    per_device,
)
from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.copies import CopyPlan, flat_slices, group_members, reduce_round
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import is_run
from tapestry.teg.sharding.spec import boxes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers, scatter_sets

Arrays = list[Array]


class ArrayMovement:
    """A copy of a tensor of `shape`; `run` computes the result, and the other fields count along the way.

    `staging_bytes` are the bytes that devices hold besides source and result: the incoming slice of the first step,
    that step's reduced slice if another scatter step follows, the middle buffer if a fetch does. Of a copy between
    stages, the arrays begin on the devices of the sending one and end on those of the other.
    """

    def __init__(
        self, xp: ArrayNamespace, plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape
    ) -> None:
        self.xp = xp
        self.plan, self.shape, self.mesh_shape = plan, shape, mesh_shape
        self.devices = range(mesh_shape.device_count)
        self.middle, self.wanted = (
            boxes(plan.middle, shape, mesh_shape),
            boxes(plan.needed, shape, mesh_shape),
        )
        self.links = no_links(mesh_shape.device_count)
        self.staging_bytes = np.zeros(mesh_shape.device_count, dtype=np.int64)
        self.exchanges: list[Exchange] = []
        self.packed_bytes: list[np.ndarray] = []

    def run(self, held: Arrays) -> tuple[Arrays, CopyCounts]:
        """Compute the result on every device from the source's local buffers, and the counts of the copy."""
        arrays = self._reduced(held) if self.plan.reduces else held
        fetched: CopyCounts | None = None
        between = no_links(len(self.devices))
        if self.plan.fetch:
            if self.plan.reduces:
                self.staging_bytes += per_device([a.nbytes for a in arrays])
            arrays, fetched = self._fetch(arrays, between)
        result = []
        for device, array in enumerate(arrays):
            shape = (self.wanted[device, :, 1] - self.wanted[device, :, 0]).tolist()
            result.append(frozen(emptied(array, shape) if 0 in array.shape else array))
        sizes = per_device([a.nbytes for a in result])
        packed, exchanges = tuple(self.packed_bytes), tuple(self.exchanges)
        reduced = CopyCounts(
            sizes, self.staging_bytes, exchanges, self.links, packed, np.zeros_like(self.staging_bytes)
        )
        if fetched is None:
            return result, reduced
        fetched = fetched._replace(result_bytes=sizes)
        return result, joined_counts(reduced, fetched, between, self.plan.route is not None)

    def _reduced(self, held: Arrays) -> Arrays:
        if self.plan.scatter:
            parts = self._reduce_scatter(held)
        else:
            source = boxes(self.plan.source, self.shape, self.mesh_shape)
            parts = [box_part(held[d], source[d, :, 0].tolist(), self.middle[d]) for d in self.devices]
            if self._is_cut(held):
                self._pack(per_device([p.nbytes for p in parts]))
        return self._all_reduce(parts) if self.plan.reduce else parts

    def _receive(self, received_bytes: np.ndarray, target: int, source: int, piece: Array) -> None:
        """Count a piece received from another device; a device's own piece is not counted."""
        if target != source:
            received_bytes[target] += piece.nbytes
            self.links[source, target] += piece.nbytes

    def _is_own(self, transfer: Transfer) -> bool:
        """Return whether a device has already what it needs: never what it gets from another stage."""
        return transfer.source == transfer.target and self.plan.route is None

    def _is_cut(self, held: Arrays) -> bool:
        """Return whether the part that some device reduces is no run of the part that it holds."""
        sizes = (part[:, 1] - part[:, 0] for part in self.middle)
        pairs = (pair for pair in zip(sizes, held, strict=True) if (pair[0] > 0).all())
        return not all(is_run(size, np.array(array.shape)) for size, array in pairs)

    def _pack(self, size_bytes: np.ndarray) -> None:
        """Count that devices move so many bytes within their memories, to staging or from there."""
        self.packed_bytes.append(size_bytes)
        self.staging_bytes += size_bytes

    def _combine(self, pieces: Sequence[Array]) -> Array:
        """Combine terms in the order given."""
        total = pieces[0]
        for piece in pieces[1:]:
            total = combine(self.xp, str(self.plan.source.monoid), total, piece)
        return total

    def _reduce_scatter(self, held: Arrays) -> Arrays:
        """Reduce-scatter the parts: each device reads its next set from every peer of the step, step by step."""
        parts, before = held, scatter_sets(self.plan, self.shape, self.mesh_shape, 0)
        for done, step in enumerate(self.plan.scatter, start=1):
            after = scatter_sets(self.plan, self.shape, self.mesh_shape, done)
            received_bytes = np.zeros_like(self.staging_bytes)
            combined: Memo[Array] = Memo()
            reduced, incoming = [], []
            sent = np.zeros_like(self.staging_bytes)
            for device, members in enumerate(group_members(self.mesh_shape, step[1])):
                pieces = [set_part(parts[m], before[m], after[device]) for m in members]
                for member, piece in zip(members, pieces, strict=True):
                    self._receive(received_bytes, device, int(member), piece)
                    sent[member] += piece.nbytes if member != device else 0
                incoming.append(max(p.nbytes for p in pieces))
                reduced.append(combined.get(pieces, partial(self._combine, pieces)))
            if done == 1:
                self.staging_bytes += per_device(incoming)
                if len(self.plan.scatter) > 1:
                    self.staging_bytes += per_device([r.nbytes for r in reduced])
                if self._is_cut(held):
                    self._pack(sent)
            self.exchanges.append(
                Exchange(reduce_round(step, "reduce_scatter", self.mesh_shape), received_bytes)
            )
            parts, before = reduced, after
        return parts

    def _all_reduce(self, parts: Arrays) -> Arrays:
        """All-reduce the parts: reduce slices of the flattened shard axis by axis, gather them in reverse order."""
        flat = [p.reshape(-1) for p in parts]
        begin = np.zeros_like(self.staging_bytes)
        slices = flat_slices(per_device([len(f) for f in flat]), self.plan.reduce, self.mesh_shape)
        received = [np.zeros_like(self.staging_bytes) for _ in self.plan.reduce]
        for number, (step, (start, end)) in enumerate(zip(self.plan.reduce, slices, strict=True)):
            combined: Memo[Array] = Memo()
            reduced = []
            for device, members in enumerate(group_members(self.mesh_shape, step[1])):
                low, high = int(start[device] - begin[device]), int(end[device] - begin[device])
                pieces = [flat[m][low:high] for m in members]
                for member, piece in zip(members, pieces, strict=True):
                    self._receive(received[number], device, int(member), piece)
                reduced.append(combined.get(pieces, partial(self._combine, pieces)))
            if number == 0 and not self.plan.scatter:
                self.staging_bytes += per_device([r.nbytes for r in reduced])
            flat, begin = reduced, start
        for step, received_bytes in zip(reversed(self.plan.reduce), reversed(received), strict=True):
            flat = self._gather(flat, step, received_bytes)
        self.exchanges += [
            Exchange(reduce_round(step, "all_reduce", self.mesh_shape), received_bytes)
            for step, received_bytes in zip(self.plan.reduce, received, strict=True)
        ]
        return [f.reshape(p.shape) for f, p in zip(flat, parts, strict=True)]

    def _gather(self, flat: Arrays, step: tuple[str, tuple[str, ...]], received_bytes: np.ndarray) -> Arrays:
        """Concatenate the slices of the step's members, into one array for all of them."""
        joined: Memo[Array] = Memo()
        result = []
        for device, members in enumerate(group_members(self.mesh_shape, step[1])):
            pieces = [flat[m] for m in members]
            for member, piece in zip(members, pieces, strict=True):
                self._receive(received_bytes, device, int(member), piece)
            result.append(joined.get(pieces, partial(self.xp.concat, pieces, 0)))
        return result

    def _fetch(self, held: Arrays, between: np.ndarray) -> tuple[Arrays, CopyCounts]:
        """Build the needed boxes from pieces of the middle ones, fetching each missing element once.

        What comes directly is counted in `between` `(devices, devices)`; what is packed before counts as reduction.
        """
        transfers = fetch_transfers(self.plan, self.shape, self.mesh_shape)
        mine: list[list[Transfer]] = [[] for _ in self.devices]
        for t in transfers:
            mine[t.target].append(t)
        direct = np.zeros((len(self.mesh_shape.axes), len(self.devices)), dtype=np.int64)
        gathered = np.zeros_like(direct)
        kept_bytes, team_links = np.zeros_like(self.staging_bytes), no_links(len(self.devices))
        split = any(t.gathered for t in transfers)
        sent_in_order = lands_in_order = True
        known: Memo[Array] = Memo()
        result = []
        for device, all_mine in enumerate(mine):
            own = sorted((t for t in all_mine if not t.gathered), key=lambda t: t.box)
            pieces = [held[t.source][self._place(t, self.middle[t.source])] for t in own]
            assemble = partial(self._assembled, device, own, pieces, self.xp.dtype_of(held[device]))
            # Devices that read the same memory share the result; not one that replicas complete afterwards.
            boxes_read = (self.wanted[device].tobytes(), *(t.box for t in own))
            result.append(assemble() if split else known.get(pieces, assemble, boxes_read))
            part = self.wanted[device, :, 1] - self.wanted[device, :, 0]
            for t, piece in zip(own, pieces, strict=True):
                self._count(t, piece, direct, between)
                lands_in_order &= bool(is_run(np.array(piece.shape), part))
                if not self._is_own(t):
                    sent_in_order &= bool(is_run(*shapes_of(piece, held[t.source])))
                elif not self.plan.relayout:
                    kept_bytes[device] += piece.nbytes
        for t in transfers:
            if t.gathered:
                piece = result[t.source][self._place(t, self.wanted[t.source])]
                _write(result[t.target][self._place(t, self.wanted[t.target])], piece, t)
                self._count(t, piece, gathered, team_links)
        if not sent_in_order:
            self._pack(self._packed(transfers, held))
        exchanges = fetch_exchanges(self.plan, self.shape, self.mesh_shape, direct, gathered)
        landed = per_device([a.nbytes for a in result])
        nothing = np.zeros_like(landed)
        if lands_in_order:
            counts = CopyCounts(landed, nothing, exchanges, team_links, (), kept_bytes)
        else:
            counts = CopyCounts(landed, landed, exchanges, team_links, (landed,), nothing)
        return _shared(result) if split else result, counts

    def _packed(self, transfers: Sequence[Transfer], held: Arrays) -> np.ndarray:
        """Count the bytes that devices pack: as many as the one that sends the most, of its part at most.

        What others fetch of a part, by whichever way, is shared by the devices that hold it.
        """
        holders: dict[bytes, list[int]] = {}
        for device, box in enumerate(self.middle):
            holders.setdefault(box.tobytes(), []).append(device)
        fetched = dict.fromkeys(holders, 0)
        origin = {t.box: self.middle[t.source].tobytes() for t in transfers if not t.gathered}
        for t in transfers:
            if self.plan.route is not None or origin[t.box] != self.middle[t.target].tobytes():
                fetched[origin[t.box]] += t.end - t.start
        shares = (-(-fetched[box] // len(same)) for box, same in holders.items())
        parts = (held[same[0]] for same in holders.values())
        most = max(min(n * part.itemsize, part.nbytes) for n, part in zip(shares, parts, strict=True))
        return per_device([min(part.nbytes, most) for part in held])

    def _assembled(self, device: int, transfers: Sequence[Transfer], pieces: Arrays, dtype: str) -> Array:
        """Build a device's needed box from the pieces that it holds or receives."""
        low, high = self.wanted[device].T
        result = self.xp.empty((high - low).tolist(), dtype)
        for t, piece in zip(transfers, pieces, strict=True):
            _write(result[self._place(t, self.wanted[device])], piece, t)
        return result

    @staticmethod
    def _count(transfer: Transfer, piece: Array, received_bytes: np.ndarray, link_bytes: np.ndarray) -> None:
        """Count the elements `[start, end)` of a piece by the axis they cross, and by link; own ones cross none."""
        if transfer.axis >= 0:
            for part in flat_parts(piece.shape, transfer.start, transfer.end):
                size_bytes = piece[part].nbytes
                received_bytes[transfer.axis, transfer.target] += size_bytes
                link_bytes[transfer.source, transfer.target] += size_bytes

    @staticmethod
    def _place(transfer: Transfer, box: np.ndarray) -> tuple[EllipsisType | slice, ...]:
        """Return the index of the transfer's box inside a local buffer that holds `box`."""
        starts = box[:, 0].tolist()
        # With an ellipsis, a piece of rank 0 is an array and no scalar.
        return (..., *(slice(a - s, b - s) for (a, b), s in zip(transfer.box, starts, strict=True)))


def shapes_of(*arrays: Array) -> tuple[np.ndarray, ...]:
    """Return the shapes of arrays, as arrays."""
    return tuple(np.array(array.shape, dtype=np.int64) for array in arrays)


def _write(into: Array, piece: Array, transfer: Transfer) -> None:
    """Move elements `[start, end)` of the flattened piece to their places."""
    for part in flat_parts(piece.shape, transfer.start, transfer.end):
        into[part] = piece[part]


def _shared(arrays: Arrays) -> Arrays:
    """Replace equal arrays by one of them."""
    different: Arrays = []
    result = []
    for array in arrays:
        known = next((d for d in different if same_bits(d, array)), None)
        if known is None:
            different.append(array)
        result.append(array if known is None else known)
    return result
