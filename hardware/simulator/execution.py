"""The result of a run on the simulator: observed values, counts and the events of its clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import NO_CLASS, TimeClass
from tapestry.teg.brief import counted, shown
from tapestry.teg.sharding.copies import Round

COMPUTE, COMMUNICATION = "compute", "communication"


class Event(NamedTuple):
    """A block or copy on one stream of one device, in ticks of 1 ps; `size_bytes`: accessed or received.

    `kind` is the class of the block, such as `softmax.fp32`, or what the copy exchanges, such as `all_gather`. `queues`
    are the communication queues that a copy takes.
    """

    device: int
    stream: str
    name: str
    start_ticks: int
    end_ticks: int
    size_bytes: int
    kind: str
    queues: tuple[int, ...]


class ClockSpan(NamedTuple):
    """A block or a copy by the clocks of all its devices, `(devices,)` in ticks of 1 ps.

    Those are all devices, or where a program has stages the ones in `devices`, by their numbers.
    `size_bytes` are accessed or received. A copy begins on all devices at once, when all their clocks are free; so does
    a recovery. `time_class` is that of a block. Of a copy, `exchanges` are the rounds with the most bytes that a device
    receives in each, and `exchange_ticks` their part of its time; the rest is spent on moves within the devices. It
    takes `queues` meanwhile, and the figures of `mesh` hold for it.
    """

    stream: str
    name: str
    start_ticks: np.ndarray
    end_ticks: np.ndarray
    size_bytes: np.ndarray
    is_joint: bool
    time_class: TimeClass = NO_CLASS
    exchanges: tuple[tuple[Round, int], ...] = ()
    exchange_ticks: int = 0
    queues: tuple[int, ...] = ()
    devices: np.ndarray | None = None
    mesh: Mesh | None = None

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of its devices, `(devices,)`."""
        return np.arange(len(self.start_ticks)) if self.devices is None else self.devices

    @property
    def kind(self) -> str:
        """The class of a block, or the kinds of exchange of a copy: `all_gather`, `reduce_scatter+fetch`."""
        kinds = dict.fromkeys(each.kind for each, _ in self.exchanges)
        return self.time_class.name or "+".join(kinds) or self.stream

    def events(self) -> Iterator[Event]:
        """Yield the event of each device."""
        columns = (self.numbers, self.start_ticks, self.end_ticks, self.size_bytes)
        for device, start, end, size_bytes in zip(*(c.tolist() for c in columns), strict=True):
            yield Event(device, self.stream, self.name, start, end, size_bytes, self.kind, self.queues)


@dataclass(frozen=True)
class Recovery:
    """The recovery from a loss of devices: what was lost, and what it took to go on.

    `lost` devices, and the survivors (`hosts`) that do their share from then on. The loss came at tick `at_ticks`,
    before the block of `slot`. `lost_bytes` are live parts of the lost devices. `received_bytes` came from survivors,
    `reloaded_bytes` of sources from the host. `rerun_blocks` and `rerun_copies`, each on one device, were run again,
    with `rerun_flops`; `executed_flops` are those of all devices up to then, which a restart repeats.
    `interrupted_copies` were in flight, and made again by all devices. All this took `recovery_ticks`.
    """

    lost: tuple[int, ...]
    hosts: tuple[int, ...]
    slot: int
    at_ticks: int
    recovery_ticks: int
    lost_bytes: int
    received_bytes: int
    reloaded_bytes: int
    rerun_blocks: int
    rerun_copies: int
    rerun_flops: int
    executed_flops: int
    interrupted_copies: int


@dataclass(frozen=True, eq=False)
class Execution:
    """The values and counts of one run. All counts are int64; `devices` and `slots` are numbers of them.

    `outputs`: observed value by sink site, whole (empty after a dry run).
    `peak_memory_bytes` `(devices,)`: the most bytes ever live, counted after each allocation.
    `memory_bytes` `(slots, 2, devices)`: live bytes after the slot's copies, and after its outputs.
    `source_memory_bytes` `(devices,)`: live bytes before slot 0.
    `staging_bytes`: per copy the bytes it needed besides its result, `(devices,)`.
    `received_bytes` `(devices,)`: logical bytes that came from other devices.
    `link_bytes` `(devices, devices)`: the same by `[source, target]`; None where transfers were counted by
    device class.
    `axis_bytes`: the same by the slowest mesh axis crossed.
    `makespan_ticks`: when the last device is done, in ticks of 1 ps; `compute_ticks` `(devices,)`: time in
    blocks; `copy_ticks`: time of all copies together.
    `flops`, `accessed_bytes` `(devices,)`: work of the blocks, bytes they read and wrote.
    `spans`: blocks and copies by the clocks, in the order of issue; `events`: those of each device, only when a
    trace was requested. `queue_names`: those of the communication queues. `seed`: by which the inputs were drawn; None
    if they were given, or nothing was computed.
    `state`: the next value of carried state by the tensor of its source, as the part that each device holds (empty
    after a dry run).
    `recovery`: only if devices were lost. `stages`: how many the program has; their devices follow each other.
    """

    outputs: Mapping[str, np.ndarray]
    peak_memory_bytes: np.ndarray
    memory_bytes: np.ndarray
    source_memory_bytes: np.ndarray
    staging_bytes: Mapping[str, np.ndarray]
    received_bytes: np.ndarray
    link_bytes: np.ndarray | None
    axis_bytes: Mapping[str, int]
    makespan_ticks: int
    compute_ticks: np.ndarray
    copy_ticks: int
    flops: np.ndarray
    accessed_bytes: np.ndarray
    events: tuple[Event, ...] = ()
    spans: tuple[ClockSpan, ...] = ()
    queue_names: tuple[str, ...] = (COMMUNICATION,)
    seed: int | None = None
    state: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)
    recovery: Recovery | None = None
    stages: int = 1

    def __repr__(self) -> str:
        return shown(
            "Execution",
            (
                f"{self.makespan_ticks / 1e12:.4g} s",
                counted(len(self.peak_memory_bytes), "device"),
                f"peak {int(self.peak_memory_bytes.max()):,} B",
                f"traffic {self.traffic_bytes:,} B",
                self._values_text(),
            ),
        )

    def _values_text(self) -> str:
        if not self.outputs:
            return "values not computed"
        drawn = "" if self.seed is None else f" of random inputs (seed {self.seed})"
        return counted(len(self.outputs), "output") + drawn

    @property
    def traffic_bytes(self) -> int:
        """The logical bytes received from other devices, summed over devices."""
        return int(self.received_bytes.sum())


class Live(NamedTuple):
    """An allocation on one device."""

    name: str
    size_bytes: int


class OutOfMemory(MemoryError):
    """Error raised when an allocation does not fit on a device.

    It holds device, slot, bytes needed, capacity and live allocations. `needed_bytes` counts everything live with the
    new allocation; `slot` is -1 while sources are placed; `live` is sorted by size, the largest first, the new
    allocation included.
    """

    def __init__(
        self, device: int, slot: int, needed_bytes: int, capacity_bytes: int, live: Sequence[Live], where: str
    ) -> None:
        self.device, self.slot = device, slot
        self.needed_bytes, self.capacity_bytes = needed_bytes, capacity_bytes
        self.live = tuple(live)
        largest = ", ".join(f"{name} {size_bytes:,} B" for name, size_bytes in self.live[:5])
        more = f" and {len(self.live) - 5} more" if len(self.live) > 5 else ""
        super().__init__(
            f"device {device} is out of memory {where}: {needed_bytes:,} B are needed, "
            f"it has {capacity_bytes:,} B; the largest live buffers are {largest}{more}"
        )
