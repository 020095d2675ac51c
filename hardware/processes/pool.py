"""A pool of processes that do the shares of devices; those that ended are started again for the next program."""

from __future__ import annotations

import multiprocessing
from collections.abc import MutableSequence, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

from tapestry.hardware.processes.worker import serve
from tapestry.teg.arrays import arrays_named
from tapestry.teg.child_processes import program_hidden, signals_held

LARGEST_GROUP = 64
# What the server of processes loads beside their own code.
LOADED = ("torch.distributed", "tapestry.teg.arrays.torch_arrays")
# A place in the progress that belongs to no process: nobody waits for it.
NOBODY = 2**62


class Worker(NamedTuple):
    """A process, and our end of its pipe."""

    process: BaseProcess
    pipe: Connection


class DeviceProcesses:
    """Processes for up to `LARGEST_GROUP` devices, started when a program needs them; `close` ends them.

    They are forks of one server that has loaded torch, so that each starts in milliseconds. `progress` has the slot
    that each of them is at. When their owner dies, however it dies, they end too.

    Raises:
        ValueError: torch is not installed.
    """

    def __init__(self) -> None:
        arrays_named("torch", "cpu")
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([serve.__module__, *LOADED])
        self.progress: MutableSequence[int] = self.context.RawArray("q", LARGEST_GROUP)
        self.workers: dict[int, Worker] = {}
        self.folder = TemporaryDirectory(prefix="tapestry-processes-")
        self.generation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, count: int) -> None:
        """Have a process for each of the devices below `count`, at no slot yet."""
        for device in range(count):
            if device in self.workers and not self.workers[device].process.is_alive():
                self.forget(device)
            if device not in self.workers:
                self.workers[device] = self._started(device)
        self.progress[:] = [-1] * count + [NOBODY] * (LARGEST_GROUP - count)

    def new_rendezvous(self) -> str:
        """Return a file by which another group of processes may form."""
        self.generation += 1
        return str(Path(self.folder.name) / str(self.generation))

    def dismiss(self, devices: Sequence[int]) -> None:
        """Let nobody wait for processes that have ended."""
        for device in devices:
            self.progress[device] = NOBODY

    def forget(self, device: int) -> None:
        """Give up a process that has ended."""
        ended = self.workers.pop(device)
        ended.process.join()
        ended.pipe.close()

    def kill(self) -> None:
        """End all processes now."""
        for ended in self.workers.values():
            ended.process.kill()
        for device in list(self.workers):
            self.forget(device)

    def close(self) -> None:
        """End all processes, and remove the files that they have in common."""
        self.kill()
        self.folder.cleanup()

    def _started(self, device: int) -> Worker:
        ours, theirs = self.context.Pipe()
        arguments, name = (device, self.progress, theirs), f"tapestry device {device}"
        process = self.context.Process(target=serve, args=arguments, name=name, daemon=True)
        with signals_held(), program_hidden():
            process.start()
        theirs.close()
        return Worker(process, ours)
