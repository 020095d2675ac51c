"""Clocks of all devices in integer ticks of 1 ps: one for blocks, and one for each communication queue of a stage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.hardware.stage_meshes import StageMeshes
from tapestry.hardware.timing import slowed_ticks


class Lane(NamedTuple):
    """The last copy from one stage to another: since when and until when it runs."""

    since_ticks: int
    until_ticks: int


class Clocks:
    """A clock per device for compute, `(devices,)`, and one per queue: of communication, and of the host's link.

    A copy is a rendezvous of all devices of its stages, in all queues that it takes; a block waits for the copies of
    its slot, and is slower while others run between devices.

    Copies between stages begin after those within the two stages that were issued before. They go one after the other
    for each pair of stages, and do not run beside what the sender sends, or the receiver receives, otherwise. One that
    waits for a stage holds up nothing else.
    """

    def __init__(self, meshes: StageMeshes) -> None:
        self.meshes, self.mesh = meshes, meshes.common
        mesh, stages = self.mesh, len(meshes.kind_of)
        self.compute_ticks = np.zeros(stages * mesh.device_count, dtype=np.int64)
        self.queue_ticks = np.zeros((stages, 1 + max(mesh.host_queues)), dtype=np.int64)
        self.lanes: dict[tuple[int, int], Lane] = {}
        self.copy_end_ticks: dict[str, int] = {}

    def rows(self, stage: int) -> slice:
        """Return where the devices of a stage are among all."""
        return slice(stage * self.mesh.device_count, (stage + 1) * self.mesh.device_count)

    def copy(
        self, name: str, queues: Collection[int], duration_ticks: int, stages: Sequence[int] = (0,)
    ) -> tuple[int, int]:
        """Run a copy on all devices of a stage, or from one to another, in these queues; return its start and end."""
        taken = np.ix_(list(stages), list(queues))
        ready = max(int(self.compute_ticks[self.rows(stage)].max()) for stage in stages)
        start = max(ready, int(self.queue_ticks[taken].max()))
        source, target = stages[0], stages[-1]
        if source == target:
            self.queue_ticks[taken] = start + duration_ticks
        else:
            start = self._begin(start, source, target)
            self.lanes[source, target] = Lane(start, start + duration_ticks)
        self.copy_end_ticks[name] = start + duration_ticks
        return start, start + duration_ticks

    def _begin(self, start: int, source: int, target: int) -> int:
        """Return when a copy from one stage to another begins that is ready at `start`."""
        if (source, target) in self.lanes:
            start = max(start, self.lanes[source, target].until_ticks)
        near = [lane for (a, b), lane in self.lanes.items() if a == source or b == target]
        while running := [lane for lane in near if lane.since_ticks <= start < lane.until_ticks]:
            start = max(lane.until_ticks for lane in running)
        return start

    def wait(self, name: str, stage: int) -> None:
        """Have a stage do nothing before the end of a copy that it sends."""
        rows = self.rows(stage)
        self.compute_ticks[rows] = np.maximum(self.compute_ticks[rows], self.copy_end_ticks[name])

    def block(
        self, waited: tuple[str, ...], duration_ticks: np.ndarray, stage: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run a block on a stage, `duration_ticks` `(devices,)` long, after these copies; return starts and ends."""
        ready = max((self.copy_end_ticks[name] for name in waited), default=0)
        rows = self.rows(stage)
        start = np.maximum(self.compute_ticks[rows], ready)
        copying_ticks = self.queue_ticks[stage, : self.mesh.queue_count].max() - start
        device = self.meshes.of(stage).device
        self.compute_ticks[rows] = start + slowed_ticks(device, duration_ticks, copying_ticks)
        return start, self.compute_ticks[rows].copy()
