"""The run of a program as one process does it: blocks, copies with other processes, and the way back after a loss."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Mapping, MutableSequence, Sequence
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from tapestry.hardware.processes.copies import RankCopy
from tapestry.hardware.processes.group import ConnectionLost, Group, Message, Traffic
from tapestry.hardware.processes.orders import Finished, Restored, Resume, SinkPart, Start
from tapestry.hardware.simulator.liveness import live_slots
from tapestry.hardware.simulator.recovery import BlockRerun, Part, RecoveryPlan, SurvivingPiece
from tapestry.hardware.simulator.restoring import Restoration
from tapestry.hardware.simulator.shards import read_elements, run_shard
from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph

# How long a process that is to end looks away between two looks at the others, in seconds.
PAUSE_S = 0.0005


class RankRun:
    """The share of one process in the run of a program.

    `progress` has the slot that each process is at. A buffer is given up when all processes have passed the slot in
    which the plan frees it: whichever process is lost, all others can go on from where the slowest one is.
    """

    def __init__(
        self, start: Start, process: int, progress: MutableSequence[int], pipe: Connection, xp: ArrayNamespace
    ) -> None:
        self.program: ExplicitGraph = pickle.loads(start.program)
        self.xp, self.start, self.process, self.progress, self.pipe = xp, start, process, progress, pipe
        self.traffic = Traffic()
        self.busy_s = 0.0
        self.slow = start.slowdown.devices.get(process, 1.0)
        self.parts: dict[Part, Array] = self._loaded(start.sources)
        self.reloaded: dict[Part, Array] = {}
        self.copies: dict[str, RankCopy] = {}
        self.lives = live_slots(self.program)
        self.freed: list[list[str]] = [[] for _ in range(len(self.program.slots) + 1)]
        for key, life in self.lives.items():
            self.freed[life.freed].append(key)
        self.given_up = 0
        self.group = self._join(np.arange(self.program.mesh_shape.device_count), start.rendezvous)
        self.began_at = time.monotonic()

    def proceed(self, first: int) -> Finished:
        """Run all slots from `first` on.

        Raises:
            ConnectionLost: another process has ended, or has left the group.
        """
        for k in range(first, len(self.program.slots)):
            self._enter(k)
            slot = self.program.slots[k]
            for copy in slot.issued:
                self._issue(copy)
            for key in slot.waited:
                self._keep(key, self.copies.pop(key).finish())
            self._block(slot.step)
        self._enter(len(self.program.slots))
        return Finished(self.began_at, self.traffic.received_bytes, self.busy_s, self.traffic.waiting_s)

    def resume(self, order: Resume) -> Restored:
        """Go back to the start of a slot, form the group of survivors, and find lost parts again.

        Raises:
            ConnectionLost: another process has ended, or has left the group.
        """
        self.group.close()
        self.copies.clear()
        live = [key for key, life in self.lives.items() if life.is_complete_at(order.slot)]
        kept = set(live)
        self.parts = {part: array for part, array in self.parts.items() if part.buffer in kept}
        self.given_up = order.slot
        self.progress[self.process] = order.slot
        self.reloaded = self._loaded(order.sources)
        self.group = self._join(order.hosts, order.rendezvous)
        report = self._restore(order.plan, live)
        for slot in self.program.slots[: order.slot]:
            for copy in slot.issued:
                if self.lives[copy.result].is_in_flight_at(order.slot):
                    self._issue(copy)
        return report

    def held(self, key: str, device: int) -> Array:
        """Return the elements of a device's part of a buffer."""
        return self.parts[Part(key, device)]

    def source_part(self, key: str, device: int) -> Array:
        """Return the part of a source's tensor that was read from the host again."""
        return self.reloaded[Part(key, device)]

    def run_on(self, step: ComputeStep, device: int, parts: Sequence[Array]) -> Sequence[Array]:
        """Run a block on one device from its parts of the buffers that the block reads; return those that it makes."""
        arrays = [
            read_elements(self.xp, self.program, read, device, part)
            for read, part in zip(step.reads, parts, strict=True)
        ]
        return run_shard(self.xp, self.program, step, device, arrays)

    def _loaded(self, sources: Mapping[Part, np.ndarray]) -> dict[Part, Array]:
        return {part: self.xp.from_numpy(array) for part, array in sources.items()}

    def _join(self, hosts: np.ndarray, rendezvous: str) -> Group:
        start = self.start
        return Group(self.process, hosts, rendezvous, start.mesh, start.slowdown, self.xp, self.traffic)

    def _enter(self, k: int) -> None:
        """Begin a slot: give up what nobody can need again, and end here if the order says so."""
        self.progress[self.process] = k
        passed = max(min(self.progress), 0)
        for keys in self.freed[self.given_up : passed]:
            for key in keys:
                for device in self.group.devices:
                    self.parts.pop(Part(key, device), None)
        self.given_up = max(self.given_up, passed)
        if k == self.start.ends_at:
            while min(self.progress) < k:
                time.sleep(PAUSE_S)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.pipe.poll():
            raise ConnectionLost("the supervisor has noticed the end of a process")

    def _issue(self, copy: CopyStep) -> None:
        source = self.program.buffers[copy.source]
        held = {device: self.held(copy.source, device) for device in self.group.devices}
        mesh_shape = self.program.mesh_shape
        self.copies[copy.result] = RankCopy(
            self.group, copy.plan, source.shape, source.dtype, mesh_shape, held
        )

    def _keep(self, key: str, parts: dict[int, Array]) -> None:
        for device, array in parts.items():
            self.parts[Part(key, device)] = array

    def _block(self, step: ComputeStep) -> None:
        """Run a block on every device of this process; a slow one sleeps for as long as it would take more."""
        begun = time.monotonic()
        for device in self.group.devices:
            held = [self.held(read.buffer, device) for read in step.reads]
            if step.definition.operator == "sink":
                read = read_elements(self.xp, self.program, step.reads[0], device, held[0])
                self.pipe.send(SinkPart(step.site, step.round, device, self.xp.to_numpy(read)))
                continue
            for key, array in zip(step.outputs, self.run_on(step, device, held), strict=True):
                part = Part(key, device)
                is_more = step.round and step.accumulates
                self.parts[part] = (
                    combine(self.xp, step.accumulates, self.parts[part], array) if is_more else array
                )
        if self.slow > 1:
            time.sleep((self.slow - 1) * (time.monotonic() - begun))
        self.busy_s += time.monotonic() - begun

    def _restore(self, plan: RecoveryPlan, live: Sequence[str]) -> Restored:
        before = self.traffic.received_bytes
        restoration = _RankRestoration(self)
        found = restoration.follow(plan)
        received_bytes = self.traffic.received_bytes - before
        lost_bytes = 0
        for key in live:
            for device in self.group.devices:
                if Part(key, device) not in self.parts:
                    self.parts[Part(key, device)] = array = found[Part(key, device)]
                    lost_bytes += int(array.nbytes)
        mine = [r for r in plan.reruns if restoration.does(r.device)]
        blocks = tuple((r.slot, r.device) for r in mine if isinstance(r, BlockRerun))
        return Restored(lost_bytes, received_bytes, blocks, len(mine) - len(blocks))


class _RankRestoration(Restoration):
    """The values that one process finds again; pieces come from the processes that have them."""

    def __init__(self, run: RankRun) -> None:
        super().__init__(run)
        self.group = run.group

    def does(self, device: int) -> bool:
        return device in self.group.devices

    def collect(self, device: int, pieces: Sequence[SurvivingPiece]) -> list[Array] | None:
        messages = []
        for piece in pieces:
            shape = tuple(np.subtract(piece.box[:, 1], piece.box[:, 0]).tolist())
            dtype = self.program.buffers[piece.part.buffer].dtype
            make = partial(self.value_of, piece)
            messages.append(Message(piece.part.device, device, shape, dtype, make))
        arrays = self.group.post(messages).wait()
        return arrays if self.does(device) else None
