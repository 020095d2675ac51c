"""The plain count of one copy, with sets of coordinates: the oracle of `costmodel.resharding_tables`.

Used by the plain model (`costmodel.reference`) alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import copy_ticks, move_ticks
from tapestry.teg.sharding.copies import (
    CopyPlan,
    Round,
    fetch_round,
    flat_slices,
    reduce_round,
    scatter_members,
)
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes, volumes


class CopyCost(NamedTuple):
    """The cost of one copy: its ticks, the mesh axes it crosses, traffic, per device what is staged, and what devices
    move within their memories, each byte counted once.

    Of a copy between stages, `staging_bytes` are those of the sending one, `landing_bytes` those of the other one.
    """

    ticks: int
    axes: frozenset[str]
    traffic_bytes: int
    staging_bytes: list[int]
    landing_bytes: list[int]
    moved_bytes: int


class CopyCounter:
    """A counter of one copy with sets: the elements that a device holds or lacks, and the level they come from.

    `rounds` are those on links, each with the most that a device receives, `packing_ticks` are those of moves within
    memories before and after.
    """

    def __init__(self, plan: CopyPlan, shape: tuple[int, ...], item: int, mesh: Mesh) -> None:
        self.plan, self.shape, self.item, self.mesh = plan, shape, item, mesh
        self.mesh_shape = MeshShape(mesh.axis_sizes)
        self.source = boxes(plan.source, shape, self.mesh_shape)
        self.middle = boxes(plan.middle, shape, self.mesh_shape)
        self.wanted = boxes(plan.needed, shape, self.mesh_shape)
        self.middle_sizes: list[int] = volumes(self.middle).tolist()
        self.rounds: list[tuple[Round, int]] = []
        self.packing_ticks = 0
        self.traffic = self.moved = 0
        self.staging = [0] * mesh.device_count
        self.landing = self.staging if plan.route is None else [0] * mesh.device_count

    def count(self) -> CopyCost:
        kept = 0
        self._reductions()
        if self.plan.fetch:
            if self.plan.reduces:
                self._stage(self.middle_sizes)
            kept = self._assembly()
        on_links = copy_ticks(self.mesh, [r for r, _ in self.rounds], [most for _, most in self.rounds])
        return CopyCost(
            max(int(on_links), kept) + self.packing_ticks,
            frozenset(each.axis for each, _ in self.rounds),
            self.traffic * self.item,
            [size * self.item for size in self.staging],
            [0 if self.plan.route is None else size * self.item for size in self.landing],
            self.moved * self.item,
        )

    def _assembly(self) -> int:
        """Count the fetch, packing before it and repacking after it; return the ticks of moving what devices have."""
        if any(_is_cut(self._piece(d, m), self.middle[m]) for d in self.devices for m in self._senders(d)):
            self._pack(self._sent())
        self._fetch()
        if any(_is_cut(self._piece(d, m), self.wanted[d]) for d in self.devices for m in self.devices):
            self._pack(volumes(self.wanted).tolist(), self.landing)
            return 0
        if self.plan.route is not None:
            return 0
        own = [0 if self.plan.relayout else int(volumes(self._piece(d, d))) for d in self.devices]
        self.moved += sum(own)
        return int(move_ticks(self.mesh.device, max(own) * self.item))

    @property
    def devices(self) -> range:
        return range(self.mesh.device_count)

    def _piece(self, d: int, m: int) -> np.ndarray:
        """Return what device `d` needs of the part of device `m`, as a box; empty ones end where they start."""
        piece: np.ndarray = self._pieces[d, m]
        return piece

    @cached_property
    def _pieces(self) -> np.ndarray:
        wanted, middle = self.wanted[:, None], self.middle[None]
        low = np.maximum(wanted[..., 0], middle[..., 0])
        return np.stack([low, np.maximum(low, np.minimum(wanted[..., 1], middle[..., 1]))], axis=-1)

    def _senders(self, d: int) -> list[int]:
        """Return the devices from which `d` may fetch: those that hold another part than it holds itself."""
        if self.plan.route is not None:
            return list(self.devices)
        return [m for m in self.devices if (self.middle[m] != self.middle[d]).any()]

    def _sent(self) -> list[int]:
        """Count what devices pack: as much as the one that sends the most, and at most their parts.

        A device sends what devices with other parts need of its own; those with the same part share this.
        """
        sizes, most = self.middle_sizes, 0
        for m in self.devices:
            has = [(self.middle[m] == self.middle[d]).all() for d in self.devices]
            needy = self.devices if self.plan.route is not None else [d for d in self.devices if not has[d]]
            needed = sum(int(volumes(self._piece(d, m))) for d in needy)
            most = max(most, min(sizes[m], -(-needed // sum(has))))
        return [min(size, most) for size in sizes]

    def _stage(self, sizes: Iterable[int], staging: list[int] | None = None) -> None:
        staging = self.staging if staging is None else staging
        staging[:] = [s + int(size) for s, size in zip(staging, sizes, strict=True)]

    def _pack(self, sizes: Sequence[int], staging: list[int] | None = None) -> None:
        """Count that every device reads so many elements and writes them to staging."""
        self.packing_ticks += int(move_ticks(self.mesh.device, int(max(sizes)) * self.item))
        self.moved += int(sum(sizes))
        self._stage(sizes, staging)

    def _round(self, around: Round, received: list[int]) -> None:
        self.traffic += sum(received)
        self._time(around, max(received))

    def _time(self, around: Round, most: int) -> None:
        if most:
            self.rounds.append((around, most * self.item))

    def _reductions(self) -> None:
        mesh_shape, plan = self.mesh_shape, self.plan
        size = volumes(self.middle)
        is_cut = any(_is_cut(*pair) for pair in zip(self.middle, self.source, strict=True))
        first = True
        for done, step in enumerate(plan.scatter, start=1):
            members = scatter_members(mesh_shape, plan.scatter, done)
            carried = [int(sum(size[m] for m in members[d])) for d in range(mesh_shape.device_count)]
            around = reduce_round(step, "reduce_scatter", mesh_shape)
            self._round(around, [(around.members - 1) * c for c in carried])
            if first:
                copies = 2 if len(plan.scatter) > 1 else 1
                self.staging[:] = [copies * c for c in carried]
                if is_cut:
                    peers = scatter_members(mesh_shape, plan.scatter, 0)
                    self._pack([int(sum(size[m] for m in peers[d])) - carried[d] for d in self.devices])
                first = False
        if first and is_cut:
            self._pack(size.tolist())
        spans = [(np.zeros_like(size), size)]
        for step, (start, end) in zip(plan.reduce, flat_slices(size, plan.reduce, mesh_shape), strict=True):
            before = spans[-1][1] - spans[-1][0]
            mine = end - start
            spans.append((start, end))
            around = reduce_round(step, "all_reduce", mesh_shape)
            own, whole = mine.tolist(), before.tolist()
            received = [(around.members - 1) * part + n - part for part, n in zip(own, whole, strict=True)]
            self._round(around, received)
            if first:
                self._stage(mine)
                first = False

    def _fetch(self) -> None:
        mesh_shape = self.mesh_shape
        names = [name for name, _ in mesh_shape.axes]
        slow = {a: [0] * mesh_shape.device_count for a in names}
        gathered = dict.fromkeys(names, 0)
        for d in range(mesh_shape.device_count):
            near, nearest = self._reach(d, len(names)), len(names)
            if self.plan.route is not None:  # nothing is here; all of it crosses the way between the stages
                near, nearest = 0, names.index(self.plan.route.axis) + 1
            reads = dict.fromkeys(names, 0)
            for a in reversed(range(nearest)):
                have = self._reach(d, a)
                missing, near = have - near, have
                if not missing:
                    continue
                self.traffic += missing
                team = self._team(d, a)
                share = -(-missing // len(team))
                slow[names[a]][d] += share
                for axis, others in Counter(self._slowest_between(m, d) for m in team if m != d).items():
                    reads[names[axis]] += min(missing, share * others)
            gathered = {name: max(gathered[name], reads[name]) for name in names}
        for name in names:
            around = fetch_round(self.plan.middle, self.plan.needed, self.shape, name, mesh_shape)
            if self.plan.route is not None and self.plan.route.axis == name:
                around = Round(name, "send", 2, self.plan.route.distance)
            self._time(around, max(slow[name]))
        for name in names:
            used = {a for split in self.plan.needed.dims for a in split.axes}
            mine = tuple(s.name for s in mesh_shape.sub_axes if s.axis == name)
            free = tuple(a for a in mine if a not in used)
            around = reduce_round((name, free or mine), "all_gather", mesh_shape)
            self._time(around, gathered[name])

    def _reach(self, d: int, level: int) -> int:
        """Count the elements that `d` needs and that are held by devices equal to it on the `level` slowest axes."""
        place = self.mesh_shape.axis_coordinates
        near = [
            m for m in range(self.mesh_shape.device_count) if (place[m, :level] == place[d, :level]).all()
        ]
        near = [m for m in near if self.middle_sizes[m] > 0]
        count = 1
        for k in range(len(self.shape)):
            held = {x for m in near for x in range(*self.middle[m, k])} if near else set()
            count *= len(held & set(range(*self.wanted[d, k])))
        return count

    def _team(self, d: int, a: int) -> list[int]:
        place = self.mesh_shape.axis_coordinates
        return [
            m
            for m in range(self.mesh_shape.device_count)
            if (place[m, : a + 1] == place[d, : a + 1]).all() and (self.wanted[m] == self.wanted[d]).all()
        ]

    def _slowest_between(self, m: int, d: int) -> int:
        place = self.mesh_shape.axis_coordinates
        return int(np.flatnonzero(place[m] != place[d])[0])


def _is_cut(piece: np.ndarray, part: np.ndarray) -> bool:
    """Return whether a piece, `(rank, 2)`, is no run of a part: it is cut in a dimension behind several rows."""
    sizes = piece[:, 1] - piece[:, 0]
    if (sizes <= 0).any():
        return False
    whole = part[:, 1] - part[:, 0]
    return any(sizes[k] < whole[k] and np.prod(sizes[:k]) > 1 for k in range(len(sizes)))
