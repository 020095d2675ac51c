"""The reference cost model: slow and obvious, over the expanded program, one device at a time.

It is the oracle of the fast path. Bytes are counted with sets of coordinates rather than by formula, memory
by keeping the live buffers in a dictionary. It follows the conventions "received bytes", "lifetimes" and "declared
reads" of `docs/sharding.md` by code of its own; the expanded program has carried out the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import base_flops, tile_sizes
from tapestry.costmodel.plan_space import LIVES_ON
from tapestry.costmodel.resources import Resource, resources_of
from tapestry.costmodel.tally import CostTally, amounts_per_device
from tapestry.hardware.layouts.native import accessed_bytes, native_named, stored_bytes
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import block_ticks, energy_pj, step_ticks
from tapestry.teg.costs import amounts
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Graph
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import flops_of, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.copies import CopyPlan, fetch_round, flat_slices, reduce_round, scatter_members
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.spec import boxes, volumes


class CopyCost(NamedTuple):
    """The cost of one copy: ticks on links, traffic, per device what is staged, and of that what is repacked."""

    ticks: int
    traffic_bytes: int
    staging_bytes: list[int]
    landed_bytes: list[int]


Counted = dict[tuple[CopyPlan, tuple[int, ...], int], CopyCost]


def reference_cost(
    graph: Graph,
    placements: Placements,
    mesh: Mesh,
    compute_dtype: str | None = None,
    counted: Counted | None = None,
    resources: Sequence[Resource] | None = None,
) -> CostTally:
    """Compute the cost of a plan. Equal copies are counted once; `counted` keeps them for more plans on `mesh`.

    `resources` are those of the program's own that are counted: by default all that its cost tables name.
    """
    program = expand(graph, placements, MeshShape(mesh.axis_sizes))
    used = mesh.part(program.mesh_shape.axes)
    tally = _Plain(graph, program, used, compute_dtype, {} if counted is None else counted).run()
    for resource in resources_of(graph) if resources is None else resources:
        per_device = amounts_per_device(graph, placements, program.mesh_shape, resource)
        tally.resources |= zip(resource.columns, (sum(per_device), max(per_device)), strict=True)
    return tally


class _Plain:
    def __init__(
        self,
        graph: Graph,
        program: ExplicitGraph,
        mesh: Mesh,
        compute_dtype: str | None,
        counted: Counted,
    ) -> None:
        self.graph, self.program, self.mesh, self.compute_dtype = graph, program, mesh, compute_dtype
        self.counted = counted
        self.native = native_named(mesh.device.layouts[0])
        self.devices = range(mesh.device_count)
        self.live: dict[tuple[str, str], list[int]] = {}
        self.peak = [0] * mesh.device_count
        self.highest = -1
        self.flops = [0] * mesh.device_count
        self.tally = CostTally()
        self.sink_buffers = {
            r.buffer for s in program.slots if s.step.definition.operator == "sink" for r in s.step.reads
        }

    def run(self) -> CostTally:
        last_read, last_copied = self._last_uses()
        for key in self.program.sources.values():
            self._allocate((key, "buffer"), self._sizes(key))
        self._sample()
        compute = link = 0
        done: dict[str, int] = {}
        for k, slot in enumerate(self.program.slots):
            for copy in slot.issued:
                self._allocate((copy.result, "buffer"), self._sizes(copy.result))
                ticks, traffic, staging = self._copy(copy)
                self._allocate((copy.result, "staging"), staging)
                link = max(link, compute) + ticks
                done[copy.result] = link
                self.tally.traffic_bytes += traffic
                if self.mesh.device.missing_energy_figure is None:
                    self.tally.energy_pj += int(
                        energy_pj(self.mesh.device, "float32", 0, 0, traffic, kind="vector")
                    )
            self._sample()
            for key in slot.waited:
                compute = max(compute, done[key])
                del self.live[(key, "staging")]
            self._free(k, last_read, last_copied, waiting=True)
            for out in slot.step.outputs:
                self._allocate((out, "buffer"), self._sizes(out))
            self._sample()
            compute += self._block(slot.step)
            self._free(k, last_read, last_copied, waiting=False)
        return self._totals(compute)

    def _last_uses(self) -> tuple[dict[str, int], dict[str, int]]:
        """Find per buffer the last slot whose block reads it, and the last slot that waits for a copy of it."""
        read: dict[str, int] = {}
        copied: dict[str, int] = {}
        for k, slot in enumerate(self.program.slots):
            for copy in slot.issued:
                copied[copy.source] = max(copied.get(copy.source, -1), copy.wait)
            for r in slot.step.reads:
                read[r.buffer] = k
        for k, slot in enumerate(self.program.slots):
            for out in slot.step.outputs:
                if out not in read and out not in copied:
                    read[out] = k
        return read, copied

    def _free(self, k: int, read: dict[str, int], copied: dict[str, int], waiting: bool) -> None:
        for key, kind in list(self.live):
            if kind != "buffer" or self._stays(key):
                continue
            last_block, last_wait = read.get(key, -1), copied.get(key, -1)
            if last_block < 0 and last_wait < 0:
                continue
            last_waits = waiting and last_wait == k and last_block < k
            last_runs = not waiting and last_block == k and last_wait <= k
            if last_waits or last_runs:
                del self.live[(key, kind)]

    def _stays(self, key: str) -> bool:
        if key in self.sink_buffers:
            return True
        if key in self.program.sources:
            lasts = self.graph.producers[key].definition.get("role") in LIVES_ON
            return lasts and all(s.definition.get("carries") != key for s in self.graph.sinks)
        return False

    def _sizes(self, key: str) -> list[int]:
        buffer = self.program.buffers[key]
        return [self._stored(buffer, box) for box in buffer.boxes]

    def _stored(self, buffer: Buffer, box: np.ndarray) -> int:
        """Compute the bytes that a box takes in the layout of a buffer."""
        shape = np.maximum(box[:, 1] - box[:, 0], 0)
        return int(stored_bytes(self.native, buffer.layout, shape, buffer.dtype))

    def _allocate(self, key: tuple[str, str], sizes: list[int]) -> None:
        self.live[key] = sizes

    def _sample(self) -> None:
        now = [sum(sizes[d] for sizes in self.live.values()) for d in self.devices]
        self.peak = [max(a, b) for a, b in zip(self.peak, now, strict=True)]
        if max(now) > self.highest:
            self.highest = max(now)
            tensors = {self.program.buffers[key].tensor for key, kind in self.live if kind == "buffer"}
            logical = sum(self.graph.tensors[t].type.size_bytes for t in tensors)
            self.tally.memory_waste_bytes = sum(now) - logical

    def _copy(self, copy: CopyStep) -> tuple[int, int, list[int]]:
        """Compute ticks, traffic in bytes and staging bytes per device of one copy; count the energy of its moves."""
        source = self.program.buffers[copy.source]
        shape, item = self.graph.tensors[source.tensor].shape, item_bytes(source.dtype)
        key = (copy.plan, shape, item)
        if key not in self.counted:
            self.counted[key] = _CopyCounter(copy.plan, shape, item, self.mesh).count()
        counts = self.counted[key]
        ticks = counts.ticks + self._move([2 * size for size in counts.landed_bytes], source.dtype)
        ticks += self._relayout(source, self.program.buffers[copy.result])
        return ticks, counts.traffic_bytes, counts.staging_bytes

    def _relayout(self, source: Buffer, result: Buffer) -> int:
        """Compute the ticks of reading a copy's data in one layout and writing it in another; count its energy."""
        if source.layout == result.layout:
            return 0
        moved = [
            self._stored(replace(result, layout=source.layout), box) + self._stored(result, box)
            for box in result.boxes
        ]
        return self._move(moved, result.dtype)

    def _move(self, moved_bytes: list[int], dtype: str) -> int:
        """Compute the ticks of reading and writing so many bytes on every device; count the energy."""
        if not any(moved_bytes):
            return 0
        device = self.mesh.device
        if device.missing_energy_figure is None:
            self.tally.energy_pj += sum(
                int(energy_pj(device, dtype, 0, moved, 0, kind="vector")) for moved in moved_bytes
            )
        return max(int(block_ticks(device, "move", 0, moved, dtype)) for moved in moved_bytes)

    def _block(self, step: ComputeStep) -> int:
        """Compute the ticks of a block: those of its slowest device; count its flops and energy."""
        block = self.graph.by_site[step.site]
        inputs, outputs = self.graph.input_types(block), self.graph.output_types(block)
        work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
        dtype = work_dtype(inputs, outputs)
        given = {r.resource: r for r in (block.definition.costs.resources if block.definition.costs else ())}
        dims = [x.name for x in block.signature.dims] if block.signature else []
        slowest = 0
        for d in self.devices:
            sizes = step.index[d, :, 1] - step.index[d, :, 0]
            points = int(np.prod(sizes, dtype=np.int64))
            flops = int(flops_of(work, dims, sizes))
            parts = part_amounts(work, dims, sizes)
            moved = 0
            if "flops" in given:
                flops = int(amounts(given["flops"], dims, sizes))
            if "bytes" in given:
                moved = int(amounts(given["bytes"], dims, sizes))
            elif points and work.kind != "none":
                for k, read in enumerate(step.reads):
                    elements = int(np.prod(read.wanted[d, :, 1] - read.wanted[d, :, 0], dtype=np.int64))
                    if k in work.reads:
                        counted = [sizes[dims.index(n)] for n in work.reads[k]]
                        elements = int(np.prod(counted, dtype=np.int64))
                    size = elements * item_bytes(inputs[k].dtype)
                    moved += self._accessed(size, self.program.buffers[read.buffer], read.part[d])
                for key in step.outputs:
                    moved += self._sizes(key)[d]
            tiles = tile_sizes(block.definition, work, sizes)
            device = self.mesh.device
            ticks = block_ticks(
                device,
                work.kind,
                flops,
                moved,
                dtype,
                **tiles,
                compute_dtype=self.compute_dtype,
                parts=parts,
            )
            slowest = max(slowest, int(ticks))
            self.flops[d] += flops
            if device.missing_energy_figure is None:
                used = self.compute_dtype or dtype
                energy = energy_pj(device, used, flops, moved, 0, kind=work.kind, parts=parts)
                self.tally.energy_pj += int(energy)
        return slowest

    def _accessed(self, size: int, buffer: Buffer, part: np.ndarray) -> int:
        """Compute the bytes behind `size` logical bytes of a part of a buffer, in proportion to its padding."""
        logical = int(np.prod(part[:, 1] - part[:, 0], dtype=np.int64)) * item_bytes(buffer.dtype)
        stored = self._stored(buffer, part)
        return int(accessed_bytes(np.array(size), np.array(stored), np.array(logical)))

    def _totals(self, makespan: int) -> CostTally:
        tally = self.tally
        tally.time_ticks = makespan
        tally.peak_memory_bytes = self.highest
        tally.peak_per_device = self.peak
        tally.total_memory_bytes = sum(self.peak)
        tally.compute_flops = sum(self.flops)
        tally.peak_compute_flops = max(self.flops)
        tally.compute_waste_flops = tally.compute_flops - base_flops(self.graph)
        return tally


class _CopyCounter:
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
