"""Turns: a few things that one task at a time can use, given to tenants in turn, whose places are limited."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class NoPlace(Exception):
    """Error raised for who may not wait, as too many do already, or who has waited for too long."""


class Turns(Generic[T]):
    """Things that are taken and given back by tenants, who wait in turn where all are taken.

    Whoever has a thing or waits for one has a place, and one tenant has at most half of them. A thing that is given
    back goes to the tenant whose last turn was longest ago, and there to who waits longest.
    """

    def __init__(self, things: Iterable[T], places: int) -> None:
        self._free = list(things)  # the one that was used last comes first
        self._places, self._share = places, max(1, places // 2)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[Future[T]]] = {}
        self._last_turns: dict[str, int] = {}
        self._turn = 0

    @property
    def waiting(self) -> int:
        """The number of those who wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def take(self, tenant: str, patience_s: float) -> T:
        """Take a thing for a tenant, from whatever thread, as soon as it is the tenant's turn.

        Raises:
            NoPlace: all places are taken, or half of them by this tenant; or no turn came in time.
        """
        with self._lock:
            if self._held[tenant] >= self._share:
                raise NoPlace("what you sent before takes up your share of the service")
            if self._held.total() >= self._places:
                raise NoPlace("many programs are being read and unfolded")
            self._held[tenant] += 1
            if self._free:
                self._note_turn(tenant)
                return self._free.pop()
            turn: Future[T] = Future()
            self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            return turn.result(patience_s)
        except TimeoutError:
            with self._lock:
                if turn.done():  # it came in this moment
                    return turn.result()
                self._forget(tenant, turn)
                self._leave(tenant)
            raise NoPlace("many programs are being read and unfolded") from None

    def give_back(self, tenant: str, thing: T) -> None:
        """Give a thing back, of which whoever's turn it is gets it."""
        with self._lock:
            self._leave(tenant)
            if not self._waiting:
                self._free.append(thing)
                return
            following = min(self._waiting, key=lambda other: self._last_turns.get(other, 0))
            turn = self._waiting[following][0]
            self._forget(following, turn)
            self._note_turn(following)
            turn.set_result(thing)

    def _note_turn(self, tenant: str) -> None:
        self._turn += 1
        self._last_turns[tenant] = self._turn

    def _forget(self, tenant: str, turn: Future[T]) -> None:
        self._waiting[tenant].remove(turn)
        if not self._waiting[tenant]:
            del self._waiting[tenant]

    def _leave(self, tenant: str) -> None:
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
