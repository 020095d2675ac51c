"""The supervision of a run on processes: ends of processes are noticed, survivors go on, and values are collected."""

from __future__ import annotations

import pickle
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.processes.orders import (
    Failed,
    Finished,
    Report,
    Restored,
    Resume,
    SinkPart,
    Start,
    Stop,
)
from tapestry.hardware.processes.pool import LARGEST_GROUP, DeviceProcesses
from tapestry.hardware.simulator.arrays import source_values
from tapestry.hardware.simulator.execution import Recovery
from tapestry.hardware.simulator.failure import Failure, Slowdown
from tapestry.hardware.simulator.liveness import live_slots
from tapestry.hardware.simulator.loss import hosts_after, moment_of
from tapestry.hardware.simulator.parts import box_part
from tapestry.hardware.simulator.recovery import Part, RecoveryPlan, plan_recovery
from tapestry.hardware.simulator.run import Simulation, check_mesh, simulation_of
from tapestry.hardware.simulator.shards import agree_up_to_rounding, whole_value
from tapestry.hardware.simulator.work import block_work
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph

# How long survivors may report a lost connection before the end of a process is noticed, in seconds.
NOTICE_S = 60.0


class ProcessError(RuntimeError):
    """Error raised when a process ended that should not have, failed, or did not come on."""


@dataclass(frozen=True, eq=False)
class ProcessRun:
    """The values and counts of a run on processes, all measured; `devices` is their number, NaN and 0 for lost ones.

    `outputs`: observed value by sink site, whole. `seconds`: from the first slot to the last report.
    `received_bytes`, `busy_s`, `waiting_s` `(devices,)`: what the process of each device received from others, and how
    long it was in blocks and waited for messages. `recovery` is None if no process was lost; its times are measured.
    """

    outputs: Mapping[str, np.ndarray]
    seconds: float
    received_bytes: np.ndarray
    busy_s: np.ndarray
    waiting_s: np.ndarray
    recovery: Recovery | None


def run_on_processes(
    processes: DeviceProcesses,
    program: ExplicitGraph,
    mesh: Mesh,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    failure: Failure | None = None,
    slowdown: Slowdown | None = None,
    patience_s: float = 600.0,
) -> ProcessRun:
    """Run `program` on one process for each device of `mesh`; those of the failure's devices end at its moment.

    `inputs` are whole arrays by source site; values supplied with the graph may be left out. The moment is the slot in
    which the simulator loses the devices. A run in which no process comes to another slot for `patience_s` is ended.

    Raises:
        ValueError: the mesh is too large or not the one the program was built for, inputs do not fit, the program has
            stages, or one with rounds is to lose devices.
        ProcessError: a process ended that should not have, failed, or did not come on. All have been ended.
        RuntimeError: replicas of an observed value differ.
    """
    check_mesh(program, mesh)
    program.check_one_stage("running on real processes")
    if failure is not None:
        program.check_no_rounds(
            "losing devices on real processes"
        )  # resumed in between, sums would be of two rounds
    devices = mesh.device_count
    if devices > LARGEST_GROUP:
        raise ValueError(
            f"mesh {mesh.name!r} has {devices} devices; at most {LARGEST_GROUP} processes are started"
        )
    run = _Supervision(processes, program, mesh, inputs or {}, failure, slowdown or Slowdown(), patience_s)
    try:
        processes.prepare(devices)
        return run.execute()
    except BaseException:
        processes.kill()
        raise


@dataclass
class _Loss:
    """A loss that was noticed: the slot to go on from, a dry run up to there, and the recovery."""

    slot: int
    run: Simulation
    plan: RecoveryPlan
    hosts: np.ndarray
    reloaded_bytes: int = 0


class _Supervision:
    """One run. `members` are the devices whose processes are alive, `doomed` those that have yet to end."""

    def __init__(
        self,
        processes: DeviceProcesses,
        program: ExplicitGraph,
        mesh: Mesh,
        inputs: Mapping[str, np.ndarray],
        failure: Failure | None,
        slowdown: Slowdown,
        patience_s: float,
    ) -> None:
        self.processes, self.program, self.mesh, self.slowdown = processes, program, mesh, slowdown
        self.patience_s = patience_s
        self.lost = () if failure is None else failure.devices
        self.ends_at = None if failure is None else self._moment(failure)
        self.values = source_values(program, inputs)
        self.members, self.doomed = set(range(mesh.device_count)), set(self.lost)
        self.sinks: defaultdict[tuple[str, int], dict[int, np.ndarray]] = defaultdict(dict)
        self.stopped: dict[int, tuple[float, str]] = {}
        self.finished: dict[int, Finished] = {}
        self.restored: dict[int, Restored] = {}
        self.noticed_at = self.restored_at = self.seen_at = 0.0
        self.seen: list[int] = []
        self.loss: _Loss | None = None

    def execute(self) -> ProcessRun:
        """Order the processes to run, see to it that they do, and collect what they report."""
        self._start()
        self.seen_at = time.monotonic()
        while self.finished.keys() != self.members:
            self._listen()
        began_at = min(report.began_at for report in self.finished.values())
        seconds = time.monotonic() - began_at
        for device in self.members:
            self._order(device, None)
        steps = [slot.step for slot in self.program.slots if slot.step.definition.operator == "sink"]
        seen = defaultdict[str, list[tuple[ComputeStep, int, np.ndarray]]](list)
        for step in steps:
            found_parts = sorted(self.sinks[step.site, step.round].items())
            seen[step.site] += [(step, device, array) for device, array in found_parts]
        outputs = {site: whole_value(self.program, each, agree_up_to_rounding) for site, each in seen.items()}
        found = [self.finished.get(d, Finished(0, 0, np.nan, np.nan)) for d in range(self.mesh.device_count)]
        return ProcessRun(
            outputs,
            seconds,
            np.array([f.received_bytes for f in found], dtype=np.int64),
            np.array([f.busy_s for f in found]),
            np.array([f.waiting_s for f in found]),
            None if self.loss is None else self._recovery(self.loss, began_at),
        )

    def _moment(self, failure: Failure) -> int:
        """Return the slot in which the simulator loses the devices."""
        slow = self.slowdown
        return moment_of(self.program, self.mesh, failure, dry=True, capacity_check=False, slowdown=slow)[0]

    def _at(self, device: int) -> str:
        """Describe a process by its device and the block that it is at."""
        names = [name for name, _ in self.mesh.axis_sizes]
        place = self.program.mesh_shape.axis_coordinates[device].tolist()
        where = ",".join(f"{name}:{k}" for name, k in zip(names, place, strict=True))
        slot = self.processes.progress[device]
        if not 0 <= slot < len(self.program.slots):
            return f"device {device} ({where}), {'before the first' if slot < 0 else 'behind the last'} slot"
        return f"device {device} ({where}), at slot {slot} (block {self.program.slots[slot].step.site!r})"

    def _start(self) -> None:
        bare = replace(self.program.abstract, data={}, external={}, values={})
        program = pickle.dumps(replace(self.program, abstract=bare))
        rendezvous = self.processes.new_rendezvous()
        for device in self.members:
            parts = [Part(key, device) for key in self.program.sources]
            ends_at = self.ends_at if device in self.doomed else None
            order = Start(program, self.mesh, self._sources(parts), rendezvous, self.slowdown, ends_at)
            self._order(device, order)

    def _order(self, device: int, order: Start | Stop | Resume | None) -> None:
        """Send an order; that a process has ended is noticed elsewhere."""
        with suppress(OSError):
            self.processes.workers[device].pipe.send(order)

    def _sources(self, parts: list[Part]) -> dict[Part, np.ndarray]:
        """Return parts of sources, which are here: this process is the host."""
        found = {}
        for part in parts:
            buffer = self.program.buffers[part.buffer]
            whole = self.values[buffer.tensor]
            found[part] = box_part(whole, (0,) * whole.ndim, buffer.boxes[part.device])
        return found

    def _listen(self) -> None:
        """Take what processes report, and notice those that have ended or do not come on."""
        workers = self.processes.workers
        living = [workers[d] for d in self.members]
        wait([*(w.pipe for w in living), *(w.process.sentinel for w in living)], timeout=0.2)
        for device in sorted(self.members):
            self._read(device)
        for device in sorted(self.members):
            if not workers[device].process.is_alive():
                self._read(device)
                self._ended(device)
        if not self.lost or self.doomed or self.loss is not None:
            self._check_connections()
        elif self.stopped.keys() | self.finished.keys() >= self.members:
            self._recover()
        self._check_progress()

    def _check_connections(self) -> None:
        """Check that no process has lost its connections for long while all others are alive."""
        for device, (since, reason) in self.stopped.items():
            if time.monotonic() - since > NOTICE_S:
                raise ProcessError(
                    f"the process of {self._at(device)}, lost its connections, and no process has ended: {reason}"
                )

    def _check_progress(self) -> None:
        now, progress = time.monotonic(), list(self.processes.progress)
        if progress != self.seen:
            self.seen, self.seen_at = progress, now
        if now - self.seen_at > self.patience_s:
            slowest = min(self.members, key=progress.__getitem__)
            raise ProcessError(
                f"no process has come to another slot for {self.patience_s:g} s, the slowest is that of "
                f"{self._at(slowest)}; all have been ended"
            )

    def _read(self, device: int) -> None:
        """Take all reports of a process."""
        process, pipe = self.processes.workers[device]
        try:
            while pipe.poll():
                self._take(device, pipe.recv())
        except (EOFError, OSError):
            process.join(NOTICE_S)

    def _take(self, device: int, report: Report) -> None:
        if isinstance(report, SinkPart):
            self.sinks[report.site, report.round][report.device] = report.array
        elif isinstance(report, Failed):
            error = ProcessError(f"the process of {self._at(device)}, failed: {report.message}")
            error.add_note(report.traceback)
            raise error
        elif isinstance(report, Restored):
            self.restored[device], self.restored_at = report, time.monotonic()
            if self.restored.keys() == self.members:
                self.processes.dismiss(self.lost)
        elif isinstance(report, Finished):
            self.finished[device] = report
        else:
            self.stopped[device] = time.monotonic(), report.reason

    def _ended(self, device: int) -> None:
        """Notice the end of a process: the others are to stop when all have ended that were to end."""
        code = self.processes.workers[device].process.exitcode
        if device not in self.doomed:
            cause = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
            raise ProcessError(
                f"the process of {self._at(device)}, ended unexpectedly ({cause}); all others have been ended"
            )
        if len(self.doomed) == len(self.lost):
            self.noticed_at = time.monotonic()
        self.doomed.discard(device)
        self.members.discard(device)
        self.processes.forget(device)
        if not self.doomed:
            for survivor in self.members:
                self._order(survivor, Stop())

    def _recover(self) -> None:
        """Plan the recovery at the slot that all processes had come to, and order the survivors to go on from there.

        All of them have stopped, and wait for this order.
        """
        progress = self.processes.progress
        slot = min(progress[device] for device in (*self.lost, *self.members))
        run = simulation_of(self.program, self.mesh, None, dry=True, capacity_check=False)
        run.begin()
        for k in range(slot):
            run.run_slot(k)
        lives = live_slots(self.program)
        live = [key for key, life in lives.items() if life.is_complete_at(slot)]
        plan = plan_recovery(self.program, slot, live, self.lost, live)
        self.loss = _Loss(slot, run, plan, hosts_after(run, self.lost))
        self.finished.clear()
        self.stopped.clear()
        rendezvous = self.processes.new_rendezvous()
        for device in self.members:
            sources = self._sources(
                [part for part in plan.reloaded if self.loss.hosts[part.device] == device]
            )
            self.loss.reloaded_bytes += sum(array.nbytes for array in sources.values())
            order = Resume(slot, self.loss.hosts, rendezvous, plan, sources)
            self._order(device, order)

    def _recovery(self, loss: _Loss, began_at: float) -> Recovery:
        """Return what the survivors report of a recovery, with the times measured here."""
        reports = list(self.restored.values())
        steps = [(self.program.slots[slot].step, device) for r in reports for slot, device in r.blocks]
        works = [
            (
                block_work(self.program, step, self.mesh.device, loss.run.storage, None, loss.run.cold[0]),
                device,
            )
            for step, device in steps
        ]
        return Recovery(
            lost=self.lost,
            hosts=tuple(loss.hosts[list(self.lost)].tolist()),
            slot=loss.slot,
            at_ticks=int((self.noticed_at - began_at) * TICKS_PER_S),
            recovery_ticks=int((self.restored_at - self.noticed_at) * TICKS_PER_S),
            lost_bytes=sum(r.lost_bytes for r in reports),
            received_bytes=sum(r.received_bytes for r in reports),
            reloaded_bytes=loss.reloaded_bytes,
            rerun_blocks=len(steps),
            rerun_copies=sum(r.copies for r in reports),
            rerun_flops=sum(int(work.flops[device]) for work, device in works),
            executed_flops=int(loss.run.flops.sum()),
            interrupted_copies=len(loss.run.in_flight),
        )
