"""Tests of retries: what is sent again, after which pause, and what is given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from tapestry.client import (
    AsyncClient,
    Client,
    EventRecord,
    ProblemError,
    Retries,
    UnreachableError,
    WaitTimeoutError,
)
from tapestry.client.following import Following
from tapestry.teg.faults import ArgumentError
from tests.client.conftest import QUICK
from tests.optimizer.clocks import SetClock

GRAPH = {
    "id": "0" * 32,
    "name": "g",
    "blocks": 1,
    "lacks_values": False,
    "created_at": "2026-01-01T00:00:00+00:00",
}
GRAPH |= {"summary": None, "objectives": [], "links": {}}
Reply = Callable[[httpx.Request], httpx.Response]


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("reset by peer", request=request)


def refused(status: int, code: str, **headers: str) -> Reply:
    document = {"title": "Not now", "detail": "busy", "code": code, "status": status}
    return lambda _: httpx.Response(
        status, json=document, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def good(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=GRAPH)


def stream(*events: tuple[int, str, object]) -> Reply:
    text = "".join(f"id: {n}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for n, kind, data in events)
    return lambda _: httpx.Response(
        200, text=f": hello\n\n{text}", headers={"Content-Type": "text/event-stream"}
    )


class Script:
    """A server that gives these replies in turn, and notes the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.requests = list(replies), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.replies.pop(0)(request)

    def client(self, retries: Retries = QUICK) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self), base_url="http://service")
        return Client(http=http, retries=retries)


def test_what_passes_is_sent_again() -> None:
    script = Script(lost, refused(503, "busy"), refused(429, "queue_full"), good)
    assert script.client().upload(b"onnx", name="g").name == "g"
    assert all(b"\r\n\r\nonnx\r\n" in request.content for request in script.requests)
    assert [request.method for request in script.requests] == ["POST"] * 4


def test_a_request_keeps_its_key_when_it_is_sent_again() -> None:
    run = {"id": "a" * 12, "status": "queued", "reused": False, "links": {}}
    script = Script(
        lost, lambda _: httpx.Response(202, json=run), lost, lambda _: httpx.Response(202, json=run)
    )
    client = script.client()
    client.submit("0" * 32, "dgx-h100", seed=1)
    client.submit("0" * 32, "dgx-h100", seed=1, fresh=True)
    keys = [request.headers["idempotency-key"] for request in script.requests]
    assert (keys[0] == keys[1], keys[2] == keys[3], keys[1] == keys[2]) == (True, True, False)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (lost, UnreachableError),
        (refused(503, "unavailable"), ProblemError),
        (lambda _: httpx.Response(502, text="<html>bad gateway</html>"), ProblemError),
    ],
)
def test_it_is_given_up_after_all_attempts(reply: Reply, error: type[Exception]) -> None:
    script = Script(*[reply] * QUICK.attempts)
    with pytest.raises(error):
        script.client().graph("0" * 32)
    assert script.replies == []


@pytest.mark.parametrize(
    "reply", [refused(422, "invalid"), refused(500, "internal"), refused(503, "too_slow")]
)
def test_what_does_not_pass_is_sent_once(reply: Reply) -> None:
    script = Script(reply)
    with pytest.raises(ProblemError, match="Not now: busy"):
        script.client().graph("0" * 32)
    assert len(script.requests) == 1


def test_pauses_grow_and_keep_what_the_service_asks_for() -> None:
    retries = Retries(attempts=5, first_s=1, most_s=4, longest_wait_s=30)
    assert [retries.pause_s(attempt) for attempt in range(1, 6)] == [1, 2, 4, 4, None]
    assert retries.pause_s(1, {"retry-after": "10"}) == 10
    assert retries.pause_s(4, {"retry-after": "1"}) == 4
    assert retries.pause_s(1, {"retry-after": "3600"}) == 30
    assert retries.pause_s(1, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}) == 1


QUEUED, ENDED = {"status": "queued"}, {"status": "succeeded"}
BREAKING = (
    stream((1, "status", QUEUED), (2, "progress", {})),
    lost,
    refused(503, "unavailable"),
    stream((3, "progress", {})),  # it ends although the run does not: the server was stopped
    stream((4, "status", ENDED)),
)


def test_events_are_resumed_after_the_last_one_seen() -> None:
    script = Script(*BREAKING)
    events = list(script.client().events("a" * 12))
    assert [event.number for event in events] == [1, 2, 3, 4]
    assert events[1] == EventRecord(2, "progress", {})
    assert [request.headers["last-event-id"] for request in script.requests] == ["0", "2", "2", "2", "3"]


def test_asynchronous_events_are_resumed_too() -> None:
    script = Script(*BREAKING)

    async def numbers() -> list[int]:
        http = httpx.AsyncClient(transport=httpx.MockTransport(script), base_url="http://service")
        async with AsyncClient(http=http, retries=QUICK) as client, http:
            return [event.number async for event in client.events("a" * 12)]

    assert asyncio.run(numbers()) == [1, 2, 3, 4]
    assert script.replies == []


def test_a_stream_that_never_has_an_event_is_given_up() -> None:
    script = Script(*[stream()] * QUICK.attempts)
    with pytest.raises(UnreachableError, match="the stream has ended"):
        list(script.client().events("a" * 12))
    assert script.replies == []


def test_a_run_without_further_events_is_over() -> None:
    script = Script(lambda _: httpx.Response(204))
    assert list(script.client().events("a" * 12, after=7)) == []
    assert script.requests[0].headers["last-event-id"] == "7"


def silent(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("timed out", request=request)


def test_reads_of_a_limited_wait_are_shorter_the_less_time_is_left() -> None:
    """Check a stream that is silent for twelve of sixteen seconds, and of which a line comes too late to read on."""
    now = SetClock()
    following = Following("x", 0, Retries(attempts=1), 16.0, now)
    assert following.call.read_timeout_s == 8.0
    now.time_s = 8.1
    assert following.lost("timed out") == 0.0, "no attempt is lost by it"
    assert following.call.read_timeout_s == pytest.approx(3.95)
    assert not following.is_stale
    now.time_s = 12.2
    assert following.is_stale
    following.check_time()
    now.time_s = 15.9
    assert following.call.read_timeout_s == 0.5 and not following.is_stale
    now.time_s = 16.0
    with pytest.raises(WaitTimeoutError, match="run x has not ended within 16 s; it goes on"):
        following.check_time()


def test_a_limited_wait_is_over_although_connections_are_lost() -> None:
    now = SetClock()
    following = Following("x", 0, Retries(first_s=5.0), 6.0, now)
    assert following.call.read_timeout_s == 3.0
    assert following.lost("reset") == 5.0
    now.time_s = 5.0
    assert following.call.read_timeout_s == 0.5
    assert following.lost("reset") == 1.0, "no pause goes beyond the limit"


def test_a_wait_without_a_limit_reads_as_long_as_the_client() -> None:
    following = Following("x", 0, QUICK)
    assert following.call.read_timeout_s is None
    following.check_time()
    assert not following.is_stale


def test_the_limit_of_a_wait_is_that_of_the_reads() -> None:
    script = Script(silent, silent, silent, silent)
    with pytest.raises(UnreachableError, match="timed out"), script.client() as client:
        client.wait("x", timeout_seconds=1000)
    reads = [request.extensions["timeout"]["read"] for request in script.requests]
    assert reads == pytest.approx([500] * 4, rel=0.01)
    with pytest.raises(ArgumentError, match="timeout_seconds: expected a number above 0, not 0"):
        script.client().wait("x", timeout_seconds=0)
