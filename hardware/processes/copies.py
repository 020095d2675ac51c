"""Copies between processes, phase by phase: what the plan of a copy moves is sent and received.

A copy begins by posting the messages of its first phase, and goes on when it is waited for. Terms are combined in the
order of the members' positions, as the simulator has them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import EllipsisType

import numpy as np

from tapestry.hardware.processes.group import Group, Message
from tapestry.hardware.simulator.parts import box_part, emptied, flat_parts, set_part
from tapestry.teg.arrays import Array
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan, flat_slices, group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes, volumes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers, scatter_sets

# By device, of the devices whose shares a process does.
Parts = dict[int, Array]
Phase = Generator[None, None, Parts]


class RankCopy:
    """A copy of a tensor of `shape`, as one process takes part in it, from the parts `held` by its devices."""

    def __init__(
        self,
        group: Group,
        plan: CopyPlan,
        shape: tuple[int, ...],
        dtype: str,
        mesh_shape: MeshShape,
        held: Mapping[int, Array],
    ) -> None:
        self.group, self.xp = group, group.xp
        self.plan, self.shape, self.dtype, self.mesh_shape = plan, shape, dtype, mesh_shape
        self.middle = boxes(plan.middle, shape, mesh_shape)
        self.wanted = boxes(plan.needed, shape, mesh_shape)
        self.result: Parts = {}
        self.phases = self._run(dict(held))
        next(self.phases, None)

    def finish(self) -> Parts:
        """Run what is left of the copy, and return its result by device.

        Raises:
            ConnectionLost: another process has ended, or has left the group.
        """
        for _ in self.phases:
            pass
        return self.result

    def _run(self, parts: Parts) -> Generator[None, None, None]:
        if self.plan.scatter:
            parts = yield from self._reduce_scatter(parts)
        elif self.plan.reduce:
            held = boxes(self.plan.source, self.shape, self.mesh_shape)
            parts = {d: box_part(a, held[d, :, 0].tolist(), self.middle[d]) for d, a in parts.items()}
        if self.plan.reduce:
            parts = yield from self._all_reduce(parts)
        if self.plan.fetch:
            parts = yield from self._fetch(parts)
        for device, array in parts.items():
            shape = (self.wanted[device, :, 1] - self.wanted[device, :, 0]).tolist()
            self.result[device] = emptied(array, shape) if 0 in array.shape else array

    def _moved(
        self, sizes: Iterable[tuple[int, int, tuple[int, ...]]], piece: Callable[[int, int], Array]
    ) -> Generator[None, None, dict[int, list[Array]]]:
        """Move `piece(source, target)` for each `(source, target, shape)`; return by target what it gets, in order."""
        messages = [Message(s, t, shape, self.dtype, partial(piece, s, t)) for s, t, shape in sizes]
        posted = self.group.post(messages)
        yield
        received: dict[int, list[Array]] = {device: [] for device in self.group.devices}
        for message, array in zip(messages, posted.wait(), strict=True):
            if array is not None:
                received[message.target].append(array)
        return received

    def _pairs(self, step: CollectiveStep) -> Iterator[tuple[int, int]]:
        """Yield who sends to whom in one step, own parts included, by target and then by the sender's position."""
        for target, members in enumerate(group_members(self.mesh_shape, step[1]).tolist()):
            yield from ((source, target) for source in members)

    def _combine(self, pieces: list[Array]) -> Array:
        """Combine terms in the order given."""
        total = pieces[0]
        for piece in pieces[1:]:
            total = combine(self.xp, str(self.plan.source.monoid), total, piece)
        return total

    def _reduce_scatter(self, parts: Parts) -> Phase:
        """Reduce-scatter the parts: each device reads its next set from every peer of the step, step by step."""
        before = scatter_sets(self.plan, self.shape, self.mesh_shape, 0)
        for done, step in enumerate(self.plan.scatter, start=1):
            after = scatter_sets(self.plan, self.shape, self.mesh_shape, done)
            sizes = [(s, t, tuple(map(len, after[t]))) for s, t in self._pairs(step)]
            received = yield from self._moved(sizes, partial(_of_sets, parts, before, after))
            parts = {device: self._combine(pieces) for device, pieces in received.items()}
            before = after
        return parts

    def _all_reduce(self, parts: Parts) -> Phase:
        """All-reduce the parts: reduce slices of the flattened shard axis by axis, gather them in reverse order."""
        whole = volumes(self.middle)
        slices = flat_slices(whole, self.plan.reduce, self.mesh_shape)
        flat, begin = {device: array.reshape(-1) for device, array in parts.items()}, np.zeros_like(whole)
        for step, (start, end) in zip(self.plan.reduce, slices, strict=True):
            sizes = [(s, t, (int(end[t] - start[t]),)) for s, t in self._pairs(step)]
            received = yield from self._moved(sizes, partial(_of_slices, flat, start - begin, end - begin))
            flat, begin = {device: self._combine(pieces) for device, pieces in received.items()}, start
        for step, (start, end) in zip(reversed(self.plan.reduce), reversed(slices), strict=True):
            sizes = [(s, t, (int(end[s] - start[s]),)) for s, t in self._pairs(step)]
            received = yield from self._moved(sizes, partial(_whole, flat))
            flat = {device: self.xp.concat(pieces, 0) for device, pieces in received.items()}
        return {device: array.reshape(parts[device].shape) for device, array in flat.items()}

    def _fetch(self, held: Parts) -> Phase:
        """Build the needed boxes from pieces of the middle ones, fetching each missing element once."""
        transfers = fetch_transfers(self.plan, self.shape, self.mesh_shape)
        sizes = np.subtract(self.wanted[:, :, 1], self.wanted[:, :, 0])
        result = {d: self.xp.empty(sizes[d].tolist(), self.dtype) for d in held}
        direct = [t for t in transfers if not t.gathered]
        yield from self._written(direct, held, self.middle, result)
        gathered = [t for t in transfers if t.gathered]
        if gathered:
            yield from self._written(gathered, result, self.wanted, result)
        return result

    def _written(
        self, transfers: list[Transfer], held: Parts, places: np.ndarray, into: Parts
    ) -> Generator[None, None, None]:
        """Move elements `[start, end)` of boxes, from parts that hold `places`, and write them to their places."""

        def run(t: Transfer) -> Array:
            return held[t.source][_place(t, places[t.source])].reshape(-1)[t.start : t.end]

        messages = [
            Message(t.source, t.target, (t.end - t.start,), self.dtype, partial(run, t)) for t in transfers
        ]
        posted = self.group.post(messages)
        yield
        for t, array in zip(transfers, posted.wait(), strict=True):
            if array is None:
                continue
            box = into[t.target][_place(t, self.wanted[t.target])]
            first = 0
            for part in flat_parts(box.shape, t.start, t.end):
                count = int(np.prod(box[part].shape, dtype=np.int64))
                box[part] = array[first : first + count].reshape(box[part].shape)
                first += count


Sets = Sequence[tuple[np.ndarray, ...]]


def _of_sets(parts: Parts, before: Sets, after: Sets, source: int, target: int) -> Array:
    return set_part(parts[source], before[source], after[target])


def _of_slices(flat: Parts, low: np.ndarray, high: np.ndarray, source: int, target: int) -> Array:
    return flat[source][int(low[target]) : int(high[target])]


def _whole(flat: Parts, source: int, target: int) -> Array:
    return flat[source]


def _place(transfer: Transfer, box: np.ndarray) -> tuple[EllipsisType | slice, ...]:
    """Return the index of the transfer's box inside a local buffer that holds `box`."""
    starts = box[:, 0].tolist()
    return (..., *(slice(a - s, b - s) for (a, b), s in zip(transfer.box, starts, strict=True)))
