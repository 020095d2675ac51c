"""Tests of responses that another process computes: its work ends with the client, and where nothing is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message

from tapestry.service.api import streams
from tapestry.service.api.streams import Streamed

SCOPE: dict[str, Any] = {"type": "http", "path": "/v1/plans/x/graph", "asgi": {"spec_version": "2.3"}}


class Portions:
    """Portions of a fixed number, of which it is known how many were taken and whether they were ended."""

    def __init__(self, count: int) -> None:
        self.count, self.taken, self.is_ended = count, 0, False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.is_ended or self.taken == self.count:
            raise StopIteration
        self.taken += 1
        return b"%d" % self.taken

    def end(self) -> None:
        self.is_ended = True


def respond(portions: Portions, sent: list[Message], *, leave_after: int = 10**9, stall_at: int = -1) -> None:
    """Send a response to a client that leaves or stalls after so many messages."""
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) >= leave_after:
            left.set()
            await asyncio.sleep(0)
        if len(sent) == stall_at:
            await asyncio.sleep(1000)

    async def both() -> None:
        response = Streamed(b"0", portions, {"ETag": '"1"'})  # type: ignore[arg-type]
        await asyncio.wait_for(response(SCOPE, receive, send), 30)

    asyncio.run(both())


def test_all_portions_are_sent() -> None:
    sent: list[Message] = []
    respond(Portions(3), sent)
    assert b"".join(message.get("body", b"") for message in sent) == b"0123"
    assert [message["more_body"] for message in sent[1:]] == [True] * 4 + [False]


def test_a_client_that_leaves_ends_the_work() -> None:
    portions, sent = Portions(10**9), list[Message]()
    respond(portions, sent, leave_after=5)
    assert portions.is_ended
    assert portions.taken < 10_000


def test_a_client_that_takes_nothing_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALL_S", 0.05)
    portions, sent = Portions(10**9), list[Message]()
    respond(portions, sent, stall_at=3)
    assert portions.is_ended
    assert len(sent) == 3
