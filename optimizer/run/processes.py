"""A pool of processes for the islands: it is rebuilt when workers die, and its workers end with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Condition
from typing import Any, TypeVar

from tapestry.teg.child_processes import follow_owner, program_hidden, signals_held

T = TypeVar("T")
ATTEMPTS = 3


@dataclass(frozen=True)
class _Pool:
    """A pool of workers, and the pipe at whose other end they wait for it to be closed."""

    executor: ProcessPoolExecutor
    lifeline: Connection
    worker_end: Connection

    def release(self) -> None:
        """End workers that are still there: they ignore SIGTERM, with which a broken pool ends them."""
        self.lifeline.close()
        self.worker_end.close()


def _new_pool(count: int) -> _Pool:
    context = get_context("spawn")
    worker_end, lifeline = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(
        count, mp_context=context, initializer=follow_owner, initargs=(worker_end,)
    )
    return _Pool(executor, lifeline, worker_end)


class ProcessIslands(Executor):
    """A pool of processes that outlives its workers: when one is killed, the pool is rebuilt and tasks are
    resubmitted.

    Tasks must be pure functions. A task that brings its worker down `ATTEMPTS` times fails. When the owner of
    the pool dies, however it dies, its workers end too.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = _new_pool(count)
        self._change = Condition()
        self._pending = 0
        self._is_closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a task in a worker, like `concurrent.futures.Executor.submit`; a running task may be cancelled too.

        It is then finished all the same, and its result is dropped.
        """
        outer: Future[T] = Future()
        with self._change:
            if self._is_closed:
                raise RuntimeError("this pool was shut down and takes no more tasks")
            self._pending += 1
        self._try(outer, 1, lambda pool: pool.submit(fn, *args, **kwargs))
        return outer

    def _try(self, outer: Future[T], attempt: int, start: Callable[[ProcessPoolExecutor], Future[T]]) -> None:
        pool = self._pool

        def finish(inner: Future[T]) -> None:
            error = inner.exception() if not inner.cancelled() else None
            is_over = self._is_closed or outer.cancelled()
            if isinstance(error, BrokenExecutor) and attempt < ATTEMPTS and not is_over:
                self._replace(pool)
                self._try(outer, attempt + 1, start)
                return
            if inner.cancelled():
                outer.cancel()
            if outer.set_running_or_notify_cancel():
                if error is not None:
                    outer.set_exception(error)
                else:
                    outer.set_result(inner.result())
            self._settle()

        try:
            with signals_held(), program_hidden():
                inner = start(pool.executor)
        except BrokenExecutor as error:
            self._replace(pool)
            if attempt < ATTEMPTS:
                self._try(outer, attempt + 1, start)
                return
            outer.set_exception(error)
            self._settle()
            return
        inner.add_done_callback(finish)

    def _replace(self, broken: _Pool) -> None:
        with self._change:
            if self._pool is not broken:
                return
            self._pool = _new_pool(self.count)
        broken.executor.shutdown(wait=False, cancel_futures=True)
        broken.release()

    def _settle(self) -> None:
        """Count a task as done; after a shutdown the last one ends the workers."""
        with self._change:
            self._pending -= 1
            self._change.notify_all()
            self._end_if_over()

    def _end_if_over(self) -> None:
        if self._is_closed and self._pending == 0:
            self._pool.release()

    def abandon(self) -> None:
        """End the workers now, whatever they do; tasks in progress fail."""
        with self._change:
            self._is_closed = True
        self._pool.release()
        self._pool.executor.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down like `concurrent.futures.Executor.shutdown`; running tasks are finished, then the workers end."""
        with self._change:
            self._is_closed = True
        self._pool.executor.shutdown(wait=False, cancel_futures=cancel_futures)
        with self._change:
            if wait:
                self._change.wait_for(lambda: self._pending == 0)
            self._end_if_over()
        if wait:
            self._pool.executor.shutdown(wait=True)
