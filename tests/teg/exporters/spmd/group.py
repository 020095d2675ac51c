"""Four processes with gloo that run exported modules, one after the other, and count what each rank receives.

The counts are taken from the arguments of the collectives, by wrappers around `torch.distributed`. This module imports
nothing of the project: what the processes run is the exported text alone.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from argparse import Namespace
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from tests.teg.exporters.loading import load_module

RANKS = 4


class RankCounts(NamedTuple):
    """The bytes that a rank received from others, and the most that it held at a time.

    `terms` are those of `peak_bytes` that no plan counts; `counted_bytes` is the most without any of them.
    """

    received_bytes: int
    peak_bytes: int
    counted_bytes: int
    terms: dict[str, int]


class Failed(Exception):
    """An error in one of the processes, or a message with which the program refused its input."""


class ProcessGroup:
    """The processes; `run` hands them a module."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the processes."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, port, theirs), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        for pipe in self.pipes:
            pipe.recv()

    def run(
        self, module: Path, inputs: Path, weights: Path | None, outputs: Path, steps: int = 1
    ) -> list[RankCounts]:
        """Run an exported module on the files; return what each rank received and held in its steps."""
        for pipe in self.pipes:
            pipe.send((module, inputs, weights, outputs, steps))
        answers = [pipe.recv() if pipe.poll(120) else "a rank hangs" for pipe in self.pipes]
        failed = [a for a in answers if isinstance(a, str)]
        if failed:
            # The rank that fails itself says more than those that wait for it, and leaves the group unusable.
            for process in self.processes:
                process.kill()
            self.start()
            raise Failed(min(failed, key=lambda a: ("closure" in a or "Timed out" in a, len(a))))
        return answers

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join(10)
            process.kill()


def _serve(rank: int, port: int, pipe: Connection) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, timeout=timedelta(seconds=60))
    counted = [0]
    _count(dist, counted)
    pipe.send("ready")
    while (task := pipe.recv()) is not None:
        try:
            pipe.send(_run(*task, counted))
        except BaseException:
            pipe.send(traceback.format_exc())
    dist.destroy_process_group()


def _run(
    path: Path, inputs: Path, weights: Path | None, outputs: Path, steps: int, counted: list[int]
) -> RankCounts | str:
    from tests.teg.exporters.spmd.storage_tracker import TERMS, StorageTracker

    module = load_module(path)
    given = {"inputs": str(inputs), "weights": str(weights or ""), "outputs": str(outputs)}
    sources, faults = module.load(Namespace(**given, steps=steps))
    if faults:
        return "\n".join(faults)
    counted[0] = 0
    tracker = StorageTracker(str(path))
    for name in sources:
        tracker.watch(sources[name], f"source {name}")
    with tracker:
        results = module.run_steps(module.step, sources, steps)
    received = counted[0]
    module.save(results, str(outputs))
    peak_bytes, terms = tracker.peak()
    return RankCounts(received, peak_bytes, tracker.peak(*TERMS)[0], terms)


def _count(dist: Any, counted: list[int]) -> None:
    """Wrap the collectives: each adds the bytes that its arguments say this rank receives from others."""

    def wrapped(name: str, received: Callable[..., int]) -> None:
        original = getattr(dist, name)

        def call(*arguments: Any, **named: Any) -> Any:
            counted[0] += received(*arguments, **named)
            return original(*arguments, **named)

        setattr(dist, name, call)

    def exchanged(operations: list[Any]) -> int:
        return sum(o.tensor.nbytes for o in operations if o.op is dist.irecv)

    def nothing(*arguments: Any, **named: Any) -> int:
        raise AssertionError("a collective that this test does not count")

    wrapped("batch_isend_irecv", exchanged)
    for name in (
        *("all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all_single", "broadcast"),
        *("reduce_scatter_tensor",),
    ):
        wrapped(name, nothing)
