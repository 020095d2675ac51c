"""Seconds that programs take on this machine: each is exported to PyTorch and run, in turns with the others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from math import nan
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from tapestry.hardware.calibration.host import RunError, check_gpus
from tapestry.hardware.calibration.timed import Hold, Load, Setting, Time, serve
from tapestry.teg.child_processes import program_hidden, signals_held
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph

FEWEST_PASSES = 5
DISTINCT = (
    2**20 - 1
)  # random numbers of a source: as good for timing as more, and no power of two that aligns equal ones
SHORTEST_BATCH_S = 0.02  # a batch of steps lasts at least so long: the clock is read twice for each


Progress: TypeAlias = Callable[[float, str], None]  # takes the share that is done, and what is next


def unreported(fraction: float, name: str) -> None:
    """Report nothing."""


class Timing(NamedTuple):
    """The measured time of a program: the median over passes, and half the distance of the quartiles over it."""

    seconds: float
    repeat_error: float


class TimedRuns:
    """Processes that time programs of so many devices as `setting` has ranks; nothing else runs in them.

    Raises:
        RunError: a program cannot be exported or run, or there are too few GPUs.
    """

    def __init__(self, setting: Setting) -> None:
        if setting.device == "cuda":
            check_gpus(setting.ranks)
        self.folder = TemporaryDirectory(prefix="tapestry-timing-")
        self.loaded: dict[str, float] = {}
        context = multiprocessing.get_context("spawn")
        self.workers: list[tuple[BaseProcess, Connection]] = []
        for rank in range(setting.ranks):
            ours, theirs = context.Pipe()
            arguments = (setting, rank, f"{self.folder.name}/rendezvous", theirs)
            process = context.Process(
                target=serve, args=arguments, name=f"tapestry timing {rank}", daemon=True
            )
            with signals_held(), program_hidden():
                process.start()
            theirs.close()
            self.workers.append((process, ours))
        self.bare_bytes = nan  # that a process holds before its first program; nan where it is not counted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, pipe in self.workers:
            pipe.close()
            process.kill()
            process.join()
        self.folder.cleanup()

    def load(self, name: str, explicit: ExplicitGraph, seed: int = 0, *, is_part: bool = False) -> None:
        """Export a plan's program, give it random inputs, and warm it up.

        If it `is_part` of larger programs, which read all their parameters in each step, then no step finds its
        parameters in the cache.
        """
        if not self.loaded:
            self.bare_bytes = self._answer(Hold(name))
        path = Path(self.folder.name) / f"{len(self.loaded)}.npz"
        np.savez(path, **_values(explicit.abstract, seed))  # type: ignore[arg-type]
        sources = explicit.abstract.sources if is_part else ()
        cold = tuple(b.site for b in sources if b.definition.get("role") == "parameter")
        self.loaded[name] = self._answer(Load(name, to_torch(explicit), str(path), cold))

    def measure(
        self,
        names: Iterable[str],
        limit_s: float,
        clock: Callable[[], float],
        progress: Progress = unreported,
    ) -> dict[str, Timing]:
        """Time loaded programs in passes, each in another order, until `limit_s` is spent; five at least.

        Noise comes in bursts, so that the runs of one program are spread over the whole time.
        """
        order, found = np.random.default_rng(0), {name: list[float]() for name in names}
        start, passes = clock(), 0
        while passes < FEWEST_PASSES or (clock() - start) * (passes + 1) / passes < limit_s:
            for name in order.permutation(list(found)).tolist():
                spent = (clock() - start) / limit_s if limit_s > 0 else 1.0
                progress(min(passes / FEWEST_PASSES, spent, 1.0), name)
                count = max(1, round(SHORTEST_BATCH_S / max(self.loaded[name], 1e-6)))
                found[name].append(self._answer(Time(name, count)))
            passes += 1
        return {name: _timing(times) for name, times in found.items()}

    def scratch_bytes(self, name: str) -> float:
        """Return the bytes that a step of a loaded program takes beside its outputs; nan where they are not counted."""
        return self._answer(Hold(name, is_step=True))

    def _answer(self, order: Load | Time | Hold) -> float:
        """Have all ranks carry out an order; return the largest of their answers."""
        try:
            for _, pipe in self.workers:
                pipe.send(order)
            answers = [pipe.recv() for _, pipe in self.workers]
        except (EOFError, OSError) as error:
            raise RunError(
                f"{order.name!r}: the process that ran it has ended; it may have needed too much memory"
            ) from error
        for _, fault in answers:
            if fault:
                raise RunError(f"{order.name!r}: {fault}")
        return max(float(value) for value, _ in answers)


def fewest_s(once_s: float) -> float:
    """Return about how long the fewest passes over a program take, one run of which takes `once_s` seconds."""
    return FEWEST_PASSES * max(once_s, SHORTEST_BATCH_S)


def _timing(times: Sequence[float]) -> Timing:
    middle = median(times)
    low, _, high = quantiles(times, n=4)
    return Timing(middle, (high - low) / 2 / middle)


def _values(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Return random inputs, and the values that the graph holds, in the shapes that the user's program has."""
    held = {b.site: graph.data[b.outputs[0]] for b in graph.sources if b.outputs[0] in graph.data}
    values = random_inputs(graph, np.random.default_rng(seed), DISTINCT) | held
    shapes = {block.site: block.definition.get("logical_shape") for block in graph.sources}
    return {site: value.reshape(shapes[site] or value.shape) for site, value in values.items()}
