"""One cell of the benchmark: a contender on a graph and a mesh, from one seed, in a process of its own."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np

from benchmarks.contenders.catalog import Contender
from benchmarks.contenders.fronts import thinned
from benchmarks.contenders.recorder import FrontRecord, FrontRecorder, cpu_seconds
from tapestry.hardware import Mesh
from tapestry.teg.graph import Graph

T = TypeVar("T")
DIGITS = 9


class CellError(Exception):
    """Error raised for a cell that failed, with the last line of its traceback."""


def apart(run: Callable[[], T]) -> T:
    """Run a function in a process forked from this one: nothing that it caches or allocates is left to the next.

    Raises:
        CellError: the function raised an error, or its process died.
    """
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_send, args=(run, theirs))
    process.start()
    theirs.close()
    try:
        result, failure = ours.recv()
    except EOFError:
        result, failure = None, "its process died, perhaps for lack of memory"
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        process.join()
    if failure:
        raise CellError(failure)
    found: T = result
    return found


def _send(run: Callable[[], Any], pipe: Connection) -> None:
    try:
        pipe.send((run(), ""))
    except Exception as error:
        traceback.print_exc()
        pipe.send((None, f"{type(error).__name__}: {error}"))


def cell(
    contender: Contender,
    graph: Graph,
    mesh: Mesh,
    seed: int,
    seconds: Sequence[float],
    now: Callable[[], float] = cpu_seconds,
) -> dict[str, Any]:
    """Run a contender here by the clock `now`, and return its checkpoints with their fronts."""
    recorder = FrontRecorder(max(seconds), now)
    contender.run(graph, mesh, seed, recorder)
    return {
        "name": contender.name,
        "seed": seed,
        "cpu_s": round(recorder.spent_s, 3),
        "first_front_s": round(recorder.records[0].cpu_s, 3) if recorder.records else None,
        "checkpoints": [_checkpoint(record) for record in recorder.checkpoints(seconds)],
    }


def _checkpoint(record: FrontRecord) -> dict[str, Any]:
    front = thinned(record.front)
    return {
        "cpu_s": record.cpu_s,
        "hypervolume": 0.0,
        "fastest_s": float(front[:, 0].min()) if len(front) else None,
        "evaluations": record.evaluations,
        "plans": len(record.front),
        "front": [[float(f"{value:.{DIGITS}g}") for value in row] for row in front.tolist()],
    }


def front_of(checkpoint: dict[str, Any]) -> np.ndarray:
    """Return the front `(n, m)` of a stored checkpoint."""
    return np.array(checkpoint["front"], np.float64)
