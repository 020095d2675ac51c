"""`/v1/runs/{id}/events`: the events of a run, as server-sent events that can be resumed after a disconnect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from tapestry.service.api.context import Context, Parts
from tapestry.service.api.event_feed import EncodedEvent, EventFeed, Viewer
from tapestry.service.api.holders import HolderWatch, holder_of
from tapestry.service.api.keys import address_of
from tapestry.service.api.openapi_parts import Answers, RunId, decimal_up_to, problems
from tapestry.service.api.problems import Problem
from tapestry.service.api.users import noted_user
from tapestry.service.lifecycle import is_ended
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/runs", tags=["runs"])

HEARTBEAT_S = 15.0
PORTION = 2**14  # bytes, or one longer event
RETRY_MS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LARGEST = 2**31 - 1
NUMBER = decimal_up_to(LARGEST)
KINDS = ("status", "progress", "frontier", "rules", "refused", "working", "executing", "verified")
EVENT = {
    "type": "object",
    "title": "Event",
    "description": "one event; docs/service.md says what the data of each kind is",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "its number, from 1 without gaps"},
        "event": {"enum": list(KINDS)},
        "data": {"type": "string", "description": "JSON"},
    },
}
EXAMPLE = {
    "id": "1",
    "event": "status",
    "data": '{"status":"queued","phase":"queued","attempt":0,"problem":null}',
}
ANSWERS: Answers = {
    200: {
        "description": "A stream that ends when the run does",
        "content": {"text/event-stream": {"schema": EVENT, "example": EXAMPLE}},
    },
    204: {"description": "The run has ended and its last event was seen: nothing will come"},
}


@router.get("/{run_id}/events", responses=ANSWERS | problems(404, 422, 429), response_class=StreamingResponse)
async def get_events(
    run_id: RunId,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="number of the last event seen")] = 0,
    last: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="the same, as browsers send it; it goes before `after`",
            json_schema_extra={"pattern": f"^{NUMBER}$"},
        ),
    ] = None,
) -> Response:
    """Follow a run: status, progress, frontier points, statistics and refusals of rules, checks; from the first event
    or after the last one seen."""
    if last is not None:
        if not re.fullmatch(NUMBER, last):
            fault = Fault("#header/Last-Event-ID", f"expected the number of an event, not {last[:40]!r}")
            raise Problem(422, "invalid", fault.detail, (fault,))
        after = int(last)
    if await run_in_threadpool(_is_complete, parts, run_id, after):
        return Response(status_code=204, headers=HEADERS)  # a browser that hears this does not come again
    return EventStream(parts.event_feed, parts.holders, run_id, after)


def _is_complete(parts: Context, run_id: str, after: int) -> bool:
    """Return whether the run has ended and has no event after that number."""
    if not is_ended(parts.store.runs.get(run_id).status):
        return False
    seen = parts.store.runs.events(run_id, max(after - 1, 0), 2)
    return not seen or (after > 0 and len(seen) == 1 and seen[0].number == after)


class EventStream(StreamingResponse):
    """The events of a run for one viewer, who is let go when the connection is, or when the key or session ends."""

    def __init__(self, feed: EventFeed, holders: HolderWatch, run_id: str, after: int) -> None:
        self._feed, self._holders, self._viewer = feed, holders, Viewer()
        portions = feed.follow(run_id, after, HEARTBEAT_S, self._viewer)
        super().__init__(_texts(portions), headers=HEADERS, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watched = self._holders.watching(holder_of(scope), self._viewer)
        with self._feed.place(_owner(scope)), watched:
            watching = asyncio.create_task(self._watch(receive))
            try:
                await self.stream_response(send)
            finally:
                watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._viewer.leave()


def _owner(scope: Scope) -> str:
    """Return for whom a stream is counted: the tenant of its key, or an address where none is needed."""
    key = noted_user(scope)
    return f"address {address_of(scope)}" if key is None else f"tenant {key.tenant}"


async def _texts(portions: AsyncGenerator[Sequence[EncodedEvent]]) -> AsyncIterator[bytes]:
    yield b"retry: %d\n\n" % RETRY_MS
    async with aclosing(portions):
        async for events in portions:
            if not events:
                yield b": still there\n\n"
            for text in _portions(events):
                yield text


def _portions(events: Sequence[EncodedEvent]) -> Iterator[bytes]:
    """Yield the text of events in portions: what a viewer has not taken yet is held for that viewer alone."""
    found: list[bytes] = []
    size = 0
    for event in events:
        found.append(event.text)
        size += len(event.text)
        if size >= PORTION:
            yield b"".join(found)
            found, size = [], 0
    if found:
        yield b"".join(found)
