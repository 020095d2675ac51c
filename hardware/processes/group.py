"""A process group of torch: the arrays that devices send each other, between the processes that do their shares."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.failure import Slowdown
from tapestry.hardware.timing import TICKS_PER_S, step_ticks
from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.sharding.mesh_shape import MeshShape

# The supervisor notices sooner that processes wait for nothing, and ends them.
TIMEOUT = timedelta(hours=1)
AT_ONCE = timedelta(milliseconds=1)


class ConnectionLost(Exception):
    """Error raised when another process of the group has ended, or has left the group."""


class Message(NamedTuple):
    """An array that one device sends another; `make` builds it where the source device's parts are."""

    source: int
    target: int
    shape: tuple[int, ...]
    dtype: str
    make: Callable[[], Array]


@dataclass
class Traffic:
    """The bytes that one process received from others, and how long it waited for them."""

    received_bytes: int = 0
    waiting_s: float = 0.0


class Group:
    """The processes of one rendezvous; `hosts` `(devices,)` are the processes that do the devices' shares.

    A message between two devices of one process is no transfer. Messages between two processes arrive in the order in
    which they were posted, so all processes post the same messages in the same order. A slow link takes its factor of
    the time that the mesh states for the bytes received, from when the messages are posted.
    """

    def __init__(
        self,
        process: int,
        hosts: np.ndarray,
        rendezvous: str,
        mesh: Mesh,
        slowdown: Slowdown,
        xp: ArrayNamespace,
        traffic: Traffic,
    ) -> None:
        import torch.distributed

        self.torch: Any = torch
        self.process, self.hosts, self.mesh, self.slowdown = process, hosts, mesh, slowdown
        self.xp, self.traffic = xp, traffic
        self.place = MeshShape(mesh.axis_sizes).axis_coordinates
        members = np.unique(hosts).tolist()
        self.works: list[list[Any]] = []
        self.rank_of: Mapping[int, int] = {member: rank for rank, member in enumerate(members)}
        store = torch.distributed.FileStore(rendezvous, len(members))
        try:
            torch.distributed.init_process_group(
                "gloo", timeout=TIMEOUT, rank=self.rank_of[process], world_size=len(members), store=store
            )
        except RuntimeError as error:
            raise ConnectionLost(str(error)) from error

    @property
    def devices(self) -> list[int]:
        """The devices whose shares this process does."""
        return np.flatnonzero(self.hosts == self.process).tolist()

    def post(self, messages: Sequence[Message]) -> Posted:
        """Start to send and receive messages, none of which is complete before `Posted.wait` returns.

        Raises:
            ConnectionLost: another process has ended, or has left the group.
        """
        posted = Posted(self)
        for message in messages:
            posted.add(message)
        return posted

    def close(self) -> None:
        """Leave the group, if that is not done yet: processes that wait for this one notice.

        Messages under way hold its connections open. The first to be given up closes them all, after which torch may
        forget the messages.
        """
        for works in self.works:
            while works:
                with suppress(RuntimeError):
                    works[-1].wait(AT_ONCE)
                works.pop()
        self.works.clear()
        if self.torch.distributed.is_initialized():
            self.torch.distributed.destroy_process_group()


class Posted:
    """Messages under way; `wait` returns for each of them the array, None where another process receives it."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.posted_at = time.monotonic()
        self.arrays: list[Array | None] = []
        self.works: list[Any] = []
        self.axis_bytes: Counter[int] = Counter()
        group.works.append(self.works)

    def add(self, message: Message) -> None:
        """Start to send or receive a message, as far as it is one of this process."""
        group = self.group
        sender, receiver = (int(group.hosts[device]) for device in (message.source, message.target))
        array: Array | None = None
        if sender == group.process:
            array = message.make()
        elif receiver == group.process:
            array = group.xp.empty(message.shape, message.dtype)
        if array is not None and sender != receiver and prod(message.shape) > 0:
            self._move(array, sender, receiver)
        self.arrays.append(array if receiver == group.process else None)

    def _move(self, array: Array, sender: int, receiver: int) -> None:
        group, distributed, wire = self.group, self.group.torch.distributed, self._wire(array)
        try:
            if receiver == group.process:
                self.works.append(distributed.irecv(wire, group.rank_of[sender]))
            else:
                self.works.append(distributed.isend(wire, group.rank_of[receiver]))
        except RuntimeError as error:
            raise ConnectionLost(str(error)) from error
        if receiver == group.process:
            axis = int(np.flatnonzero(group.place[sender] != group.place[receiver])[0])
            self.axis_bytes[axis] += int(array.nbytes)

    def wait(self) -> list[Array | None]:
        """Wait until all messages have been sent and received.

        Raises:
            ConnectionLost: another process has ended, or has left the group.
        """
        begun = time.monotonic()
        try:
            while self.works:
                self.works[-1].wait()
                self.works.pop()
        except RuntimeError as error:
            raise ConnectionLost(str(error)) from error
        self.group.works = [works for works in self.group.works if works is not self.works]
        slowed_s = self.posted_at + self._slow_s() - time.monotonic()
        if slowed_s > 0:
            time.sleep(slowed_s)
        self.group.traffic.waiting_s += time.monotonic() - begun
        self.group.traffic.received_bytes += sum(self.axis_bytes.values())
        return self.arrays

    def _slow_s(self) -> float:
        """Return how long slow links take for what is received, in seconds; 0 if none of them is slow."""
        total = 0
        for k, size_bytes in self.axis_bytes.items():
            axis = self.group.mesh.axes[k]
            if axis.name in self.group.slowdown.axes:
                ticks = int(step_ticks(axis, "fetch", axis.size, size_bytes))
                total += self.group.slowdown.link(axis.name, ticks)
        return total / TICKS_PER_S

    def _wire(self, array: Array) -> Array:
        """Return the array's bytes in row-major order, as a view of it where it has that order."""
        dense = array.resolve_conj().resolve_neg().contiguous()
        return dense.as_strided((dense.numel(),), (1,)).view(self.group.torch.uint8)
