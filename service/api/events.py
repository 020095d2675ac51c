"""`/v1/runs/{id}/events`: the events of a run, as server-sent events that can be resumed after a disconnect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from tapestry.service.api.answers import encoded
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.openapi_parts import Answers, RunId, problems
from tapestry.service.api.problems import Problem
from tapestry.service.lifecycle import is_ended
from tapestry.service.store import RunEvent
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/runs", tags=["runs"])

HEARTBEAT_S = 15.0
RETRY_MS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LARGEST = 2**31 - 1
KINDS = ("status", "progress", "frontier", "rules", "refused", "executing", "verified")
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


@router.get("/{run_id}/events", responses=ANSWERS | problems(404, 422), response_class=StreamingResponse)
async def get_events(
    run_id: RunId,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="number of the last event seen")] = 0,
    last: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="the same, as browsers send it; it goes before `after`"),
    ] = None,
) -> Response:
    """Follow a run: status, progress, frontier points, statistics and refusals of rules, checks; from the first event
    or after the last one seen."""
    if last is not None:
        if not (last.isascii() and last.isdigit() and len(last) <= 10 and int(last) <= LARGEST):
            fault = Fault("#header/Last-Event-ID", f"expected the number of an event, not {last[:40]!r}")
            raise Problem(422, "invalid", fault.detail, (fault,))
        after = int(last)
    if await run_in_threadpool(_is_complete, parts, run_id, after):
        return Response(status_code=204, headers=HEADERS)  # a browser that hears this does not come again
    return StreamingResponse(_stream(parts, run_id, after), headers=HEADERS, media_type="text/event-stream")


def _is_complete(parts: Context, run_id: str, after: int) -> bool:
    """Return whether the run has ended and has no event after that number."""
    if not is_ended(parts.store.runs.get(run_id).status):
        return False
    seen = parts.store.runs.events(run_id, max(after - 1, 0), 2)
    return not seen or (after > 0 and len(seen) == 1 and seen[0].number == after)


async def _stream(parts: Context, run_id: str, after: int) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    async with aclosing(parts.event_feed.follow(parts.store, run_id, after, HEARTBEAT_S)) as portions:
        async for events in portions:
            yield b"".join(map(_text, events)) or b": still there\n\n"


def _text(event: RunEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), encoded(event.data))
