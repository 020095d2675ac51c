"""Simulation of an explicit program slot by slot: allocations, transfers and durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict, Unpack

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.arrays import ArrayBackend, State
from tapestry.hardware.simulator.backend import Backend
from tapestry.hardware.simulator.clocks import Clocks
from tapestry.hardware.simulator.dry_run import LARGEST_FULL_MESH, DryRunBackend
from tapestry.hardware.simulator.execution import COMMUNICATION, COMPUTE, ClockSpan, Execution, Recovery
from tapestry.hardware.simulator.failure import Slowdown
from tapestry.hardware.simulator.fetches import slowest_axis
from tapestry.hardware.simulator.ledger import Ledger
from tapestry.hardware.simulator.lifetimes import Lifetimes
from tapestry.hardware.simulator.liveness import Liveness
from tapestry.hardware.simulator.rounds import CopyCounts, no_links
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.hardware.simulator.work import carried_parts, known_work, relayout_ticks
from tapestry.hardware.stage_meshes import StageMeshes, meshes_of_stages
from tapestry.hardware.timing import cold_tensors, host_ticks
from tapestry.teg.arrays import NUMPY, ArrayNamespace
from tapestry.teg.sharding.expand import CopyStep, ExplicitGraph, Slot
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.stopping import CheckStop, never_stop


def simulate(
    program: ExplicitGraph,
    mesh: Mesh,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    check_stop: CheckStop = never_stop,
    **options: Unpack[SimulationOptions],
) -> Execution:
    """Run `program` on the virtual devices of `mesh`; count memory, bytes and time along the way.

    `inputs` are whole arrays by source site; values supplied with the graph may be left out. `check_stop` is called
    before each slot.

    Raises:
        ValueError: the mesh is not the one the program was built for, or inputs do not fit.
        OutOfMemory: `capacity_check` is on and an allocation exceeds a device's memory.
        RuntimeError: replicas of an observed value differ, or more is live by the clock than was counted.
    """
    return simulation_of(program, mesh, inputs, **options).execute(check_stop)


class SimulationOptions(TypedDict, total=False):
    """The options of a run on the simulator.

    A `dry` run counts without computing. `capacity_check` (on by default) ends a run that needs more memory than a
    device has. `trace` keeps the events of the clocks. `compute_dtype` is the precision of contractions on the clock.
    `state` is that of the step before (`Execution.state`), which begins as the devices hold it; `simulate_steps` passes
    it on. `slowdown` lengthens what slow devices and links do. `cache` keeps counts of blocks and copies for other
    programs on this very mesh. `xp` computes: numpy, or torch on any of its devices.
    """

    dry: bool
    capacity_check: bool
    trace: bool
    compute_dtype: str | None
    state: State | None
    slowdown: Slowdown | None
    cache: ResultCache | None
    xp: ArrayNamespace


def simulation_of(
    program: ExplicitGraph,
    mesh: Mesh,
    inputs: Mapping[str, np.ndarray] | None,
    **options: Unpack[SimulationOptions],
) -> Simulation:
    """Build a run of `program` that has not begun.

    Raises:
        ValueError: the mesh is not the one the program was built for, or inputs do not fit.
    """
    check_mesh(program, mesh)
    storage = ShardStorage(mesh.device)
    cache = options.get("cache") or ResultCache(program.mesh_shape)
    backend: Backend
    meshes = meshes_of_stages(mesh, program.stages)
    if options.get("dry"):
        backend = DryRunBackend(program, storage, cache)
    else:
        xp = options.get("xp", NUMPY)
        backend = ArrayBackend(program, inputs or {}, storage, options.get("state"), xp)
    return Simulation(
        program,
        meshes,
        backend,
        storage,
        options.get("capacity_check", True),
        options.get("trace", False),
        options.get("compute_dtype"),
        options.get("slowdown") or Slowdown(),
        cache,
    )


def check_mesh(program: ExplicitGraph, mesh: Mesh) -> None:
    """Check that a program was made for the axes of a mesh.

    Raises:
        ValueError: it was made for others.
    """
    if mesh.axis_sizes != program.axes:
        raise ValueError(
            f"the program was made for a mesh with axes {program.axes}, not for {mesh.name!r} "
            f"with {mesh.axis_sizes}"
        )


class Simulation:
    """The state of one run; every slot goes through issue, wait, block and free.

    `hosts` `(devices,)` are the devices that run what the plan has its devices do: each its own share, until one is
    lost.
    `in_flight` are the copies that have been issued and not waited for.
    """

    def __init__(
        self,
        program: ExplicitGraph,
        meshes: StageMeshes,
        backend: Backend,
        storage: ShardStorage,
        capacity_check: bool,
        trace: bool,
        compute_dtype: str | None,
        slowdown: Slowdown,
        cache: ResultCache | None = None,
    ) -> None:
        devices = program.device_count
        stages = 1 if program.stages is None else program.stages.count
        self.program, self.backend, self.storage = program, backend, storage
        self.meshes, self.mesh = meshes, meshes.common
        self.cold = [cold_tensors(program.abstract, mesh.device, devices) for mesh in meshes.kinds]
        self.compute_dtype, self.slowdown = compute_dtype, _by_number(slowdown, program)
        self.cache = cache or ResultCache(program.mesh_shape)
        self.hosts = np.arange(devices)
        self.in_flight: dict[str, CopyStep] = {}
        parts = [part for stage in range(stages) for part in meshes.of(stage).nodes or (meshes.of(stage),)]
        capacities = [part.device.memory_bytes for part in parts]
        self.capacity_bytes = np.repeat(capacities, [part.device_count for part in parts])
        self.ledger = Ledger(devices, self.capacity_bytes if capacity_check else None)
        self.liveness = Liveness(program)
        self.clocks = Clocks(meshes)
        self.lifetimes = Lifetimes(devices)
        self.memory_bytes = np.zeros((len(program.slots), 2, devices), dtype=np.int64)
        self.staging_bytes: dict[str, np.ndarray] = {}
        self.received_bytes, self.flops, self.accessed_bytes, self.busy_ticks, self.energy_pj = (
            np.zeros(devices, dtype=np.int64) for _ in range(5)
        )
        self.links: np.ndarray | None = no_links(devices) if devices <= LARGEST_FULL_MESH else None
        self.axis_bytes: Counter[str] = Counter({axis.name: 0 for axis in self.mesh.axes})
        self.copy_ticks = 0
        self.trace = trace
        self.spans: list[ClockSpan] = []

    def execute(self, check_stop: CheckStop = never_stop) -> Execution:
        """Run all slots and return values and counts; `check_stop` is called before each."""
        self.begin()
        for k in range(len(self.program.slots)):
            check_stop()
            self.run_slot(k)
        return self.finish()

    def begin(self) -> None:
        """Place the sources."""
        for key in self.program.sources:
            self._allocate(key, self._spread(self.backend.place(key), (self._stage(key),)), 0)
        self.source_memory_bytes = self.ledger.sample()

    def run_slot(self, k: int) -> None:
        """Run one slot."""
        slot = self.program.slots[k]
        self.ledger.enter(k, slot.step.site)
        self.lifetimes.begin_slot(self.clocks.compute_ticks.copy())
        for copy in slot.issued:
            self._copy(copy)
        self.memory_bytes[k, 0] = self.ledger.sample()
        self._wait(slot)
        self._block(slot)
        self.memory_bytes[k, 1] = self.ledger.sample()
        for key in self.liveness.after_block(slot):
            self._free(key)

    def finish(self, recovery: Recovery | None = None) -> Execution:
        """Check the lifetimes and collect values and counts."""
        if self.program.device_count <= LARGEST_FULL_MESH:
            self.lifetimes.check(self.liveness.kept, self.memory_bytes)
        return Execution(
            outputs=dict(self.backend.observed()),
            peak_memory_bytes=self.ledger.peak_bytes,
            memory_bytes=self.memory_bytes,
            source_memory_bytes=self.source_memory_bytes,
            staging_bytes=self.staging_bytes,
            received_bytes=self.received_bytes,
            link_bytes=self.links,
            axis_bytes=dict(self.axis_bytes),
            makespan_ticks=int(self.clocks.compute_ticks.max()),
            compute_ticks=self.busy_ticks,
            copy_ticks=self.copy_ticks,
            flops=self.flops,
            accessed_bytes=self.accessed_bytes,
            events=tuple(event for each in self.spans for event in each.events()) if self.trace else (),
            spans=tuple(self.spans),
            queue_names=tuple(self.mesh.queue_name(q) for q in self._used_queues()),
            state=dict(self.backend.next_state),
            recovery=recovery,
            stages=len(self.clocks.queue_ticks),
        )

    def _used_queues(self) -> range:
        """Return the numbers of all queues; those of the host's link only if something lies on the host."""
        uses_host = any(buffer.layout == HOST for buffer in self.program.buffers.values())
        return range(1 + max(self.mesh.host_queues) if uses_host else self.mesh.queue_count)

    def issue_again(self, copy: CopyStep) -> None:
        """Issue a copy again that was interrupted."""
        self._free(copy.result)
        self.ledger.free(staging_name(copy.result))
        self._copy(copy)

    def _copy(self, copy: CopyStep) -> None:
        """Issue a copy: allocate its result and staging at once, and run its time in its queues."""
        counts = self.backend.copy(copy)
        self.in_flight[copy.result] = copy
        stages = self._stages(copy)
        mesh, sender = self.meshes.between(stages[0], stages[-1]), self.meshes.of(stages[0]).device
        exchange_ticks, move_ticks = counts.phases_ticks(mesh, self.slowdown.axes)
        move_ticks += relayout_ticks(self.program, copy, sender, self.storage)
        carried = carried_parts(self.program, copy)
        move_ticks += sum(int(host_ticks(sender, part).max()) for _, part in carried)
        queues = self._queues(copy, {each.axis for each, most in counts.busiest if most})
        start, end = self.clocks.copy(copy.result, queues, exchange_ticks + move_ticks, stages)
        staging_bytes = self._spread(counts.staging_bytes, stages)
        for key, part in () if copy.plan.relayout else carried:
            staging_bytes = staging_bytes + self._spread(part, (self._stage(key),))
        result_bytes = self._spread(counts.result_bytes, (self._stage(copy.result),))
        self._allocate(copy.result, result_bytes, start)
        self._allocate(staging_name(copy.result), staging_bytes, start)
        for name in (copy.source, copy.result, staging_name(copy.result)):
            self.lifetimes.used(name, end)
        self.staging_bytes[copy.result] = staging_bytes
        devices = self._devices(stages)
        received_bytes = self._count_received(counts, stages)[devices]
        self.copy_ticks += end - start
        start_ticks, end_ticks = (np.broadcast_to(ticks, received_bytes.shape) for ticks in (start, end))
        self.spans.append(
            ClockSpan(
                *(COMMUNICATION, copy.result, start_ticks, end_ticks, received_bytes),
                is_joint=True,
                exchanges=counts.busiest,
                exchange_ticks=exchange_ticks,
                queues=queues,
                devices=devices if self.program.stages is not None else None,
                mesh=mesh,
            )
        )

    def _queues(self, copy: CopyStep, axes: Collection[str]) -> tuple[int, ...]:
        """Return the queues of a copy that crosses these axes: those of the host's link, too, or only."""
        to_host, from_host = self.mesh.host_queues
        ends = (copy.result, to_host), (copy.source, from_host)
        host = tuple(q for key, q in ends if self.program.buffers[key].layout == HOST)
        return host if host and copy.plan.relayout else (*self.mesh.queues_of(axes), *host)

    def _stage(self, key: str) -> int:
        """Return the stage of a buffer."""
        return self.program.buffers[key].stage

    def _stages(self, copy: CopyStep) -> tuple[int, ...]:
        """Return the stages of a copy: its own, or the sending and the receiving one."""
        return tuple(dict.fromkeys((self._stage(copy.source), self._stage(copy.result))))

    def _devices(self, stages: Sequence[int]) -> np.ndarray:
        """Return the devices of some stages, in the order of the stages."""
        devices = np.arange(self.program.device_count)
        return np.concatenate([devices[self.program.rows(stage)] for stage in stages])

    def _spread(self, amounts: np.ndarray, stages: Sequence[int]) -> np.ndarray:
        """Return amounts on the devices of some stages as amounts on all devices, `(devices,)`."""
        if self.program.stages is None:
            return amounts
        total = np.zeros(self.program.device_count, dtype=np.int64)
        total[self._devices(stages)] = amounts
        return total

    def _count_received(self, counts: CopyCounts, stages: Sequence[int]) -> np.ndarray:
        """Count the bytes that a copy brings to each device, `(devices,)`, by axis and by link.

        After a loss, hosts receive what their devices do, except from each other.
        """
        links, received_bytes = counts.link_bytes, counts.received_bytes
        if links is not None and (self.hosts != np.arange(len(self.hosts))).any():
            links, pairs = no_links(len(self.hosts)), links
            np.add.at(links, (self.hosts[:, None], self.hosts[None, :]), pairs)
            np.fill_diagonal(links, 0)
            received_bytes = links.sum(axis=0)
            devices = np.arange(len(self.hosts))
            crossed = slowest_axis(devices[:, None], devices[None, :], self.program.mesh_shape)
            for k, axis in enumerate(self.mesh.axes):
                self.axis_bytes[axis.name] += int(links[crossed == k].sum())
        else:
            for exchange in counts.exchanges:
                self.axis_bytes[exchange.round.axis] += int(exchange.received_bytes.sum())
        received_bytes = self._spread(received_bytes, stages)
        self.received_bytes += received_bytes
        if self.links is not None and links is not None:
            devices = self._devices(stages)
            self.links[np.ix_(devices, devices)] += links
        return received_bytes

    def _wait(self, slot: Slot) -> None:
        for name in slot.waited:
            self.ledger.free(staging_name(name))
            sender, *receiver = self._stages(self.in_flight.pop(name))
            if receiver:
                self.clocks.wait(name, sender)
        for key in self.liveness.after_waits(slot):
            self._free(key)

    def _block(self, slot: Slot) -> None:
        step = slot.step
        sizes = self.backend.compute(step)
        device, cold = self.meshes.of(step.stage).device, self.cold[self.meshes.kind_of[step.stage]]
        work = known_work(self.program, step, device, self.storage, self.compute_dtype, cold, self.cache)
        stages, rows = (step.stage,), self.program.rows(step.stage)
        ticks = self._on_hosts(self.slowdown.compute(self._spread(work.ticks, stages)))[rows]
        start, end = self.clocks.block(slot.waited, ticks, step.stage)
        for key, size_bytes in zip(step.outputs, sizes, strict=True):
            if not (step.round and step.accumulates):
                self._allocate(key, self._spread(size_bytes, stages), self._spread(start, stages))
        for name in (*(read.buffer for read in step.reads), *step.outputs):
            self.lifetimes.used(name, self._spread(end, stages))
        self.flops[rows] += work.flops
        self.accessed_bytes[rows] += work.accessed_bytes
        if work.energy_pj is not None:
            self.energy_pj[rows] += work.energy_pj
        self.busy_ticks[rows] += end - start
        devices = None if self.program.stages is None else self._devices(stages)
        spent = (start, end, work.accessed_bytes)
        self.spans.append(
            ClockSpan(
                *(COMPUTE, step.site, *spent), is_joint=False, time_class=work.time_class, devices=devices
            )
        )

    def _on_hosts(self, ticks: np.ndarray) -> np.ndarray:
        """Add up the durations of what one host does one after the other, for each of its devices."""
        total = np.zeros_like(ticks)
        np.add.at(total, self.hosts, ticks)
        return total[self.hosts]

    def _allocate(self, name: str, size_bytes: np.ndarray, ticks: np.ndarray | int) -> None:
        self.ledger.allocate(name, size_bytes)
        self.lifetimes.allocate(name, size_bytes, ticks)

    def _free(self, key: str) -> None:
        self.ledger.free(key)
        self.backend.free(key)


def _by_number(slowdown: Slowdown, program: ExplicitGraph) -> Slowdown:
    """Return a slowdown of devices of the mesh as one of devices that run the program, by their numbers there."""
    if program.stages is None or not slowdown.devices:
        return slowdown
    numbers = enumerate(program.stages.devices.reshape(-1).tolist())
    return Slowdown({k: slowdown.devices[d] for k, d in numbers if d in slowdown.devices}, slowdown.axes)


def staging_name(copy: str) -> str:
    """Return the name of a copy's staging."""
    return f"{copy} (staging)"
