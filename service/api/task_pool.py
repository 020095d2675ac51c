"""The task pool: processes beside the API for work of more than a few milliseconds of computing.

A task is a function of a module with plain arguments and a plain result, that may be repeated. It runs in a
process of its own, which gives way to the API, has limits of memory and time, and is replaced after some tasks, when
it dies or when a task takes too long; a task whose process was killed is done once more, one that exceeds a limit
is not. A task may also be a generator: it waits while its results are not taken, and ends with its process when
they are not wanted any more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from tapestry.service.api.problems import Problem
from tapestry.service.children import Cause, ChildDied, ChildLimits, ChildProcess, share_of_memory
from tapestry.service.telemetry.correlation_fields import current_span
from tapestry.service.telemetry.tracing import tracing

PROCESSES = 3
STREAMS = 2  # generators at a time, so that a process is left for the other tasks
LONGEST_QUEUE = 16  # of the 40 threads that answer requests, those that may wait for the task pool
LIMIT_S = 120.0
PROCESSOR_S = 60.0
MEMORY_SHARE = 0.15  # of the machine's, for all processes together
TASKS_PER_PROCESS = 200
ATTEMPTS = 2
NICENESS = 10
RETRY_AFTER_S = 5
PRELOAD = ("tapestry.service.api.preload",)
ENDING = "the service is ending; try again soon"
BUSY = "many programs are being read and unfolded; try again soon"
SMALLER = "submit something smaller"

T = TypeVar("T")

log = logging.getLogger("tapestry.pool")


class TaskPool:
    """A pool of worker processes that run tasks; `do` may be called from any thread, and waits.

    By default a task has its share of 15 % of this machine's memory, which it shares with other `pools` of the service.
    """

    def __init__(
        self,
        workers: int = PROCESSES,
        limit_s: float = LIMIT_S,
        places: int = LONGEST_QUEUE,
        limits: ChildLimits | None = None,
        pools: int = 1,
    ) -> None:
        self._limit_s = limit_s
        self._limits = limits or ChildLimits(share_of_memory(MEMORY_SHARE, workers * pools), PROCESSOR_S)
        self._is_closed = False
        self._waited: Callable[[float], None] = lambda _: None
        self._took: Callable[[str, float], None] = lambda _, __: None
        self._places = threading.BoundedSemaphore(places)
        self._streams = threading.BoundedSemaphore(max(1, min(STREAMS, workers - 1)))
        self._workers = [ChildProcess("task pool", PRELOAD, self._limits, NICENESS) for _ in range(workers)]
        self._free: queue.LifoQueue[ChildProcess] = (
            queue.LifoQueue()
        )  # the one that is warm already comes first
        for worker in self._workers:
            self._free.put(worker)

    def observe(self, waited: Callable[[float], None], took: Callable[[str, float], None]) -> None:
        """Report the seconds that each task waits for a process, and its name with those that it then takes."""
        self._waited, self._took = waited, took

    def do(self, task: Callable[..., T], *arguments: Any) -> T:
        """Run a task in a worker process and return its result.

        Raises:
            Problem: 503, too many wait, it took too long, or it brought its process down; 422, it exceeds a limit.
            StoreError: as the task raised it.
        """
        return self.do_within(self._limit_s, task, *arguments)

    def do_within(self, limit_s: float, task: Callable[..., T], *arguments: Any) -> T:
        """Run a task that may take so many seconds, as `do` does."""
        worker = self._acquire()
        try:
            with self._measured(task.__name__):
                return self._attempt(worker, task, arguments, limit_s)
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

        stream: TaskStream[T] = TaskStream(worker, task.__name__, self._limit_s, release)
        try:
            if self._is_closed:
                raise _later("unavailable", ENDING)
            worker.begin(task, arguments, "stream")
        except ChildDied as death:
            stream.end()
            raise _later("unavailable", f"the process that computes this: {death}") from None
        except BaseException:
            stream.end()
            raise
        return stream

    @contextlib.contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        """Measure a task, and make it a part of the request's trace."""
        began_s, fault = time.perf_counter(), ""
        span = tracing().start(f"task {name}", current_span())
        try:
            yield
        except Exception as error:
            fault = type(error).__name__
            raise
        finally:
            span.end(fault)
            self._took(name, time.perf_counter() - began_s)

    def warm_up(self) -> None:
        """Begin a process, so that the first task need not wait for it; any error is left to that task."""
        with contextlib.suppress(Problem):
            self.do(os.getpid)

    def close(self) -> None:
        """End the processes, even in the middle of a task; callers that wait get an error that the service ends."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()

    def _acquire(self) -> ChildProcess:
        """Reserve a worker, for which only so many may wait."""
        if not self._places.acquire(blocking=False):
            raise _later("busy", BUSY)
        began_s = time.perf_counter()
        try:
            worker = self._free.get(timeout=self._limit_s)
        except queue.Empty:
            self._places.release()
            raise _later("busy", BUSY) from None
        self._waited(time.perf_counter() - began_s)
        if worker.tasks_begun >= TASKS_PER_PROCESS:
            worker.dismiss()
        return worker

    def _release(self, worker: ChildProcess) -> None:
        self._free.put(worker)
        self._places.release()

    def _attempt(
        self, worker: ChildProcess, task: Callable[..., T], arguments: tuple[Any, ...], limit_s: float
    ) -> T:
        for _ in range(0 if self._is_closed else ATTEMPTS):
            try:
                worker.begin(task, arguments)
                outcome = worker.take(limit_s)
            except ChildDied as death:
                if self._is_closed:
                    break
                log.warning("a process of the task pool died in %s: %s", task.__name__, death)
                if death.cause in LIMITS:
                    raise excess(death) from None
                continue
            if outcome is None:
                worker.dismiss()
                raise TooSlow(limit_s)
            if outcome.error is not None:
                raise fault(task.__name__, outcome.error)
            result: T = outcome.result
            return result
        if self._is_closed:
            raise _later("unavailable", ENDING)
        message = "this brought its process down, twice; perhaps it needs more memory than there is"
        raise _later("unavailable", message)


class TooSlow(Problem):
    """Error raised for a task that took more than so many seconds; it was ended."""

    def __init__(self, limit_s: float) -> None:
        message = f"this took more than the {limit_s:g} s that are allowed; {SMALLER}"
        super().__init__(503, "too_slow", message, headers={"Retry-After": str(RETRY_AFTER_S)})


def _later(code: str, message: str) -> Problem:
    return Problem(503, code, message, headers={"Retry-After": str(RETRY_AFTER_S)})


LIMITS: Mapping[Cause, str] = {"memory": "out_of_memory", "processor_time": "too_slow"}


def excess(death: ChildDied) -> Problem:
    """Return the problem of a task that exceeds a limit, and would do so again."""
    return Problem(422, LIMITS[death.cause], f"this cannot be computed here: {death}; {SMALLER}")


def fault(task: str, error: Exception | str) -> Exception:
    """Return the error of a task as it is raised by who wanted it."""
    return (
        error if isinstance(error, Exception) else RuntimeError(f"{task} failed in the task pool:\n{error}")
    )


class TaskStream(Generic[T]):
    """The results of a generator in a worker process, taken one by one until `end`, which may come from any thread.

    Raises:
        Problem: while they are taken: 503, nothing came for too long, or the process died; 422, it exceeds a limit.
        StoreError: as the task raised it.
    """

    def __init__(self, worker: ChildProcess, task: str, limit_s: float, release: Callable[[], None]) -> None:
        self._worker, self._task, self._limit_s, self._release = worker, task, limit_s, release
        self._is_over = self._is_unwanted = False
        self._taking, self._ending = threading.Lock(), threading.Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._taking:
            if self._is_over:
                raise StopIteration
            try:
                outcome = self._worker.take(self._limit_s)
            except ChildDied as death:
                self._finish()
                if self._is_unwanted:
                    raise StopIteration from None
                if death.cause in LIMITS:
                    raise excess(death) from None
                message = "the process that computes this has ended; try again soon"
                raise _later("unavailable", message) from None
            if outcome is None:
                self._finish()
                message = f"nothing came for the {self._limit_s:g} s that are allowed; ask for less"
                raise _later("too_slow", message)
            if outcome.is_last:
                self._finish(is_idle=True)
                raise StopIteration if outcome.error is None else fault(self._task, outcome.error)
            result: T = outcome.result
            return result

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
