"""Ctrl-C as a request: the first one asks the search to stop and keeps what it found, the second one ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(on_request: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """A function that says whether somebody pressed Ctrl-C; `on_request` hears of it at once."""
    requested = False

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        on_request()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
