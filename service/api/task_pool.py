"""The task pool: processes beside the API for work of more than a few milliseconds of computing.

A task is a function of a module with plain arguments and a plain result, that may be repeated. It runs in a
process of its own, which gives way to the API and is replaced after some tasks, when it dies or when a task
takes too long; a task whose process died is done once more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from tapestry.service.api.problems import Problem
from tapestry.service.store import StoreError

PROCESSES = 2
LONGEST_QUEUE = 16  # of the 40 threads that answer requests, those that may wait for the task pool
LIMIT_S = 120.0
START_S = 60.0
TASKS_PER_PROCESS = 200
ATTEMPTS = 2
NICENESS = 10
RETRY_AFTER_S = 5

T = TypeVar("T")

log = logging.getLogger("tapestry.pool")


class TaskPool:
    """A pool of worker processes that run tasks; `do` may be called from any thread, and waits."""

    def __init__(
        self, workers: int = PROCESSES, limit_s: float = LIMIT_S, places: int = LONGEST_QUEUE
    ) -> None:
        self._limit_s = limit_s
        self._is_closed = False
        self._places = threading.BoundedSemaphore(places)
        self._workers = [_PoolWorker() for _ in range(workers)]
        self._free: queue.LifoQueue[_PoolWorker] = (
            queue.LifoQueue()
        )  # the one that is warm already comes first
        for worker in self._workers:
            self._free.put(worker)

    def do(self, task: Callable[..., T], *arguments: Any) -> T:
        """Run a task in a worker process and return its result.

        Raises:
            Problem: 503, too many wait, it took too long, or it brought its process down.
            StoreError: as the task raised it.
        """
        if not self._places.acquire(blocking=False):
            raise _later("busy", "many programs are being read and unfolded; try again soon")
        try:
            worker = self._free.get(timeout=self._limit_s)
        except queue.Empty:
            raise _later("busy", "many programs are being read and unfolded; try again soon") from None
        else:
            try:
                return self._attempt(worker, task, arguments)
            finally:
                self._free.put(worker)
        finally:
            self._places.release()

    def _attempt(self, worker: _PoolWorker, task: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        for _ in range(0 if self._is_closed else ATTEMPTS):
            try:
                result: T = worker.do(task, arguments, self._limit_s)
                return result
            except TimeoutError:
                worker.dismiss()
                message = (
                    f"this took more than the {self._limit_s:g} s that are allowed; submit something smaller"
                )
                raise _later("too_slow", message) from None
            except (EOFError, OSError):
                worker.dismiss()
                if self._is_closed:
                    break
                log.warning("a process of the task pool died in %s", task.__name__)
        if self._is_closed:
            raise _later("unavailable", "the service is ending; try again soon")
        message = "this brought its process down, twice; perhaps it needs more memory than there is"
        raise _later("unavailable", message)

    def close(self) -> None:
        """End the processes, even in the middle of a task; callers that wait get an error that the service ends."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()


def _later(code: str, message: str) -> Problem:
    return Problem(503, code, message, headers={"Retry-After": str(RETRY_AFTER_S)})


class _PoolWorker:
    """A slot of the pool: one process at a time, and our end of the pipe to it."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._done = 0

    def do(self, task: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float) -> Any:
        """Run a task and return its result; EOFError or OSError if the process dies, TimeoutError if it is too slow."""
        pipe = self._pipe_to_process()
        pipe.send((task, arguments))
        if not pipe.poll(limit_s):
            raise TimeoutError
        result, error = pipe.recv()
        self._done += 1
        if isinstance(error, Exception):
            raise error
        if error is not None:
            raise RuntimeError(f"{task.__name__} failed in the task pool:\n{error}")
        return result

    def _pipe_to_process(self) -> Connection:
        if self._pipe is not None and self._done < TASKS_PER_PROCESS:
            return self._pipe
        self.dismiss()
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), name="tapestry task pool", daemon=True)
        process.start()
        theirs.close()
        self._process, self._pipe, self._done = process, ours, 0
        if not ours.poll(START_S):
            raise EOFError
        ours.recv()
        return ours

    def kill(self) -> None:
        """End the process; a caller that waits for it notices at its end of the pipe."""
        if self._process is not None:
            self._process.kill()

    def dismiss(self) -> None:
        """End the process; the next task gets another one."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join()
            process.close()


def _work(pipe: Connection) -> None:
    """Run tasks in a process of the pool until the other end of its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all; the owner decides
    os.nice(NICENESS)
    threading.Thread(target=_end_with_owner, name="end with owner", daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        pipe.send("here")
        while True:
            task, arguments = pipe.recv()
            pipe.send(_outcome(task, arguments))


def _outcome(task: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | str | None]:
    """Run a task and return its result or its error: errors of the store unchanged, others as a text for the log."""
    try:
        return task(*arguments), None
    except StoreError as error:
        return None, error
    except Exception:
        return None, traceback.format_exc()


def _end_with_owner() -> None:
    owner = parent_process()
    if owner is not None:
        wait([owner.sentinel])
        os._exit(0)
