"""The task pool: processes beside the API for work of more than a few milliseconds of computing.

A task is a function of a module with plain arguments and a plain result, that may be repeated. It runs in a
process of its own, which gives way to the API and is replaced after some tasks, when it dies or when a task
takes too long; a task whose process died is done once more. A task may also be a generator: it
waits while its results are not taken, and ends with its process when they are not wanted any more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from tapestry.service.api.problems import Problem
from tapestry.service.store import StoreError

PROCESSES = 3
STREAMS = 2  # generators at a time, so that a process is left for the other tasks
LONGEST_QUEUE = 16  # of the 40 threads that answer requests, those that may wait for the task pool
LIMIT_S = 120.0
START_S = 60.0
TASKS_PER_PROCESS = 200
ATTEMPTS = 2
NICENESS = 10
RETRY_AFTER_S = 5
ENDING = "the service is ending; try again soon"
BUSY = "many programs are being read and unfolded; try again soon"

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
        self._streams = threading.BoundedSemaphore(max(1, min(STREAMS, workers - 1)))
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
        worker = self._acquire()
        try:
            return self._attempt(worker, task, arguments)
        finally:
            self._release(worker)

    def stream(self, task: Callable[..., Iterable[T]], *arguments: Any) -> TaskStream[T]:
        """Begin a generator in a worker process and return its results; the caller takes all, or ends it.

        Raises:
            Problem: 503, too many wait, or the service is ending.
        """
        if not self._streams.acquire(timeout=self._limit_s):
            raise _later("busy", BUSY)
        try:
            worker = self._acquire()
        except BaseException:
            self._streams.release()
            raise

        def release() -> None:
            self._release(worker)
            self._streams.release()

        stream: TaskStream[T] = TaskStream(worker, self._limit_s, release)
        try:
            if self._is_closed:
                raise _later("unavailable", ENDING)
            worker.begin(task, arguments, is_stream=True)
        except BaseException:
            stream.end()
            raise
        return stream

    def _acquire(self) -> _PoolWorker:
        """Reserve a worker, for which only so many may wait."""
        if not self._places.acquire(blocking=False):
            raise _later("busy", BUSY)
        try:
            return self._free.get(timeout=self._limit_s)
        except queue.Empty:
            self._places.release()
            raise _later("busy", BUSY) from None

    def _release(self, worker: _PoolWorker) -> None:
        self._free.put(worker)
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
            raise _later("unavailable", ENDING)
        message = "this brought its process down, twice; perhaps it needs more memory than there is"
        raise _later("unavailable", message)

    def close(self) -> None:
        """End the processes, even in the middle of a task; callers that wait get an error that the service ends."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()


def _later(code: str, message: str) -> Problem:
    return Problem(503, code, message, headers={"Retry-After": str(RETRY_AFTER_S)})


class TaskStream(Generic[T]):
    """The results of a generator in a worker process, taken one by one until `end`, which may come from any thread.

    Raises:
        Problem: while they are taken: 503, nothing came for too long, or the process died.
        StoreError: as the task raised it.
    """

    def __init__(self, worker: _PoolWorker, limit_s: float, release: Callable[[], None]) -> None:
        self._worker, self._limit_s, self._release = worker, limit_s, release
        self._is_over = self._is_unwanted = False
        self._taking, self._ending = threading.Lock(), threading.Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._taking:
            if self._is_over:
                raise StopIteration
            is_alive = False
            try:
                result, error, is_last = self._worker.result(self._limit_s)
                is_alive = True
            except TimeoutError:
                message = f"nothing came for the {self._limit_s:g} s that are allowed; ask for less"
                raise _later("too_slow", message) from None
            except (EOFError, OSError):
                if self._is_unwanted:
                    raise StopIteration from None
                raise _later(
                    "unavailable", "the process that computes this has ended; try again soon"
                ) from None
            finally:
                if not is_alive:
                    self._finish()
            if is_last:
                self._finish(is_idle=True)
                raise error or StopIteration
            return result  # type: ignore[no-any-return]

    def end(self) -> None:
        """End the work, if it is not over."""
        with self._ending:
            if self._is_over:
                return
            self._is_unwanted = True
            self._worker.kill()  # whoever waits for a result notices
        with self._taking:
            self._finish()

    def _finish(self, is_idle: bool = False) -> None:
        with self._ending:
            if not self._is_over:
                self._is_over = True
                if not is_idle:
                    self._worker.dismiss()
                self._release()


class _PoolWorker:
    """A slot of the pool: one process at a time, and our end of the pipe to it."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._done = 0
        self._task = ""

    def do(self, task: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float) -> Any:
        """Run a task and return its result; EOFError or OSError if the process dies, TimeoutError if it is too slow."""
        self.begin(task, arguments)
        result, error, _ = self.result(limit_s)
        if error is not None:
            raise error
        return result

    def begin(self, task: Callable[..., Any], arguments: tuple[Any, ...], is_stream: bool = False) -> None:
        """Have the process begin a task."""
        pipe = self._pipe_to_process()
        self._task = task.__name__
        pipe.send((task, arguments, is_stream))

    def result(self, limit_s: float) -> tuple[Any, Exception | None, bool]:
        """Return the next result of the task that has begun, its error if it has one, and whether it is over."""
        assert self._pipe is not None
        if not self._pipe.poll(limit_s):
            raise TimeoutError
        result, error, is_last = self._pipe.recv()
        self._done += is_last
        if isinstance(error, str):
            error = RuntimeError(f"{self._task} failed in the task pool:\n{error}")
        return result, error, is_last

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
            task, arguments, is_stream = pipe.recv()
            for outcome in _outcomes(task, arguments, is_stream):
                pipe.send(outcome)


def _outcomes(
    task: Callable[..., Any], arguments: tuple[Any, ...], is_stream: bool
) -> Iterator[tuple[Any, Exception | str | None, bool]]:
    """Run a task and yield its results or its error: errors of the store unchanged, others as a text for the log."""
    outcome: tuple[Any, Exception | str | None, bool]
    try:
        result = task(*arguments)
        if is_stream:
            for portion in result:
                yield portion, None, False
            result = None
        outcome = result, None, True
    except StoreError as error:
        outcome = None, error, True
    except Exception:
        outcome = None, traceback.format_exc(), True
    yield outcome


def _end_with_owner() -> None:
    owner = parent_process()
    if owner is not None:
        wait([owner.sentinel])
        os._exit(0)
