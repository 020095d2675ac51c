"""The reference cost model: slow and obvious, over the expanded program, one device at a time.

It is the oracle of the fast path. Bytes are counted with sets of coordinates rather than by formula, memory
by keeping the live buffers in a dictionary. It follows the conventions "received bytes", "lifetimes" and "declared
reads" of `docs/sharding.md` by code of its own; the expanded program has carried out the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapestry.costmodel.block_cost import base_flops
from tapestry.costmodel.reference_copies import CopyCost, CopyCounter
from tapestry.costmodel.resources import Resource, resources_of
from tapestry.costmodel.space_compiler import LIVES_ON
from tapestry.costmodel.tally import CostTally, amounts_per_device
from tapestry.hardware.device import Device
from tapestry.hardware.layouts.native import accessed_bytes, native_named, stored_bytes
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.hardware.timing import (
    block_ticks,
    cold_tensors,
    energy_pj,
    host_energy_pj,
    host_ticks,
    slowed_ticks,
)
from tapestry.teg.costs import amounts, supplied_seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import flops_of, kernel_sizes, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph, expand
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.spec import volumes

Counted = dict[tuple[CopyPlan, tuple[int, ...], int, Mesh], CopyCost]
Held = dict[tuple[int, int], int]
"""Bytes by stage and device of the stage."""


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
    used = mesh.part(program.axes)
    tally = _Plain(graph, program, used, compute_dtype, {} if counted is None else counted).run()
    for resource in resources_of(graph) if resources is None else resources:
        per_device = amounts_per_device(graph, placements, program.mesh_shape, resource)
        tally.resources |= zip(resource.columns, (sum(per_device), max(per_device)), strict=True)
    return tally


def _after_others(begin: int, pair: tuple[int, int], sent: Mapping[tuple[int, int], tuple[int, int]]) -> int:
    """Return when a copy may begin beside the last ones between stages: `(begin, end)` by sender and receiver."""
    begin = max(begin, sent.get(pair, (0, 0))[1])
    blocking = True
    while blocking:
        blocking = False
        for (source, target), (since, until) in sent.items():
            if (source == pair[0] or target == pair[1]) and since <= begin < until:
                begin, blocking = until, True
    return begin


class _Plain:
    def __init__(
        self,
        graph: Graph,
        program: ExplicitGraph,
        mesh: Mesh,
        compute_dtype: str | None,
        counted: Counted,
    ) -> None:
        stages = 1 if program.stages is None else program.stages.count
        self.graph, self.program, self.compute_dtype = graph, program, compute_dtype
        self.meshes = meshes_of_stages(mesh, program.stages)
        self.mesh = self.meshes.common
        self.counted = counted
        self.native = native_named(mesh.device.layouts[0])
        self.devices = range(self.mesh.device_count)
        self.cold = [cold_tensors(graph, each.device, program.device_count) for each in self.meshes.kinds]
        self.stages = range(stages)
        self.live: dict[tuple[str, str], Held] = {}
        self.peak = [0] * program.device_count
        self.highest = -1
        self.flops = [0] * program.device_count
        self.tally = CostTally()
        self.taken: dict[tuple[Any, ...], int] = {}  # ticks of a block's part, by all that they depend on
        self.sink_buffers = {
            r.buffer for s in program.slots if s.step.definition.operator == "sink" for r in s.step.reads
        }

    def run(self) -> CostTally:
        last_read, last_copied = self._last_uses()
        for key in self.program.sources:
            self._allocate((key, "buffer"), self._sizes(key))
        self._sample()
        compute = [0 for _ in self.stages]
        free = [[0] * (1 + max(self.mesh.host_queues)) for _ in self.stages]
        sent: dict[tuple[int, int], tuple[int, int]] = {}  # begin and end of the last copy by pair of stages
        done: dict[str, int] = {}
        sender: dict[str, int] = {}
        for k, slot in enumerate(self.program.slots):
            for copy in slot.issued:
                both = (self._stage(copy.source), self._stage(copy.result))
                self._allocate((copy.result, "buffer"), self._sizes(copy.result))
                ticks, axes, traffic, staging = self._copy(copy)
                self._allocate((copy.result, "staging"), staging)
                queues = self._queues(copy, axes)
                begin = max(max(compute[s], *(free[s][q] for q in queues)) for s in both)
                if both[0] == both[1]:
                    free[both[0]] = [
                        begin + ticks if q in queues else at for q, at in enumerate(free[both[0]])
                    ]
                else:
                    begin = _after_others(begin, both, sent)
                    sent[both] = (begin, begin + ticks)
                done[copy.result], sender[copy.result] = begin + ticks, both[0]
                self.tally.traffic_bytes += traffic
                device = self.meshes.between(*both).device
                if device.missing_energy_figure is None:
                    self.tally.energy_pj += int(energy_pj(device, "float32", 0, 0, traffic, kind="vector"))
            self._sample()
            stage = slot.step.stage
            for key in slot.waited:
                for s in {stage, sender[key]}:
                    compute[s] = max(compute[s], done[key])
                del self.live[(key, "staging")]
            self._free(k, last_read, last_copied, waiting=True)
            for out in slot.step.outputs:
                self._allocate((out, "buffer"), self._sizes(out))
            self._sample()
            copying = max(free[stage][: self.mesh.queue_count]) - compute[stage]
            compute[stage] += int(slowed_ticks(self.meshes.of(stage).device, self._block(slot.step), copying))
            self._free(k, last_read, last_copied, waiting=False)
        return self._totals(max(compute))

    def _stage(self, key: str) -> int:
        return self.program.buffers[key].stage

    def _queues(self, copy: CopyStep, axes: frozenset[str]) -> list[int]:
        """Return the queues that a copy takes: of communication unless it is to or from the host alone, of the host."""
        source, result = self.program.buffers[copy.source], self.program.buffers[copy.result]
        to_host, from_host = self.mesh.host_queues
        host = [to_host] if result.layout == HOST else []
        host += [from_host] if source.layout == HOST else []
        alone = copy.plan.relayout and host
        return host if alone else [*self.mesh.queues_of(axes), *host]

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
            tensor = self.program.sources[key]
            lasts = self.graph.producers[tensor].definition.get("role") in LIVES_ON
            return lasts and all(s.definition.get("carries") != tensor for s in self.graph.sinks)
        return False

    def _sizes(self, key: str) -> Held:
        buffer = self.program.buffers[key]
        return {(buffer.stage, d): self._stored(buffer, box) for d, box in enumerate(buffer.boxes)}

    def _stored(self, buffer: Buffer, box: np.ndarray) -> int:
        """Compute the bytes that a box takes in the layout of a buffer."""
        shape = np.maximum(box[:, 1] - box[:, 0], 0)
        return int(stored_bytes(self.native, buffer.layout, shape, buffer.dtype))

    def _allocate(self, key: tuple[str, str], sizes: Held) -> None:
        self.live[key] = sizes

    def _sample(self) -> None:
        places = [(s, d) for s in self.stages for d in self.devices]
        now = [sum(sizes.get(place, 0) for sizes in self.live.values()) for place in places]
        self.peak = [max(a, b) for a, b in zip(self.peak, now, strict=True)]
        if max(now) > self.highest:
            self.highest = max(now)
            held = [self.program.buffers[key] for key, kind in self.live if kind == "buffer"]
            distinct = {(b.tensor, b.origin, b.round): TensorType(b.shape, b.dtype).size_bytes for b in held}
            logical = sum(distinct.values())
            self.tally.memory_waste_bytes = sum(now) - logical

    def _copy(self, copy: CopyStep) -> tuple[int, frozenset[str], int, Held]:
        """Compute ticks, axes crossed, traffic in bytes and staging bytes per device of one copy; count the energy of
        its moves.
        """
        source = self.program.buffers[copy.source]
        shape, item = source.shape, item_bytes(source.dtype)
        sender = self._stage(copy.source)
        mesh = self.meshes.between(sender, self._stage(copy.result))
        key = (copy.plan, shape, item, mesh)
        if key not in self.counted:
            self.counted[key] = CopyCounter(copy.plan, shape, item, mesh).count()
        counts = self.counted[key]
        if mesh.device.missing_energy_figure is None:
            moved = 2 * counts.moved_bytes
            self.tally.energy_pj += int(energy_pj(mesh.device, "float32", 0, moved, 0, kind="vector"))
        result = self.program.buffers[copy.result]
        staging = {(self._stage(copy.source), d): size for d, size in enumerate(counts.staging_bytes)}
        if copy.plan.route is not None:
            landing = enumerate(counts.landing_bytes)
            staging |= {(self._stage(copy.result), d): size for d, size in landing}
        if HOST not in (source.layout, result.layout):
            ticks = counts.ticks + self._relayout(source, result)
        elif copy.plan.relayout:
            ticks = self._carried(result, sender)
        else:
            on_host = [buffer for buffer in (source, result) if buffer.layout == HOST]
            ticks = counts.ticks + sum(self._carried(buffer, sender) for buffer in on_host)
            for buffer in on_host:
                for place, size in self._parts(buffer).items():
                    staging[place] = staging.get(place, 0) + size
        return ticks, counts.axes, counts.traffic_bytes, staging

    def _carried(self, buffer: Buffer, sender: int) -> int:
        """Compute the ticks of carrying every device's part over the link to its host; count the energy."""
        sizes, device = self._parts(buffer).values(), self.meshes.of(sender).device
        self.tally.energy_pj += sum(int(host_energy_pj(device, size)) for size in sizes)
        return max(int(host_ticks(device, size)) for size in sizes)

    def _parts(self, buffer: Buffer) -> Held:
        """Return the bytes of the elements of every device's part."""
        item = item_bytes(buffer.dtype)
        return {(buffer.stage, d): item * int(volumes(box)) for d, box in enumerate(buffer.boxes)}

    def _overflow(self) -> list[int]:
        """Return by how much what lies on the host of each device exceeds its memory.

        Without stages, one round's parts are there at a time; parts that copies bring for sinks replace others.
        """
        held: dict[tuple[int, int], dict[str, int]] = {}
        made = {key for slot in self.program.slots for key in slot.step.outputs}
        for key in (*self.program.sources, *made):
            buffer = self.program.buffers[key]
            if buffer.layout == HOST:
                for place, size in self._parts(buffer).items():
                    name = key if self.program.stages is not None else buffer.tensor
                    held.setdefault(place, {})[name] = size
        room = self.mesh.device.host_memory_bytes or 0
        places = [(s, d) for s in self.stages for d in self.devices]
        return [max(0, sum(held.get(place, {}).values()) - room) for place in places]

    def _relayout(self, source: Buffer, result: Buffer) -> int:
        """Compute the ticks of reading a copy's data in one layout and writing it in another; count its energy."""
        if source.layout == result.layout:
            return 0
        moved = [
            self._stored(replace(result, layout=source.layout), box) + self._stored(result, box)
            for box in result.boxes
        ]
        return self._move(moved, result.dtype, self.meshes.of(source.stage).device)

    def _move(self, moved_bytes: list[int], dtype: str, device: Device) -> int:
        """Compute the ticks of reading and writing so many bytes on every device; count the energy."""
        if not any(moved_bytes):
            return 0
        if device.missing_energy_figure is None:
            self.tally.energy_pj += sum(
                int(energy_pj(device, dtype, 0, moved, 0, kind="vector")) for moved in moved_bytes
            )
        return max(int(block_ticks(device, "move", 0, moved, dtype)) for moved in moved_bytes)

    def _block(self, step: ComputeStep) -> int:
        """Compute the ticks of a block: those of its slowest device; count its flops and energy."""
        block = self.graph.by_site[step.site]
        inputs, outputs = self.graph.input_types(block), self.graph.output_types(block)
        work = work_of(
            operator_named(block.operator),
            block.definition,
            inputs,
            outputs,
            accumulates=bool(step.accumulates),
        )
        dtype = work_dtype(inputs, outputs)
        given = {r.resource: r for r in (block.definition.costs.resources if block.definition.costs else ())}
        dims = [x.name for x in block.signature.dims] if block.signature else []
        device, slowest = self.meshes.of(step.stage).device, 0
        cold_here = self.cold[self.meshes.kind_of[step.stage]]
        stored = [self._sizes(key) for key in step.outputs]
        for d in self.devices:
            sizes = step.index[d, :, 1] - step.index[d, :, 0]
            points = int(np.prod(sizes, dtype=np.int64))
            flops = int(flops_of(work, dims, sizes))
            parts = part_amounts(work, dims, sizes)
            moved = cold = written = 0
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
                    accessed = self._accessed(size, self.program.buffers[read.buffer], read.part[d])
                    moved += accessed
                    cold += accessed if block.inputs[k] in cold_here else 0
                written = sum(sizes_of[step.stage, d] for sizes_of in stored)
                moved += written * (2 if step.accumulates else 1)
            alike = (step.site, step.stage, bool(step.accumulates), *sizes.tolist(), moved, cold, written)
            if alike not in self.taken:
                ticks = block_ticks(
                    device,
                    work.kind,
                    flops,
                    moved,
                    dtype,
                    **kernel_sizes(work, dims, sizes),
                    kernel=work.kernel_class,
                    cold_bytes=cold,
                    written_bytes=written,
                    compute_dtype=self.compute_dtype,
                    parts=parts,
                    supplied_s=supplied_seconds(block.definition.costs, dims, sizes),
                )
                self.taken[alike] = int(ticks)
            slowest = max(slowest, self.taken[alike])
            self.flops[step.stage * len(self.devices) + d] += flops
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
        beyond = self._overflow()
        tally.peak_memory_bytes = self.highest + max(beyond)
        tally.peak_per_device = [peak + more for peak, more in zip(self.peak, beyond, strict=True)]
        tally.total_memory_bytes = sum(tally.peak_per_device)
        tally.compute_flops = sum(self.flops)
        tally.peak_compute_flops = max(self.flops)
        tally.compute_waste_flops = tally.compute_flops - base_flops(self.graph)
        return tally
