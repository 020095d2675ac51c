"""The plain count of one copy, with sets of coordinates: the oracle of `costmodel.resharding_tables`.

Used by the plain model (`costmodel.reference`) alone.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import step_ticks
from tapestry.teg.sharding.copies import CopyPlan, fetch_round, flat_slices, reduce_round, scatter_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes, volumes


class CopyCost(NamedTuple):
    """The cost of one copy: ticks on links, traffic, per device what is staged, and of that what is repacked."""

    ticks: int
    traffic_bytes: int
    staging_bytes: list[int]
    landed_bytes: list[int]


class CopyCounter:
    """A counter of one copy with sets: the elements that a device holds or lacks, and the level they come from."""

    def __init__(self, plan: CopyPlan, shape: tuple[int, ...], item: int, mesh: Mesh) -> None:
        self.plan, self.shape, self.item, self.mesh = plan, shape, item, mesh
        self.mesh_shape = MeshShape(mesh.axis_sizes)
        self.middle = boxes(plan.middle, shape, self.mesh_shape)
        self.wanted = boxes(plan.needed, shape, self.mesh_shape)
        self.ticks = 0
        self.traffic = 0
        self.staging = [0] * mesh.device_count

    def count(self) -> CopyCost:
        landed = [0] * self.mesh.device_count
        self._reductions()
        if self.plan.fetch:
            if self.plan.reduces:
                self.staging = [s + int(v) for s, v in zip(self.staging, volumes(self.middle), strict=True)]
            self._fetch()
            if self._is_repacked():
                landed = [int(v) for v in volumes(self.wanted)]
        staging = [(s + size) * self.item for s, size in zip(self.staging, landed, strict=True)]
        return CopyCost(self.ticks, self.traffic * self.item, staging, [s * self.item for s in landed])

    def _is_repacked(self) -> bool:
        """Return whether a device gets a piece that is no run of its part: cut in a dimension behind several rows."""
        for wanted in self.wanted:
            for held in self.middle:
                piece = np.minimum(wanted[:, 1], held[:, 1]) - np.maximum(wanted[:, 0], held[:, 0])
                if (piece <= 0).any():
                    continue
                for k, size in enumerate(wanted[:, 1] - wanted[:, 0]):
                    if piece[k] < size and np.prod(piece[:k]) > 1:
                        return True
        return False

    def _round(self, axis: str, kind: str, members: int, stride: int, received: list[int]) -> None:
        self.traffic += sum(received)
        self._time(axis, kind, members, stride, max(received))

    def _time(self, axis: str, kind: str, members: int, stride: int, most: int) -> None:
        if most:
            self.ticks += int(step_ticks(self.mesh.axis(axis), kind, members, most * self.item, stride))

    def _reductions(self) -> None:
        mesh_shape, plan = self.mesh_shape, self.plan
        size = volumes(self.middle)
        first = True
        for done, step in enumerate(plan.scatter, start=1):
            members = scatter_members(mesh_shape, plan.scatter, done)
            carried = [int(sum(size[m] for m in members[d])) for d in range(mesh_shape.device_count)]
            around = reduce_round(step, "reduce_scatter", mesh_shape)
            self._round(
                around.axis,
                around.kind,
                around.members,
                around.stride,
                [(around.members - 1) * c for c in carried],
            )
            if first:
                copies = 2 if len(plan.scatter) > 1 else 1
                self.staging = [copies * c for c in carried]
                first = False
        spans = [(np.zeros_like(size), size)]
        for step, (start, end) in zip(plan.reduce, flat_slices(size, plan.reduce, mesh_shape), strict=True):
            before = spans[-1][1] - spans[-1][0]
            mine = end - start
            spans.append((start, end))
            scatter = reduce_round(step, "reduce_scatter", mesh_shape)
            gather = reduce_round(step, "all_gather", mesh_shape)
            self._round(
                scatter.axis,
                scatter.kind,
                scatter.members,
                scatter.stride,
                [int((scatter.members - 1) * v) for v in mine],
            )
            self._round(
                gather.axis, gather.kind, gather.members, gather.stride, [int(v) for v in before - mine]
            )
            if first:
                self.staging = [int(v) for v in mine]
                first = False

    def _fetch(self) -> None:
        mesh_shape = self.mesh_shape
        names = [name for name, _ in mesh_shape.axes]
        slow = {a: [0] * mesh_shape.device_count for a in names}
        gathered = dict.fromkeys(names, 0)
        for d in range(mesh_shape.device_count):
            near = self._reach(d, len(names))
            reads = dict.fromkeys(names, 0)
            for a in reversed(range(len(names))):
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
            around = fetch_round(self.plan.middle, self.plan.needed, name, mesh_shape)
            self._time(name, around.kind, around.members, around.stride, max(slow[name]))
        for name in names:
            used = {a for split in self.plan.needed.dims for a in split.axes}
            mine = tuple(s.name for s in mesh_shape.sub_axes if s.axis == name)
            free = tuple(a for a in mine if a not in used)
            around = reduce_round((name, free or mine), "all_gather", mesh_shape)
            self._time(name, around.kind, around.members, around.stride, gathered[name])

    def _reach(self, d: int, level: int) -> int:
        """Count the elements that `d` needs and that are held by devices equal to it on the `level` slowest axes."""
        place = self.mesh_shape.axis_coordinates
        near = [
            m for m in range(self.mesh_shape.device_count) if (place[m, :level] == place[d, :level]).all()
        ]
        near = [m for m in near if volumes(self.middle)[m] > 0]
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
