"""Ctrl-C as a request: the first one stops the search and keeps its results, the second one ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(on_request: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; `on_request` is called at once on the first one."""
    requested = False

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        # In a thread of its own: what it prints may not enter a write that the signal has interrupted.
        threading.Thread(target=on_request).start()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
