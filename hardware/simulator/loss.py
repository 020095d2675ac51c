"""Runs in which devices are lost: the survivors find again what was lost, and go on in the place of the lost devices.

A device is lost at a moment of the run's undisturbed time. Every survivor then stops before the block that the lost
device was at, copies in flight are made again, and each lost device's share of the plan moves to the survivor with the
most free memory, its *host*. Outputs are those of the undisturbed run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.arrays import ArrayBackend
from tapestry.hardware.simulator.dry_run import DryRunBackend
from tapestry.hardware.simulator.execution import COMPUTE, ClockSpan, Execution, Recovery
from tapestry.hardware.simulator.failure import Failure
from tapestry.hardware.simulator.recovery import BlockRerun, Part, RecoveryPlan, copied_from, plan_recovery
from tapestry.hardware.simulator.restoring import restore
from tapestry.hardware.simulator.run import Simulation, SimulationOptions, simulation_of
from tapestry.hardware.simulator.work import BlockWork, block_work
from tapestry.hardware.timing import step_ticks
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.spec import volumes


def simulate_loss(
    program: ExplicitGraph,
    mesh: Mesh,
    failure: Failure,
    inputs: Mapping[str, np.ndarray] | None = None,
    **options: Unpack[SimulationOptions],
) -> Execution:
    """Run `program` as `simulate` does, but lose the failure's devices; `Execution.recovery` reports what that took.

    Memory is counted by survivor from then on. What the recovery itself holds beside the lost parts is not counted, nor
    is the time of reading sources from the host again.

    Raises:
        ValueError: the mesh is not the one the program was built for, inputs do not fit, or the program has stages.
        OutOfMemory: a survivor has no room for a lost device's share.
    """
    program.check_one_stage("losing devices")
    undisturbed: SimulationOptions = {**options, "dry": True, "capacity_check": False, "trace": False}
    slot, at_ticks = moment_of(program, mesh, failure, **undisturbed)
    run = simulation_of(program, mesh, inputs, **options)
    run.begin()
    for k in range(slot):
        run.run_slot(k)
    recovery = _Loss(run, failure, slot, at_ticks).recover()
    for k in range(slot, len(program.slots)):
        run.run_slot(k)
    return run.finish(recovery)


def moment_of(
    program: ExplicitGraph, mesh: Mesh, failure: Failure, **undisturbed: Unpack[SimulationOptions]
) -> tuple[int, int]:
    """Return the slot that the first of the failure's devices is at, by its own clock, and that time in ticks."""
    run = simulation_of(program, mesh, None, **undisturbed)
    at_ticks = int(run.execute().makespan_ticks * failure.fraction)
    begin = np.stack([ticks[list(failure.devices)] for ticks in run.lifetimes.begin_ticks])
    return max(int((begin <= at_ticks).all(axis=1).sum()) - 1, 0), at_ticks


def hosts_after(run: Simulation, lost: Sequence[int]) -> np.ndarray:
    """Choose for each lost device the survivor with the most free memory, the nearest of several; `(devices,)`."""
    hosts = np.arange(run.mesh.device_count)
    survivors = [d for d in range(run.mesh.device_count) if d not in lost]
    held_bytes = run.ledger.live_bytes.copy()
    place = run.program.mesh_shape.axis_coordinates
    for device in lost:
        differs = {d: tuple((place[d] != place[device]).tolist()) for d in survivors}
        hosts[device] = min(survivors, key=lambda d: (int(held_bytes[d]), differs[d], d))
        held_bytes[hosts[device]] += held_bytes[device]
    return hosts


class _Loss:
    """The recovery of one run from a failure, at the start of a slot."""

    def __init__(self, run: Simulation, failure: Failure, slot: int, at_ticks: int) -> None:
        self.run, self.program, self.mesh = run, run.program, run.mesh
        self.lost, self.slot, self.at_ticks = failure.devices, slot, at_ticks
        self.ticks = np.zeros(self.mesh.device_count, dtype=np.int64)
        self.received_bytes: Counter[tuple[int, int]] = Counter()

    def recover(self) -> Recovery:
        """Find every lost part again, hand the lost devices' shares to their hosts, repeat interrupted copies."""
        run = self.run
        executed_flops = int(run.flops.sum())
        live = [n for n in run.ledger.allocations if n in self.program.buffers and n not in run.in_flight]
        lost_bytes = sum(int(run.ledger.allocations[n][list(self.lost)].sum()) for n in live)
        plan = plan_recovery(self.program, self.slot, live, self.lost, live)
        run.hosts = hosts_after(run, self.lost)
        run.ledger.hosts = run.hosts
        if isinstance(run.backend, DryRunBackend):
            run.backend.by_class = False  # what hosts receive is counted by link
        self._count(plan)
        if isinstance(run.backend, ArrayBackend):
            restore(run.backend, plan, live, self.lost)
        begun = int(max(run.clocks.compute_ticks.max(), run.clocks.queue_ticks.max()))
        taken = int(self.ticks.max()) + self._transfer_ticks()
        run.clocks.compute_ticks[:] = begun + taken
        run.clocks.queue_ticks[:] = begun + taken
        start, end, nothing = (np.full(len(run.hosts), ticks) for ticks in (begun, begun + taken, 0))
        run.spans.append(ClockSpan(COMPUTE, "recovery", start, end, nothing, is_joint=True))
        interrupted = list(run.in_flight.values())
        for copy in interrupted:
            run.issue_again(copy)
        blocks = [r for r in plan.reruns if isinstance(r, BlockRerun)]
        return Recovery(
            lost=self.lost,
            hosts=tuple(int(run.hosts[d]) for d in self.lost),
            slot=self.slot,
            at_ticks=self.at_ticks,
            recovery_ticks=taken,
            lost_bytes=lost_bytes,
            received_bytes=sum(self.received_bytes.values()),
            reloaded_bytes=sum(self._size_bytes(part) for part in plan.reloaded),
            rerun_blocks=len(blocks),
            rerun_copies=len(plan.reruns) - len(blocks),
            rerun_flops=sum(int(self._work(r).flops[r.device]) for r in blocks),
            executed_flops=executed_flops,
            interrupted_copies=len(interrupted),
        )

    def _count(self, plan: RecoveryPlan) -> None:
        """Count the transfers and the time of a plan; each host does its part of it."""
        for part, pieces in plan.read.items():
            for piece in pieces:
                self._receive(part.device, piece.part.device, part.buffer, int(volumes(piece.box)))
        for rerun in plan.reruns:
            if isinstance(rerun, BlockRerun):
                self.ticks[self.run.hosts[rerun.device]] += int(self._work(rerun).ticks[rerun.device])
                continue
            for member, box in copied_from(self.program, rerun.copy, rerun.device):
                self._receive(rerun.device, member, rerun.copy.source, int(volumes(box)))

    def _receive(self, target: int, source: int, buffer: str, elements: int) -> None:
        hosts = self.run.hosts
        to, from_ = int(hosts[target]), int(hosts[source])
        if to != from_:
            place = self.program.mesh_shape.axis_coordinates
            axis = int(np.flatnonzero(place[to] != place[from_])[0])
            self.received_bytes[axis, to] += elements * item_bytes(self.program.buffers[buffer].dtype)

    def _transfer_ticks(self) -> int:
        """Compute the time of all transfers: axis by axis, each as long as its busiest receiver takes."""
        most: dict[int, int] = {}
        for (axis, _), size_bytes in self.received_bytes.items():
            most[axis] = max(most.get(axis, 0), size_bytes)
        axes = self.mesh.axes
        return sum(
            self.run.slowdown.link(axes[k].name, int(step_ticks(axes[k], "fetch", axes[k].size, size_bytes)))
            for k, size_bytes in most.items()
        )

    def _work(self, rerun: BlockRerun) -> BlockWork:
        run = self.run
        device = self.mesh.device
        work = block_work(self.program, rerun.step, device, run.storage, run.compute_dtype, run.cold[0])
        return work._replace(ticks=run.slowdown.compute(work.ticks))

    def _size_bytes(self, part: Part) -> int:
        buffer = self.program.buffers[part.buffer]
        return int(volumes(buffer.boxes[part.device])) * item_bytes(buffer.dtype)
