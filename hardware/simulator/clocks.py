"""Clocks of all devices in integer ticks of 1 ps: one for blocks, and one for each communication queue."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import slowed_ticks


class Clocks:
    """A clock per device for compute, `(devices,)`, and one per communication queue, `(queues,)`.

    A copy is a rendezvous of all devices, in all queues that it takes; a block waits for the copies of its slot, and is
    slower while others run.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.compute_ticks = np.zeros(mesh.device_count, dtype=np.int64)
        self.queue_ticks = np.zeros(mesh.queue_count, dtype=np.int64)
        self.copy_end_ticks: dict[str, int] = {}

    def copy(self, name: str, queues: Collection[int], duration_ticks: int) -> tuple[int, int]:
        """Run a copy on all devices, in these queues; return its start and end."""
        taken = list(queues)
        start = int(max(self.queue_ticks[taken].max(), self.compute_ticks.max()))
        end = start + duration_ticks
        self.queue_ticks[taken] = end
        self.copy_end_ticks[name] = end
        return start, end

    def block(self, waited: tuple[str, ...], duration_ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run a block, `duration_ticks` `(devices,)` long, after these copies; return its starts and ends."""
        ready = max((self.copy_end_ticks[name] for name in waited), default=0)
        start = np.maximum(self.compute_ticks, ready)
        copying_ticks = self.queue_ticks.max() - start
        self.compute_ticks = start + slowed_ticks(self.mesh.device, duration_ticks, copying_ticks)
        return start, self.compute_ticks
