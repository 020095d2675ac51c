"""`/v1/runs/{id}/events`: what happens in a run, as server-sent events that can be taken up where they broke off."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from service.api.context import Context, Parts, problems
from service.api.problems import Problem
from service.requests import Fault
from service.store import RunEvent

router = APIRouter(prefix="/v1/runs", tags=["runs"])

HEARTBEAT_S = 15.0
RETRY_MS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LARGEST = 2**31 - 1
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream that ends when the run does; the id of an event is its number",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/{run_id}/events", responses=ANSWERS | problems(404, 422), response_class=StreamingResponse)
async def get_events(
    run_id: str,
    parts: Parts,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="number of the last event seen")] = 0,
    last: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> StreamingResponse:
    """Status, progress, frontier points and rule statistics, from the first or after the last one seen."""
    if last is not None:
        if not (last.isascii() and last.isdigit() and int(last) <= LARGEST):
            fault = Fault("#header/Last-Event-ID", "expected the number of an event")
            raise Problem(422, "invalid", fault.detail, (fault,))
        after = int(last)
    await run_in_threadpool(parts.store.runs.get, run_id)
    return StreamingResponse(_stream(parts, run_id, after), headers=HEADERS, media_type="text/event-stream")


async def _stream(parts: Context, run_id: str, after: int) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    async for events in parts.feed.follow(run_id, after, HEARTBEAT_S):
        yield "".join(map(_text, events)) or ": still there\n\n"


def _text(event: RunEvent) -> str:
    data = json.dumps(event.data, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
