"""The feed of events: however many look at a run, one of them asks the database again and again for news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from service.lifecycle import is_ended
from service.store import RunEvent, Store

POLL_S = 0.4
AT_ONCE = 500


@dataclass
class _Channel:
    """Those who look at one run: `newest` is the last event number that was seen in the database."""

    viewers: int = 0
    newest: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    poller: asyncio.Task[None] | None = None


class Feed:
    """Events of runs as they come, for any number of viewers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._channels: dict[str, _Channel] = {}
        self._closing = asyncio.Event()

    @property
    def viewers(self) -> int:
        """How many look at some run now."""
        return sum(channel.viewers for channel in self._channels.values())

    def close(self) -> None:
        """End all streams: the server is going down, and viewers will come back elsewhere or later."""
        self._closing.set()
        for channel in self._channels.values():
            channel.changed.set()

    async def follow(self, run_id: str, after: int, patience_s: float) -> AsyncIterator[Sequence[RunEvent]]:
        """Events after a number, in portions, until the run has ended; an empty portion when nothing came for
        `patience_s` seconds."""
        channel = self._channels.setdefault(run_id, _Channel())
        channel.viewers += 1
        try:
            while not self._closing.is_set():
                channel.changed.clear()
                events = await run_in_threadpool(self._store.runs.events, run_id, after, AT_ONCE)
                if events:
                    after = events[-1].number
                    yield events
                    if any(_is_end(event) for event in events):
                        return
                    continue
                summary = await run_in_threadpool(self._store.runs.get, run_id)
                if is_ended(summary.status):
                    rest = await run_in_threadpool(self._store.runs.events, run_id, after, AT_ONCE)
                    if rest:
                        yield rest
                    return
                self._poll(run_id, channel, after)
                try:
                    await asyncio.wait_for(channel.changed.wait(), patience_s)
                except TimeoutError:
                    yield ()
        finally:
            channel.viewers -= 1
            if channel.viewers == 0:
                if channel.poller is not None:
                    channel.poller.cancel()
                self._channels.pop(run_id, None)

    def _poll(self, run_id: str, channel: _Channel, after: int) -> None:
        """See to it that somebody asks the database for this run."""
        channel.newest = max(channel.newest, after)
        if channel.poller is None or channel.poller.done():
            channel.poller = asyncio.create_task(self._ask(run_id, channel))

    async def _ask(self, run_id: str, channel: _Channel) -> None:
        while channel.viewers and not self._closing.is_set():
            await asyncio.sleep(POLL_S)
            events = await run_in_threadpool(self._store.runs.events, run_id, channel.newest, 1)
            if events:
                channel.newest = events[-1].number
                channel.changed.set()


def _is_end(event: RunEvent) -> bool:
    return event.kind == "status" and is_ended(event.data["status"])
