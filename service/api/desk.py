"""The desk: processes beside the API for what takes more than a few milliseconds of computing.

A task is a function of a module with plain arguments and a plain result, that may be repeated. It runs in a
process of its own; one that dies is replaced and its task done again, a few times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from optimizer import ProcessIslands
from service.api.problems import Problem

PROCESSES = 1
LIMIT_S = 300.0

T = TypeVar("T")


class Desk:
    """Does tasks one after the other; `do` may be called from any thread, and waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessIslands | None = None

    def do(self, task: Callable[..., T], *arguments: Any) -> T:
        """The result of a task.

        Raises:
            Problem: 503, it took too long or brought its process down.
        """
        with self._lock:
            if self._pool is None:
                self._pool = ProcessIslands(PROCESSES)
            pool = self._pool
        try:
            return pool.submit(task, *arguments).result(LIMIT_S)
        except BrokenProcessPool as error:
            said = "this brought its process down again and again; perhaps it needs more memory than there is"
            raise Problem(503, "unavailable", said) from error
        except TimeoutError as error:
            self.close()
            said = f"this took more than {LIMIT_S:g} s"
            raise Problem(503, "too_slow", said, headers={"Retry-After": "60"}) from error

    def close(self) -> None:
        """Let go of the process, whatever it does; the next task begins a new one."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
