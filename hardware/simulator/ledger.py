"""Memory accounting for all devices: live allocations, the peak, and excess over the capacity."""

from __future__ import annotations

import numpy as np

from tapestry.hardware.simulator.execution import Live, OutOfMemory


class Ledger:
    """The live bytes per device, `(devices,)`; every allocation has a name and a size on each device.

    With a capacity, an allocation that does not fit raises OutOfMemory.
    """

    def __init__(self, devices: int, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes
        self.live_bytes = np.zeros(devices, dtype=np.int64)
        self.peak_bytes = np.zeros(devices, dtype=np.int64)
        self.allocations: dict[str, np.ndarray] = {}
        self.slot, self.where = -1, "before the first slot"

    def enter(self, slot: int, block: str) -> None:
        """Assign later allocations to this slot."""
        self.slot, self.where = slot, f"at slot {slot} (block {block!r})"

    def allocate(self, name: str, size_bytes: np.ndarray) -> None:
        """Count one allocation of `size_bytes` `(devices,)`."""
        if name in self.allocations:
            raise RuntimeError(f"{name!r} is allocated twice ({self.where})")
        self.allocations[name] = size_bytes
        self.live_bytes = self.live_bytes + size_bytes
        self.peak_bytes = np.maximum(self.peak_bytes, self.live_bytes)
        if self.capacity_bytes is not None and (self.live_bytes > self.capacity_bytes).any():
            self._refuse(self.capacity_bytes)

    def free(self, name: str) -> None:
        """Release one allocation."""
        self.live_bytes = self.live_bytes - self.allocations.pop(name)

    def _refuse(self, capacity_bytes: int) -> None:
        device = int(np.flatnonzero(self.live_bytes > capacity_bytes)[0])
        live = [Live(name, int(size[device])) for name, size in self.allocations.items() if size[device]]
        live.sort(key=lambda entry: (-entry.size_bytes, entry.name))
        needed_bytes = int(self.live_bytes[device])
        raise OutOfMemory(device, self.slot, needed_bytes, capacity_bytes, live, self.where)
