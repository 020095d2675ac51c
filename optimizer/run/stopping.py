"""Requests to stop a search, which take effect between units of work: before its first round, and while a rewritten
graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any

from tapestry.teg.stopping import CheckStop

POLL_S = 0.2


class StopRequested(Exception):
    """Error raised between two units of work because the search was requested to stop."""


def stop_check(should_stop: Callable[[], bool]) -> CheckStop:
    """Return a function, called between units of work, that raises `StopRequested` once `should_stop()` is true."""

    def check() -> None:
        if should_stop():
            raise StopRequested

    return check


def await_all(futures: Sequence[Future[Any]], check_stop: CheckStop) -> None:
    """Wait until all futures are done, and raise the error of the first that failed; ask for a stop meanwhile.

    Raises:
        StopRequested: the search is to stop; what has not begun is cancelled.
    """
    try:
        while wait(futures, timeout=POLL_S).not_done:
            check_stop()
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    for future in futures:
        future.result()
