"""The event feed: one poller per run asks the database for new events, however many viewers the run has."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from tapestry.service.lifecycle import is_ended
from tapestry.service.store import RunEvent, StoreError, TenantStore, UnknownId

POLL_S = 0.4
AT_ONCE = 500
KEPT = 2000
POLLS_TO_LOOK = 10  # without news, after which it is looked whether the run is there still

log = logging.getLogger("tapestry.api")


@dataclass
class _Channel:
    """The viewers of one run, and the events since the first of them came: those after number `base`."""

    base: int
    viewers: int = 0
    recent: deque[RunEvent] = field(default_factory=deque)
    is_over: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    poller: asyncio.Task[None] | None = None

    @property
    def newest(self) -> int:
        return self.recent[-1].number if self.recent else self.base

    def since(self, number: int) -> Sequence[RunEvent]:
        """Return the kept events after a number that is at least `base`."""
        return [event for event in self.recent if event.number > number]

    def add(self, events: Sequence[RunEvent]) -> None:
        """Store new events, wake those who wait, and drop the oldest events beyond the limit."""
        self.recent.extend(events)
        while len(self.recent) > KEPT:
            self.base = self.recent.popleft().number
        self.is_over = self.is_over or any(map(is_end, events))
        self.wake()

    def end(self) -> None:
        """Let all viewers go: nothing more comes."""
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


class EventFeed:
    """The events of runs as they are recorded, for any number of viewers."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        self._is_closed = False

    @property
    def viewers(self) -> int:
        """The number of viewers of all runs now."""
        return sum(channel.viewers for channel in self._channels.values())

    def close(self) -> None:
        """End all event streams: the server shuts down, and viewers will reconnect elsewhere or later."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.wake()

    async def follow(
        self, store: TenantStore, run_id: str, after: int, patience_s: float
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield the events of a tenant's run after a number, in batches, until the run has ended; an empty batch when
        nothing came for `patience_s` seconds. A number that the run has not reached is ignored: all events are yielded.
        """
        if after and not await run_in_threadpool(store.runs.events, run_id, after - 1, 1):
            after = 0
        async for events in self._stored(store, run_id, after):
            yield events
            after = events[-1].number
            if is_end(events[-1]):
                return
        try:
            has_ended = is_ended((await run_in_threadpool(store.runs.get, run_id)).status)
        except UnknownId:  # it was deleted in the meantime
            return
        if has_ended:
            async for events in self._stored(store, run_id, after):
                yield events
            return
        async with aclosing(self._live(store, run_id, after, patience_s)) as live:
            async for events in live:
                yield events

    async def _stored(
        self, store: TenantStore, run_id: str, after: int
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield the events that are in the database already, in batches."""
        while not self._is_closed:
            events = await run_in_threadpool(store.runs.events, run_id, after, AT_ONCE)
            if not events:
                return
            yield events
            after = events[-1].number

    async def _live(
        self, store: TenantStore, run_id: str, after: int, patience_s: float
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield new events as the run's poller finds them, in batches."""
        channel = self._channels.setdefault(run_id, _Channel(after))
        channel.viewers += 1
        if channel.poller is None:
            channel.poller = asyncio.create_task(self._poll(store, run_id, channel))
        try:
            while not self._is_closed:
                news = channel.news
                if after < channel.base:  # slower than what is kept here
                    async for events in self._stored(store, run_id, after):
                        yield events
                        after = events[-1].number
                events = channel.since(after)
                if events:
                    yield events
                    after = events[-1].number
                elif channel.is_over:
                    return
                else:
                    try:
                        await asyncio.wait_for(news.wait(), patience_s)
                    except TimeoutError:
                        yield ()
        finally:
            channel.viewers -= 1
            if channel.viewers == 0:
                channel.poller.cancel()
                self._channels.pop(run_id, None)

    async def _poll(self, store: TenantStore, run_id: str, channel: _Channel) -> None:
        """Poll the database for events of this run until it has ended, or was deleted."""
        quiet = 0
        while not channel.is_over and not self._is_closed:
            try:
                events = await run_in_threadpool(store.runs.events, run_id, channel.newest, AT_ONCE)
            except StoreError as error:
                log.warning("events of run %s: %s", run_id, error, extra={"run_id": run_id})
                events = ()
            if events:
                channel.add(events)
            quiet = 0 if events else quiet + 1
            if quiet % POLLS_TO_LOOK == POLLS_TO_LOOK - 1 and not await run_in_threadpool(
                _is_there, store, run_id
            ):
                channel.end()
                return
            await asyncio.sleep(POLL_S)


def is_end(event: RunEvent) -> bool:
    """Return whether this event is the last one of its run."""
    return event.kind == "status" and is_ended(event.data["status"])


def _is_there(store: TenantStore, run_id: str) -> bool:
    """Return whether a run is there; where the database does not answer, it may be."""
    try:
        store.runs.get(run_id)
    except UnknownId:
        return False
    except StoreError as error:
        log.warning("run %s: %s", run_id, error, extra={"run_id": run_id})
    return True
