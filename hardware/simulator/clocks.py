"""Clocks of all devices in integer ticks of 1 ps: one for blocks, one for copies."""

from __future__ import annotations

import numpy as np

from tapestry.hardware.mesh import Device
from tapestry.hardware.timing import slowed_ticks


class Clocks:
    """A pair of clocks per device, one for compute and one for communication, `(devices,)` each.

    A copy is a rendezvous of all devices; a block waits for the copies of its slot, and is slower while others run.
    """

    def __init__(self, device: Device, devices: int) -> None:
        self.device = device
        self.compute_ticks = np.zeros(devices, dtype=np.int64)
        self.communication_ticks = np.zeros(devices, dtype=np.int64)
        self.copy_end_ticks: dict[str, int] = {}

    def copy(self, name: str, duration_ticks: int) -> tuple[int, int]:
        """Run a copy on all devices; return its start and end."""
        start = int(max(self.communication_ticks.max(), self.compute_ticks.max()))
        end = start + duration_ticks
        self.communication_ticks[:] = end
        self.copy_end_ticks[name] = end
        return start, end

    def block(self, waited: tuple[str, ...], duration_ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run a block, `duration_ticks` `(devices,)` long, after these copies; return its starts and ends."""
        ready = max((self.copy_end_ticks[name] for name in waited), default=0)
        start = np.maximum(self.compute_ticks, ready)
        copying_ticks = self.communication_ticks - start
        self.compute_ticks = start + slowed_ticks(self.device, duration_ticks, copying_ticks)
        return start, self.compute_ticks
