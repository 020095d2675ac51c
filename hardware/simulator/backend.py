"""The promise of a backend: it holds the buffers of all devices and says how large each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tapestry.hardware.simulator.rounds import CopyCounts
from tapestry.teg.sharding.expand import ComputeStep, CopyStep


class Backend(Protocol):
    """Devices' memories, by buffer key. Sizes are bytes per device, int64 `(devices,)`.

    A backend counts what it holds and moves; it decides neither when nor whether something is freed.
    """

    def place(self, site: str) -> np.ndarray:
        """Put every device's box of the source tensor `site` into its memory; the sizes."""
        ...

    def copy(self, copy: CopyStep) -> CopyCounts:
        """Make the result of a copy on every device."""
        ...

    def compute(self, step: ComputeStep) -> tuple[np.ndarray, ...]:
        """Run a block on every device's index part; the sizes of its outputs."""
        ...

    def free(self, key: str) -> None:
        """Forget a buffer."""
        ...

    def observed(self) -> Mapping[str, np.ndarray]:
        """The values seen by sinks so far, whole, by sink site."""
        ...
