"""Live bytes by clock time, a check on live bytes by slot: the first may never exceed the second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOREVER = np.iinfo(np.int64).max


@dataclass
class Lifetime:
    """An allocation of `size_bytes` that is used in `[first, last)` by the clock; `(devices,)` each."""

    size_bytes: np.ndarray
    first_ticks: np.ndarray
    last_ticks: np.ndarray


class Lifetimes:
    """The clock intervals in which the allocations of a run are used, and the begin time of each slot."""

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.known: dict[str, Lifetime] = {}
        self.begin_ticks: list[np.ndarray] = []

    def begin_slot(self, compute_ticks: np.ndarray) -> None:
        self.begin_ticks.append(compute_ticks)

    def allocate(self, name: str, size_bytes: np.ndarray, ticks: np.ndarray | int) -> None:
        start = np.zeros(self.devices, dtype=np.int64) + ticks
        self.known[name] = Lifetime(size_bytes, start, start)

    def used(self, name: str, until_ticks: np.ndarray | int) -> None:
        lifetime = self.known[name]
        lifetime.last_ticks = np.maximum(lifetime.last_ticks, until_ticks)

    def check(self, kept: set[str], counted_bytes: np.ndarray) -> None:
        """Compare the lifetimes with the counted bytes, `(slots, 2, devices)`; `kept` are live to the end.

        Raises:
            RuntimeError: on some device more bytes were live at some time than were counted for its slot.
        """
        if not self.begin_ticks:
            return
        for name in kept:
            self.used(name, FOREVER)
        lives = list(self.known.values())
        sizes = np.stack([life.size_bytes for life in lives])
        first = np.stack([life.first_ticks for life in lives])
        last = np.stack([life.last_ticks for life in lives])
        begin = np.stack(self.begin_ticks)
        for device in range(self.devices):
            times = np.concatenate([first[:, device], last[:, device]])
            change = np.concatenate([sizes[:, device], -sizes[:, device]])
            moments, place = np.unique(times, return_inverse=True)
            live = np.cumsum(np.bincount(place, weights=change, minlength=len(moments)).astype(np.int64))
            slot = np.maximum(np.searchsorted(begin[:, device], moments, side="right") - 1, 0)
            excess = live - counted_bytes[slot, :, device].max(axis=1)
            if (excess > 0).any():
                worst = int(excess.argmax())
                raise RuntimeError(
                    f"device {device}, slot {slot[worst]}: {live[worst]:,} B are live by the clock at tick "
                    f"{moments[worst]}, {excess[worst]:,} B more than were counted"
                )
