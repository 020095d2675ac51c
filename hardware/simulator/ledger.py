"""Memory accounting for all devices: live allocations, the peak, and excess over the capacity."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from tapestry.hardware.simulator.execution import Live, OutOfMemory


class Ledger:
    """The live bytes per device, `(devices,)`; every allocation has a name and a size on each device.

    With a capacity, one for all or `(devices,)`, an allocation that does not fit raises OutOfMemory. `hosts`
    `(devices,)` are the devices in whose memory the allocations really are; `peak_bytes` are theirs. `sampled` counts
    the samples that were taken.
    """

    def __init__(self, devices: int, capacity_bytes: int | np.ndarray | None) -> None:
        self.capacity_bytes = None if capacity_bytes is None else np.broadcast_to(capacity_bytes, (devices,))
        self.live_bytes = np.zeros(devices, dtype=np.int64)
        self.peak_bytes = np.zeros(devices, dtype=np.int64)
        self.hosts = np.arange(devices)
        self.allocations: dict[str, np.ndarray] = {}
        self.slot, self.where = -1, "before the first slot"
        self.sampled = 0

    def enter(self, slot: int, block: str) -> None:
        """Assign later allocations to this slot."""
        self.slot, self.where = slot, f"at slot {slot} (block {block!r})"

    def allocate(self, name: str, size_bytes: np.ndarray) -> None:
        """Count one allocation of `size_bytes` `(devices,)`."""
        if name in self.allocations:
            raise RuntimeError(f"{name!r} is allocated twice ({self.where})")
        self.allocations[name] = size_bytes
        self.live_bytes = self.live_bytes + size_bytes
        held_bytes = self.held_bytes()
        self.peak_bytes = np.maximum(self.peak_bytes, held_bytes)
        if self.capacity_bytes is not None and (held_bytes > self.capacity_bytes).any():
            self._refuse(held_bytes, self.capacity_bytes)

    def sample(self) -> np.ndarray:
        """Take a sample of the live bytes, `(devices,)`, which are the most since the one before."""
        self.sampled += 1
        return self.live_bytes

    def held_bytes(self) -> np.ndarray:
        """Return the live bytes in the memory of each host, `(devices,)`."""
        return self._on_hosts(self.live_bytes)

    def _on_hosts(self, size_bytes: np.ndarray) -> np.ndarray:
        total = np.zeros_like(size_bytes)
        np.add.at(total, self.hosts, size_bytes)
        return total

    def free(self, name: str) -> None:
        """Release one allocation."""
        self.live_bytes = self.live_bytes - self.allocations.pop(name)

    def _refuse(self, held_bytes: np.ndarray, capacity_bytes: np.ndarray) -> NoReturn:
        device = int(np.flatnonzero(held_bytes > capacity_bytes)[0])
        sizes = {name: int(self._on_hosts(size)[device]) for name, size in self.allocations.items()}
        live = [Live(name, size) for name, size in sizes.items() if size]
        live.sort(key=lambda entry: (-entry.size_bytes, entry.name))
        needed_bytes = int(held_bytes[device])
        raise OutOfMemory(device, self.slot, needed_bytes, int(capacity_bytes[device]), live, self.where)
