"""The process that times exported PyTorch programs: nothing else runs in it, and its threads are what was asked for."""

from __future__ import annotations

import os
import time
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from io import StringIO
from itertools import cycle
from math import ceil, nan
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NamedTuple

from tapestry.hardware.calibration.resident import peak_bytes, resident_bytes, restart_peak
from tapestry.teg.child_processes import follow_owner

WARM_UP_RUNS = 2
CAPTURE_S = 1e-3  # a captured graph takes at least about so long, many times the launch of a graph
MOST_STEPS = 256  # in one graph
COLD_BYTES = 2**26  # more than the caches next to the cores hold, and than the caches of GPUs
MOST_COPIES = 16


class Setting(NamedTuple):
    """The kind of device (`cpu` or `cuda`) that runs programs, how many of them, and the threads of each."""

    device: str = "cpu"
    threads: int = 1
    ranks: int = 1


class Load(NamedTuple):
    """An order to load a program under `name`: the text of its module, and the file of its inputs.

    Of the sources in `cold`, copies take turns, so that no step finds in the cache what the last one read.
    """

    name: str
    text: str
    inputs: str
    cold: tuple[str, ...] = ()


class Time(NamedTuple):
    """An order to time `steps` steps of a program, one after the other."""

    name: str
    steps: int


class Hold(NamedTuple):
    """An order to return the bytes that the process holds, or that a step of a program takes beside its outputs."""

    name: str
    is_step: bool = False


def serve(setting: Setting, rank: int, rendezvous: str, pipe: Connection) -> None:
    """Carry out orders until the owner closes the pipe; each is answered by a value and the text of an error.

    Ranks of one program meet by the file `rendezvous`. Each is pinned to processors of its own where there are enough.
    """
    follow_owner()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(setting.ranks))
    allowed = sorted(os.sched_getaffinity(0))
    if setting.ranks * setting.threads <= len(allowed):
        os.sched_setaffinity(0, allowed[rank * setting.threads :][: setting.threads])
    import torch
    import torch.distributed as dist

    torch.set_num_threads(setting.threads)
    if setting.device == "cuda":
        torch.cuda.set_device(rank)
        torch.backends.cudnn.allow_tf32 = (
            False  # a program's precision is what it states, in products by default too
        )
    torch.set_default_device(setting.device)
    if setting.ranks > 1:
        backend = "nccl" if setting.device == "cuda" else "gloo"
        dist.init_process_group(backend, f"file://{rendezvous}", rank=rank, world_size=setting.ranks)

    def wait() -> None:
        """Wait until all that was launched is done, on all ranks."""
        if setting.device == "cuda":
            torch.cuda.synchronize()
        if setting.ranks > 1:
            dist.barrier()

    programs: dict[str, _Program] = {}
    with suppress(EOFError, OSError):
        while True:
            order: Load | Time | Hold = pipe.recv()
            try:
                if isinstance(order, Load):
                    make = _Captured if setting.device == "cuda" else _Program
                    programs[order.name] = make(order, wait, clock_of(setting))
                    pipe.send((programs[order.name].once_s, ""))
                elif isinstance(order, Hold):
                    held = programs[order.name].scratch_bytes() if order.is_step else resident_bytes()
                    pipe.send((held, ""))
                else:
                    pipe.send((programs[order.name].mean_s(order.steps), ""))
            except Exception as error:
                pipe.send((0.0, "".join(traceback.format_exception_only(error)).strip()))


def clock_of(setting: Setting) -> Callable[[], float]:
    """Return the clock of programs in a setting: the processor time of one that runs alone on one thread.

    Time in which other programs have the processor is not counted there.
    """
    return time.process_time if setting == Setting("cpu", 1, 1) else time.perf_counter


def with_copies(sources: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the sources with as many copies of the tensors in `names` as caches do not hold, the first as given."""
    tensors = {name: sources[name] for name in names if name in sources}
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    count = min(MOST_COPIES, ceil(COLD_BYTES / size)) if size else 1
    copies = ({name: tensor.clone() for name, tensor in tensors.items()} for _ in range(count - 1))
    return [sources, *({**sources, **each} for each in copies)]


class _Program:
    """A loaded program; `once_s` is how long its last step of the warm-up took, in seconds."""

    def __init__(self, order: Load, wait: Callable[[], None], clock: Callable[[], float]) -> None:
        module: Any = ModuleType(order.name)
        exec(compile(order.text, order.name, "exec"), vars(module))
        options = Namespace(inputs=order.inputs, weights=None, outputs=order.inputs, steps=1)
        with redirect_stderr(StringIO()):  # inputs that a program does not read
            sources, faults = module.load(options)
        if faults:
            raise ValueError("; ".join(faults))
        self.step, self.wait, self.clock = module.step, wait, clock
        self.copies = with_copies(sources, order.cold)
        self.turns = cycle(self.copies)
        self.warm_up()

    def warm_up(self) -> None:
        """Run a step twice, and take the time of the last one."""
        for _ in range(WARM_UP_RUNS):
            self.once_s = self.mean_s(1)

    def scratch_bytes(self) -> float:
        """Run a step, and return the bytes that it takes beside its outputs; nan where they are not counted."""
        self.wait()
        if not restart_peak():
            return nan
        before = resident_bytes()
        outputs = self.step(dict(next(self.turns)))
        self.wait()
        made: int = sum(tensor.numel() * tensor.element_size() for tensor in outputs.values())
        return max(peak_bytes() - before - made, 0.0)

    def mean_s(self, count: int) -> float:
        """Run so many steps at least, and return the mean of their seconds."""
        self.wait()
        start = self.clock()
        done = self.run(count)
        self.wait()
        return (self.clock() - start) / done

    def run(self, count: int) -> int:
        """Run so many steps at least; return how many."""
        for _ in range(count):
            self.step(dict(next(self.turns)))
        return count


class _Captured(_Program):
    """A loaded program whose steps a GPU launches as one CUDA graph: no time of the host is in its time.

    A graph holds as many steps as it takes for its own launch not to count, and one for each copy of cold sources.

    Raises:
        ValueError: the program cannot be captured; the message has the reason.
    """

    graph: Any = None

    def warm_up(self) -> None:
        """Run steps one by one, as capture demands, and capture them."""
        import torch

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            super().warm_up()
        least = min(MOST_STEPS, ceil(CAPTURE_S / self.once_s))
        self.captured_steps = len(self.copies) * ceil(least / len(self.copies))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                self.run(self.captured_steps)
        except RuntimeError as error:
            raise ValueError(f"it cannot be captured as a CUDA graph: {error}") from error
        self.graph = graph
        super().warm_up()

    def run(self, count: int) -> int:
        """Launch the graph until so many steps have run at least; return how many."""
        if self.graph is None:
            return super().run(count)
        launches = ceil(count / self.captured_steps)
        for _ in range(launches):
            self.graph.replay()
        return launches * self.captured_steps
