"""The event feed: events are read from the database and encoded once, however many viewers their runs have.

One task looks for news of all watched runs by one query. On PostgreSQL writers wake it (NOTIFY), and it looks all the
same from time to time; of a database file it reads the counter of changes first, which takes microseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from tapestry.service.api.answers import encoded
from tapestry.service.api.problems import RETRY_AFTER_S, Problem
from tapestry.service.lifecycle import is_ended
from tapestry.service.settings import ConnectionLimits
from tapestry.service.store import RunEvent, Store, StoreError

COUNTER_S = 0.1  # between two looks at the counter of changes
POLL_S = 0.4  # between two queries where there is none
NOTIFIED_S = 2.0  # the same while writers wake the feed: what one sends may be lost with the connection
AT_ONCE = 500
KEPT_BYTES = 2 * 2**20  # of each watched run, the newest

log = logging.getLogger("tapestry.api")


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event as its text is sent to all viewers; `is_last` if it ends the run."""

    number: int
    text: bytes
    is_last: bool


class Viewer:
    """Someone who follows a run until it has ended, or until they leave."""

    def __init__(self) -> None:
        self.is_gone = False
        self._waiting: asyncio.Future[None] | None = None

    def leave(self) -> None:
        """End the viewer's stream."""
        self.is_gone = True
        self.wake()

    def wake(self) -> None:
        """End the wait, if the viewer waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, patience_s: float) -> bool:
        """Wait until woken; return False if that did not happen in time."""
        self._waiting = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._waiting
                return True
        return False


@dataclass
class _Channel:
    """The viewers of one run, and the newest of its events: those after number `base`."""

    base: int = 0
    viewers: set[Viewer] = field(default_factory=set)
    recent: list[EncodedEvent] = field(default_factory=list)
    size: int = 0
    is_over: bool = False
    first: asyncio.Task[None] | None = None

    @property
    def newest(self) -> int:
        return self.recent[-1].number if self.recent else self.base

    def since(self, number: int) -> Sequence[EncodedEvent]:
        """Return the kept events after a number that is at least `base`; numbers have no gaps."""
        return self.recent[number - self.base :]

    def add(self, events: Sequence[EncodedEvent]) -> None:
        """Keep new events, wake the viewers, and drop the oldest events beyond the limit."""
        self.recent.extend(events)
        self.size += sum(len(event.text) for event in events)
        dropped = 0
        while self.size > KEPT_BYTES and dropped < len(self.recent) - 1:
            self.size -= len(self.recent[dropped].text)
            dropped += 1
        if dropped:
            self.base = self.recent[dropped - 1].number
            del self.recent[:dropped]
        self.is_over = self.is_over or any(event.is_last for event in events)
        self.wake()

    def end(self) -> None:
        """Let all viewers go: nothing more comes."""
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        for viewer in self.viewers:
            viewer.wake()


class EventFeed:
    """The events of runs as they are recorded, encoded, for any number of viewers."""

    def __init__(self, store: Store, limits: ConnectionLimits) -> None:
        self._store, self._limits = store, limits
        self._places: Counter[str] = Counter()
        self._count: Callable[[int], object] = int
        self._channels: dict[str, _Channel] = {}
        self._is_closed = False
        self._poller: asyncio.Task[None] | None = None

    def observe(self, count: Callable[[int], object]) -> None:
        """Call a function with the number of open streams whenever that changes."""
        self._count = count

    @contextmanager
    def place(self, owner: str) -> Iterator[None]:
        """Take a place for a stream of a tenant, or of an address, for as long as the block runs.

        Raises:
            Problem: 429, the owner has as many streams as one may have, or all together have.
        """
        most = self._limits.streams_per_tenant
        if self._places[owner] >= most:
            raise _too_many(f"{most} event streams are open for you already; close one first")
        if self._places.total() >= self._limits.streams:
            raise _too_many(f"{self._limits.streams} event streams are open already; try again soon")
        self._places[owner] += 1
        self._count(self._places.total())
        try:
            yield
        finally:
            self._places[owner] -= 1
            self._count(self._places.total())
            if not self._places[owner]:
                del self._places[owner]

    def close(self) -> None:
        """End all event streams: the server shuts down, and viewers will reconnect elsewhere or later."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.wake()

    async def follow(
        self, run_id: str, after: int, patience_s: float, viewer: Viewer
    ) -> AsyncGenerator[Sequence[EncodedEvent]]:
        """Yield the events after a number, in batches, until the run has ended or the viewer leaves.

        A batch is empty when nothing came for `patience_s` seconds. A number that the run has not reached is ignored:
        all events are yielded.

        Raises:
            StoreError: the database does not answer, or there is no such run.
        """
        channel = self._channels.setdefault(run_id, _Channel())
        channel.viewers.add(viewer)
        try:
            if channel.first is None:
                channel.first = asyncio.create_task(self._load(run_id, channel))
            await asyncio.shield(channel.first)
            if self._poller is None:
                self._poller = asyncio.create_task(self._poll())
            if after > channel.newest:
                after = 0
            while not (self._is_closed or viewer.is_gone):
                events: Sequence[EncodedEvent]
                if after < channel.base:  # further back than what is kept here
                    events = await run_in_threadpool(self._read, run_id, after)
                elif events := channel.since(after):
                    pass
                elif channel.is_over:
                    return
                else:
                    if not await viewer.wait(patience_s):
                        yield ()
                    continue
                if not events:  # it was deleted in the meantime
                    return
                yield events
                after = events[-1].number
        finally:
            channel.viewers.discard(viewer)
            if not channel.viewers and self._channels.get(run_id) is channel:
                del self._channels[run_id]

    async def _load(self, run_id: str, channel: _Channel) -> None:
        """Read the newest events of a run."""
        try:
            last = await run_in_threadpool(self._store.run_watch.last_events, [run_id])
            if run_id not in last:  # it was deleted in the meantime
                channel.end()
                return
            channel.base = max(0, last[run_id] - AT_ONCE)
            channel.add(await run_in_threadpool(self._read, run_id, channel.base))
        except BaseException:
            channel.first = None  # the next viewer tries again
            raise

    def _read(self, run_id: str, after: int) -> list[EncodedEvent]:
        return [_encoded(event) for event in self._store.run_watch.events(run_id, after, AT_ONCE)]

    async def _poll(self) -> None:
        """Look for new events of all watched runs as long as there are any."""
        notified, loop = asyncio.Event(), asyncio.get_running_loop()
        notices = self._store.notices(lambda: loop.call_soon_threadsafe(notified.set))
        counted = None
        try:
            while self._channels and not self._is_closed:
                changes = self._store.changes.now()
                if changes is None or changes != counted:
                    notified.clear()
                    counted = changes if await self._look() else None
                pause_s = NOTIFIED_S if notices.is_listening else POLL_S if changes is None else COUNTER_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await notified.wait()
        finally:
            self._poller = None
            await run_in_threadpool(notices.end)

    async def _look(self) -> bool:
        """Read what is new of all watched runs; return False if the database does not answer."""
        loaded = {run_id: channel for run_id, channel in self._channels.items() if channel.recent}
        known = {run_id: channel.newest for run_id, channel in loaded.items() if not channel.is_over}
        try:
            news = await run_in_threadpool(self._news, known)
        except StoreError as error:
            log.warning("events: %s", error)
            return False
        for run_id, events in news.items():
            if events is None:
                loaded[run_id].end()
            else:
                loaded[run_id].add(events)
        return True

    def _news(self, known: Mapping[str, int]) -> dict[str, list[EncodedEvent] | None]:
        """Return the events of runs after those known, where there are any; None of runs that are gone."""
        last = self._store.run_watch.last_events(list(known))
        found: dict[str, list[EncodedEvent] | None] = {}
        for run_id, newest in known.items():
            if run_id not in last:
                found[run_id] = None
                continue
            events: list[EncodedEvent] = []
            while last[run_id] > (events[-1].number if events else newest):
                portion = self._read(run_id, events[-1].number if events else newest)
                if not portion:  # it was deleted in the meantime
                    break
                events += portion
            if events:
                found[run_id] = events
        return found


def _too_many(message: str) -> Problem:
    return Problem(429, "too_many_streams", message, headers={"Retry-After": str(RETRY_AFTER_S)})


def _encoded(event: RunEvent) -> EncodedEvent:
    text = b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), encoded(event.data))
    return EncodedEvent(event.number, text, event.kind == "status" and is_ended(event.data["status"]))
