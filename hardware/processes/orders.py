"""Orders of the supervisor to its processes, and their reports; all of them travel through pipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.failure import Slowdown
from tapestry.hardware.simulator.recovery import Part, RecoveryPlan


@dataclass(frozen=True)
class Start:
    """The order to run a program from its first slot; `program` is the pickled explicit graph, without values.

    `sources` are the parts that the process's device begins with. `rendezvous` is the file by which the group forms.
    A process with `ends_at` ends itself at the start of that slot, as soon as all others have come there.
    """

    program: bytes
    mesh: Mesh
    sources: Mapping[Part, np.ndarray]
    rendezvous: str
    slowdown: Slowdown
    ends_at: int | None


@dataclass(frozen=True)
class Stop:
    """The order to stop before the next slot and to leave the group, as a process of it has ended."""


@dataclass(frozen=True)
class Resume:
    """The order, after a stop, to form a group of survivors, find lost parts again and go on from the start of `slot`.

    `hosts` `(devices,)` are the processes that do the devices' shares from then on. `sources` are parts that the
    process is to take from the host again.
    """

    slot: int
    hosts: np.ndarray
    rendezvous: str
    plan: RecoveryPlan
    sources: Mapping[Part, np.ndarray]


@dataclass(frozen=True)
class SinkPart:
    """The report of the part of a sink's value that a device has in a round."""

    site: str
    round: int
    device: int
    array: np.ndarray


@dataclass(frozen=True)
class Stopped:
    """The report that a process has left its group: it was to stop, or another one has ended or left."""

    reason: str


@dataclass(frozen=True)
class Restored:
    """The report of what a process did to find lost parts again: `blocks` by slot and device, bytes received."""

    lost_bytes: int
    received_bytes: int
    blocks: tuple[tuple[int, int], ...]
    copies: int


@dataclass(frozen=True)
class Finished:
    """The report that all slots are done: the bytes received, the time in blocks and the time spent in waiting.

    `began_at` is when the first slot began, by the clock that all processes of this host share.
    """

    began_at: float
    received_bytes: int
    busy_s: float
    waiting_s: float


@dataclass(frozen=True)
class Failed:
    """The report of an error in a process, in one line, and where it arose."""

    message: str
    traceback: str


Report = SinkPart | Stopped | Restored | Finished | Failed
