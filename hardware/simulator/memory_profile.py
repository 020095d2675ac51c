"""The memory of a run over time: every allocation with its sizes, and from which sample to which it lives.

There is a sample when the sources are placed, and for each slot two: after its copies, and after its outputs. Between
two of them memory only grows and then shrinks, so no moment holds more than the samples around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import COMPUTE, Execution
from tapestry.hardware.simulator.ledger import Ledger
from tapestry.hardware.simulator.run import SimulationOptions, simulation_of, staging_name
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.stopping import CheckStop, never_stop

COPY, STAGING, MADE, SOURCE = "copy", "staging", "made", "source"


@dataclass(frozen=True, eq=False)
class Allocation:
    """An allocation of a run: for a buffer, or for the staging of the copy that makes it.

    `kind` is one of `source`, `made` (by a block), `copy` and `staging`. `size_bytes` `(devices,)`. It lives at the
    samples from `first` up to but not including `end`.
    """

    buffer: str
    kind: str
    size_bytes: np.ndarray
    first: int
    end: int


@dataclass(frozen=True, eq=False)
class MemoryProfile:
    """The allocations of a run in the order in which they are made, and the run.

    `slot_ticks` `(slots, devices)` are when each slot begins on each device, and its first copies with it;
    `block_ticks` are when its block begins there, behind what it waits for. `capacity_bytes` `(devices,)` are the sizes
    of their memories.
    """

    allocations: tuple[Allocation, ...]
    execution: Execution
    slot_ticks: np.ndarray
    block_ticks: np.ndarray
    capacity_bytes: np.ndarray

    @property
    def sample_count(self) -> int:
        """The number of samples: one, and two per slot."""
        return 1 + 2 * len(self.slot_ticks)

    def live_bytes(self, device: int, allocations: Sequence[Allocation] | None = None) -> np.ndarray:
        """Return what lives on a device at each sample, `(samples,)`, of some allocations or all."""
        change = np.zeros(self.sample_count + 1, dtype=np.int64)
        for each in self.allocations if allocations is None else allocations:
            change[each.first] += each.size_bytes[device]
            change[each.end] -= each.size_bytes[device]
        return np.cumsum(change[:-1])

    def device_classes(self) -> tuple[tuple[int, ...], ...]:
        """Return the devices in classes: those of one hold the same in equal memories, and run at the same times."""
        sizes = np.array([each.size_bytes for each in self.allocations], dtype=np.int64)
        compared = np.concatenate(
            [
                sizes.reshape(-1, len(self.capacity_bytes)),
                self.slot_ticks,
                self.block_ticks,
                [self.capacity_bytes],
            ]
        )
        _, numbers = np.unique(compared.T, axis=0, return_inverse=True)
        classes: dict[int, list[int]] = {}
        for device, number in enumerate(numbers.reshape(-1).tolist()):
            classes.setdefault(number, []).append(device)
        return tuple(map(tuple, classes.values()))


def profile_memory(
    program: ExplicitGraph,
    mesh: Mesh,
    *,
    check_stop: CheckStop = never_stop,
    **options: Unpack[SimulationOptions],
) -> MemoryProfile:
    """Run a program without values, beyond the capacity of the devices if need be, and keep its allocations.

    Raises:
        ValueError: the mesh is not the one that the program was built for.
    """
    settings: SimulationOptions = {**options, "dry": True, "capacity_check": False}
    simulation = simulation_of(program, mesh, None, **settings)
    recorded = _RecordingLedger(program.device_count)
    simulation.ledger = recorded
    execution = simulation.execute(check_stop)
    names = _names(program)
    samples = recorded.sampled
    allocations = tuple(
        Allocation(*names[name], size_bytes, first, recorded.ends.get(name, samples))
        for name, (size_bytes, first) in recorded.begun.items()
    )
    slots = np.array(simulation.lifetimes.begin_ticks, dtype=np.int64).reshape(-1, program.device_count)
    blocks = _block_ticks(slots, execution)
    return MemoryProfile(allocations, execution, slots, blocks, simulation.capacity_bytes)


def _block_ticks(slot_ticks: np.ndarray, execution: Execution) -> np.ndarray:
    """Return when the block of each slot begins; devices of other stages have nothing to wait for."""
    found = slot_ticks.copy()
    blocks = (span for span in execution.spans if span.stream == COMPUTE)
    for row, span in zip(found, blocks, strict=True):
        row[span.numbers] = span.start_ticks
    return found


def _names(program: ExplicitGraph) -> dict[str, tuple[str, str]]:
    """Return the buffer, and the kind of the allocation, of every name in the ledger."""
    names = {key: (key, SOURCE if key in program.sources else MADE) for key in program.buffers}
    for slot in program.slots:
        for copy in slot.issued:
            names[copy.result] = (copy.result, COPY)
            names[staging_name(copy.result)] = (copy.result, STAGING)
    return names


class _RecordingLedger(Ledger):
    """A ledger without a capacity that keeps from which sample to which each allocation lives."""

    def __init__(self, devices: int) -> None:
        super().__init__(devices, None)
        self.begun: dict[str, tuple[np.ndarray, int]] = {}
        self.ends: dict[str, int] = {}

    def allocate(self, name: str, size_bytes: np.ndarray) -> None:
        super().allocate(name, size_bytes)
        self.begun[name] = (np.broadcast_to(size_bytes, self.live_bytes.shape), self.sampled)

    def free(self, name: str) -> None:
        super().free(name)
        self.ends[name] = self.sampled
