"""A watch over the memory of children that work: one that holds more than its limit is ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from tapestry.service.children.memory import proportional_bytes, resident_bytes, session_processes

LOOK_S = 0.3

log = logging.getLogger("tapestry.children")


class Watched(Protocol):
    """A child as the watch sees it."""

    @property
    def pid(self) -> int | None:
        """Its process, which leads a session; None if there is none."""

    @property
    def limit_bytes(self) -> int:
        """The bytes that its session may hold."""

    def exceed(self, pid: int, held_bytes: int) -> None:
        """End its process, as that holds so many bytes, if it is still this one and at work."""


class MemoryWatch:
    """A thread that looks at all children that work, as long as there are any."""

    def __init__(self) -> None:
        self._children: set[Watched] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, child: Watched) -> None:
        """Watch a child from now on."""
        with self._changed:
            self._children.add(child)
            self._changed.notify_all()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="memory of children", daemon=True)
                self._thread.start()

    def remove(self, child: Watched) -> None:
        """Watch a child no more."""
        with self._changed:
            self._children.discard(child)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._children))
                children = list(self._children)
            try:
                _look(children)
            except Exception:
                log.exception("the memory of children could not be looked at")
            time.sleep(LOOK_S)


def _look(children: Sequence[Watched]) -> None:
    sessions = session_processes()
    for child in children:
        pid = child.pid
        if pid is None:
            continue
        held_bytes = held(sessions.get(pid, []), child.limit_bytes)
        if held_bytes > child.limit_bytes:
            child.exceed(pid, held_bytes)


def held(pids: list[int], limit_bytes: int) -> int:
    """Return the bytes that processes hold together; what they share is only counted out where it matters.

    Counting shares walks all pages, so that first a bound from above is compared with the limit.
    """
    at_most = sum(map(resident_bytes, pids))
    return at_most if at_most <= limit_bytes else sum(map(proportional_bytes, pids))


WATCH = MemoryWatch()
