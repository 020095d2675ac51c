"""Decision whether plans may be executed with numbers: in seconds rather than minutes, in this computer's memory.

Seconds are estimated from work, by rates that are measured here, and corrected by every execution that was timed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.run.clock import Now
from tapestry.optimizer.run.options import LONGEST_EXECUTION_S
from tapestry.optimizer.run.plan import Plan
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph

SHARE_OF_MEMORY = 0.5
# The sizes of what is timed: a product of square matrices, and a sum of vectors.
MATRIX_SIZE, VECTOR_SIZE, REPEATS = 384, 2**21, 3


class ComputedWork(NamedTuple):
    """The work of an execution on this computer: operations, and bytes that blocks read and write."""

    flops: float
    moved_bytes: float

    def with_other(self, other: ComputedWork) -> ComputedWork:
        """Return this work and another together."""
        return ComputedWork(self.flops + other.flops, self.moved_bytes + other.moved_bytes)


def work_of_program(graph: Graph) -> ComputedWork:
    """Return the work of the unsharded program."""
    types = [
        t for b in graph.blocks if not b.is_view for t in (*graph.input_types(b), *graph.output_types(b))
    ]
    return ComputedWork(graph_flops(graph), sum(found.size_bytes for found in types))


def work_of_plan(plan: Plan) -> ComputedWork:
    """Return the work of a plan on all its devices; bytes grow with the operations that are done more than once."""
    once, flops = work_of_program(plan.graph), plan.cost["compute_flops"]
    return ComputedWork(flops, once.moved_bytes * max(1.0, flops / max(once.flops, 1.0)))


class ExecutionTimer:
    """Estimates of the seconds that this computer takes to compute programs and plans, by the clock `now`.

    `slowdown` is the time that work takes by the clock, by the time that it takes the processor: others use it too.
    """

    def __init__(self, now: Now = time.perf_counter, slowdown: float = 1.0) -> None:
        matrix = np.ones((MATRIX_SIZE, MATRIX_SIZE), np.float32)
        vector = np.ones(VECTOR_SIZE, np.float32)
        matmul_s, add_s = [], []
        for _ in range(REPEATS):
            times_s = [now()]
            _ = matrix @ matrix
            times_s.append(now())
            _ = vector + vector
            times_s.append(now())
            matmul_s.append(times_s[1] - times_s[0])
            add_s.append(times_s[2] - times_s[1])
        self.flops_per_s = 2 * MATRIX_SIZE**3 / max(min(matmul_s), 1e-9)
        self.bytes_per_s = 3 * vector.nbytes / max(min(add_s), 1e-9)
        self._correction = slowdown

    def seconds(self, work: ComputedWork) -> float:
        """Estimate the seconds of an execution."""
        return self._correction * (work.flops / self.flops_per_s + work.moved_bytes / self.bytes_per_s)

    def note(self, work: ComputedWork, seconds: float) -> None:
        """Correct later estimates by an execution that took so many seconds."""
        estimated_s = self.seconds(work)
        if estimated_s > 0 and seconds > 0:
            self._correction *= seconds / estimated_s


def fits_in_memory(plans: Sequence[Plan], share: float = SHARE_OF_MEMORY) -> bool:
    """Return whether the simulated devices' memories fit into a share of this computer's, by default half of it."""
    needed = max((plan.cost["total_memory_bytes"] for plan in plans), default=0)
    return needed <= share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def execution_seconds(timer: ExecutionTimer, graph: Graph, plans: Sequence[Plan]) -> float:
    """Estimate the seconds to execute these plans and the unsharded program."""
    return timer.seconds(work_of_program(graph)) + sum(timer.seconds(work_of_plan(plan)) for plan in plans)


def is_affordable(graph: Graph, plans: Sequence[Plan]) -> bool:
    """Return whether executing these plans and the reference takes seconds, not minutes, and fits in memory."""
    return fits_in_memory(plans) and execution_seconds(ExecutionTimer(), graph, plans) <= LONGEST_EXECUTION_S
