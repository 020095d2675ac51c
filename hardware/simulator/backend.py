"""The interface of a backend, which holds the buffers of all devices and reports the size of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tapestry.hardware.simulator.rounds import CopyCounts
from tapestry.teg.sharding.expand import ComputeStep, CopyStep

# The array libraries that compute values.
BACKENDS = ("numpy", "torch")


class Backend(Protocol):
    """The memories of all devices, by buffer key. Sizes are bytes per device, int64 `(devices,)`.

    A backend counts what it holds and moves; it decides neither when nor whether something is freed.
    """

    def place(self, key: str) -> np.ndarray:
        """Put every device's box of the source whose buffer is `key` into its memory; return the sizes."""
        ...

    def copy(self, copy: CopyStep) -> CopyCounts:
        """Create the result of a copy on every device."""
        ...

    def compute(self, step: ComputeStep) -> tuple[np.ndarray, ...]:
        """Run a block on every device's index part; return the sizes of its outputs.

        Outputs that accumulate, and are there, take what it makes besides.
        """
        ...

    def free(self, key: str) -> None:
        """Remove a buffer."""
        ...

    @property
    def next_state(self) -> Mapping[str, Sequence[np.ndarray]]:
        """The next value of carried state by the tensor of its source, as the part that each device holds."""
        ...

    def observed(self) -> Mapping[str, np.ndarray]:
        """Return the values seen by sinks so far, whole, by sink site."""
        ...
