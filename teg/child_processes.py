"""Processes started by ours: none of them runs our main program, takes our signals, or outlives us."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from types import ModuleType


@contextmanager
def signals_held() -> Iterator[None]:
    """Block signals of this thread, so that a process started meanwhile never receives them before it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def program_hidden() -> Iterator[None]:
    """Hide the main program from processes started meanwhile, which need none of it.

    A script without a main guard would otherwise be run again by each of them.
    """
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def follow_owner(lifeline: Connection | None = None) -> None:
    """Leave signals to the process that started this one, and watch for its end.

    Ctrl-C and SIGTERM often reach a whole group of processes; the owner ends its processes itself. It may also release
    them, by closing the other end of `lifeline`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Thread(target=_end_with_owner, args=(lifeline,), name="end with owner", daemon=True).start()


def _end_with_owner(lifeline: Connection | None) -> None:
    """Wait until the owner has died, or has closed the lifeline; then exit at once."""
    owner = parent_process()
    wait([*([] if lifeline is None else [lifeline]), *([] if owner is None else [owner.sentinel])])
    os._exit(0)
