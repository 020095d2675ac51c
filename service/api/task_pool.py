"""The task pool: processes beside the API for work of more than a few milliseconds of computing.

A task is a function of a module with plain arguments and a plain result, that may be repeated. It runs in a
process of its own, which gives way to the API, has limits of memory and time, and is replaced after some tasks, when
it dies or when a task takes too long; a task whose process was killed is done once more, one that exceeds a limit
is not. A task may also be a generator: it waits while its results are not taken, and ends with its process when
they are not wanted any more.

Each task is of a tenant: the processes go to those who wait in turn, and one tenant has at most half of the places.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from tapestry.service.api.problems import Problem
from tapestry.service.api.turns import NoPlace, Turns
from tapestry.service.children import Cause, ChildDied, ChildLimits, ChildProcess, share_of_memory
from tapestry.service.telemetry.correlation_fields import current_span
from tapestry.service.telemetry.tracing import tracing

PROCESSES = 3
STREAMS = 2  # generators at a time, so that a process is left for the other tasks
PLACES = 16  # of the 40 threads that answer requests, those that may wait for a process; and for a stream
LIMIT_S = 120.0
PROCESSOR_S = 60.0
MEMORY_SHARE = 0.15  # of the machine's, for all processes together
TASKS_PER_PROCESS = 200
ATTEMPTS = 2
NICENESS = 10
RETRY_AFTER_S = 5
PRELOAD = ("tapestry.service.api.preload",)
ENDING = "the service is ending; try again soon"
OWN = ""  # in the place of a tenant, for what the service does for itself
SMALLER = "submit something smaller"

T = TypeVar("T")

log = logging.getLogger("tapestry.pool")


class TaskPool:
    """A pool of worker processes that run the tasks of tenants, as `of` each tenant.

    By default a task has its share of 15 % of this machine's memory, which it shares with other `pools` of the service.
    """

    def __init__(
        self,
        workers: int = PROCESSES,
        limit_s: float = LIMIT_S,
        places: int = PLACES,
        limits: ChildLimits | None = None,
        pools: int = 1,
    ) -> None:
        self._limit_s = limit_s
        self._limits = limits or ChildLimits(share_of_memory(MEMORY_SHARE, workers * pools), PROCESSOR_S)
        self._is_closed = self._is_prepared = False
        self._waited: Callable[[float], None] = lambda _: None
        self._took: Callable[[str, float], None] = lambda _, __: None
        self._workers = [ChildProcess("task pool", PRELOAD, self._limits, NICENESS) for _ in range(workers)]
        self._turns = Turns(self._workers, places)
        self._stream_turns = Turns(range(max(1, min(STREAMS, workers - 1))), places)

    def prepare(self) -> None:
        """Start a process in the background, once: the first task would wait until all modules are loaded."""
        if not self._is_prepared:
            self._is_prepared = True
            threading.Thread(target=self._prepare, name="task pool", daemon=True).start()

    def _prepare(self) -> None:
        with contextlib.suppress(Problem):
            worker = self._in_turn(self._turns, OWN)
            try:
                self._attempt(worker, os.getpid, (), self._limit_s)
            finally:
                self._turns.give_back(OWN, worker)

    def observe(self, waited: Callable[[float], None], took: Callable[[str, float], None]) -> None:
        """Report the seconds that each task waits for a process, and its name with those that it then takes."""
        self._waited, self._took = waited, took

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a process."""
        return self._turns.waiting

    def of(self, tenant: str) -> TenantPool:
        """Return the pool as it is for the tasks of a tenant."""
        return TenantPool(self, tenant)

    def run(
        self, tenant: str, task: Callable[..., T], arguments: tuple[Any, ...], limit_s: float | None = None
    ) -> T:
        """Run a task of a tenant; see `TenantPool.do`."""
        worker = self._acquire(tenant)
        try:
            with self._measured(task.__name__):
                return self._attempt(worker, task, arguments, self._limit_s if limit_s is None else limit_s)
        finally:
            self._turns.give_back(tenant, worker)

    def begin(
        self, tenant: str, task: Callable[..., Iterable[T]], arguments: tuple[Any, ...]
    ) -> TaskStream[T]:
        """Begin a generator of a tenant; see `TenantPool.stream`."""
        permit = self._in_turn(self._stream_turns, tenant)
        try:
            worker = self._acquire(tenant)
        except BaseException:
            self._stream_turns.give_back(tenant, permit)
            raise

        def release() -> None:
            self._turns.give_back(tenant, worker)
            self._stream_turns.give_back(tenant, permit)

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

    def close(self) -> None:
        """End the processes, even in the middle of a task; callers that wait get an error that the service ends."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()

    def _acquire(self, tenant: str) -> ChildProcess:
        """Reserve a worker when it is the tenant's turn."""
        began_s = time.perf_counter()
        worker = self._in_turn(self._turns, tenant)
        self._waited(time.perf_counter() - began_s)
        if worker.tasks_begun >= TASKS_PER_PROCESS:
            worker.dismiss()
        return worker

    def _in_turn(self, turns: Turns[T], tenant: str) -> T:
        try:
            return turns.take(tenant, self._limit_s)
        except NoPlace as reason:
            raise _later("busy", f"{reason}; try again soon") from None

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


class TenantPool:
    """The task pool for the tasks of one tenant; all may be called from any thread, and wait for the tenant's turn."""

    def __init__(self, pool: TaskPool, tenant: str) -> None:
        self._pool, self._tenant = pool, tenant

    def do(self, task: Callable[..., T], *arguments: Any) -> T:
        """Run a task in a worker process and return its result.

        Raises:
            Problem: 503, too many wait, it took too long, or it brought its process down; 422, it exceeds a limit.
            StoreError: as the task raised it.
        """
        return self._pool.run(self._tenant, task, arguments)

    def do_within(self, limit_s: float, task: Callable[..., T], *arguments: Any) -> T:
        """Run a task that may take so many seconds, as `do` does."""
        return self._pool.run(self._tenant, task, arguments, limit_s)

    def stream(self, task: Callable[..., Iterable[T]], *arguments: Any) -> TaskStream[T]:
        """Begin a generator in a worker process and return its results; the caller takes all, or ends it.

        Raises:
            Problem: 503, too many wait, or the service is ending.
        """
        return self._pool.begin(self._tenant, task, arguments)


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
