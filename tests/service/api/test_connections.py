"""Tests of the limits on connections: slow clients are cut off, too many are refused, and others are served."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tapestry.service.connections import Connections, LimitedProtocol
from tapestry.service.settings import TRUSTED_PROXIES, ConnectionLimits
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import request_for

SOON_S = 10.0
LIMITS = ConnectionLimits(header_s=0.3, body_s=0.3, body_bytes_per_s=1000.0, answer_s=0.3)
HEADER = (
    b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n"
)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(service: Service, opened: ExitStack, sent: bytes = b"") -> socket.socket:
    """Connect to a service and send the first bytes of a request."""
    place = urlsplit(service.address)
    assert place.hostname is not None and place.port is not None
    connection = opened.enter_context(socket.create_connection((place.hostname, place.port), SOON_S))
    connection.sendall(sent)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Return all that comes until the connection is closed."""
    found = b""
    try:
        while received := connection.recv(2**16):
            found += received
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "sent", [b"", b"GET", HEADER], ids=["nothing", "half a line", "a header without its end"]
)
def test_a_header_that_does_not_end_is_not_waited_for(serve: Serve, opened: ExitStack, sent: bytes) -> None:
    service = serve(connections=LIMITS)
    head, _, body = rest(connected(service, opened, sent)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    document = json.loads(body)
    assert (document["status"], document["code"], document["type"]) == (408, "too_slow", "/problems/too_slow")
    assert service.http.get("/healthz").status_code == 200


def test_a_body_that_trickles_is_cut_off(serve: Serve, opened: ExitStack) -> None:
    service = serve(connections=LIMITS)
    connection = connected(service, opened, HEADER + b"\r\n{")
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < SOON_S:
        try:
            connection.sendall(b" ")
            if not connection.recv(100):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    assert time.monotonic() - began < SOON_S
    assert service.http.get("/healthz").status_code == 200


def test_a_body_that_comes_fast_enough_is_read(serve: Serve, opened: ExitStack) -> None:
    service = serve(connections=ConnectionLimits(header_s=0.3, body_s=0.3, body_bytes_per_s=10.0))
    body = json.dumps(service.request()).encode()
    head = HEADER.replace(b"5000", b"%d" % len(body)) + b"Connection: close\r\n\r\n"
    connection = connected(service, opened, head)
    for start in range(0, len(body), 30):
        connection.sendall(body[start : start + 30])
        time.sleep(0.5)
    assert rest(connection).startswith(b"HTTP/1.1 202 ")


def test_too_many_connections_of_an_address_are_refused(serve: Serve, opened: ExitStack) -> None:
    service = serve(connections=ConnectionLimits(per_address=3))
    held = [connected(service, opened) for _ in range(3)]
    answer = rest(connected(service, opened))
    assert answer.startswith(b"HTTP/1.1 429 ") and b"retry-after: 10" in answer.lower()
    for connection in held:
        connection.close()
    assert service.http.get("/healthz").status_code == 200


def test_too_many_connections_in_all_are_refused(serve: Serve, opened: ExitStack) -> None:
    service = serve(connections=ConnectionLimits(total=2))
    for _ in range(2):
        connected(service, opened)
    assert rest(connected(service, opened)).startswith(b"HTTP/1.1 503 ")


def test_connections_of_a_proxy_count_only_among_all(
    serve: Serve, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ConnectionLimits(per_address=1, total=4)
    for trusted, status in (("10.0.0.0/8", 429), ("10.0.0.0/8, 127.0.0.0/8", 503)):
        monkeypatch.setenv(TRUSTED_PROXIES, trusted)
        service = serve(connections=limits)
        held = [connected(service, opened) for _ in range(1 if status == 429 else 4)]
        assert rest(connected(service, opened)).startswith(b"HTTP/1.1 %d " % status)
        for connection in held:
            connection.close()
        assert service.http.get("/healthz").status_code == 200


def test_too_many_streams_of_a_caller_are_refused(serve: Serve) -> None:
    service = serve(connections=ConnectionLimits(streams_per_tenant=2))
    path = f"/v1/runs/{service.submit().json()['id']}/events"
    with ExitStack() as stack:
        for _ in range(2):
            assert stack.enter_context(service.http.stream("GET", path)).status_code == 200
        answer = service.http.get(path)
        complaint(answer, 429, "too_many_streams")
        assert int(answer.headers["retry-after"]) > 0
    deadline = time.monotonic() + SOON_S
    while True:  # until the server has seen that the others left
        with service.http.stream("GET", path) as again:
            if again.status_code == 200:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_streams_are_limited_for_a_tenant_with_all_its_keys_and_for_all_together(serve: Serve) -> None:
    limits = ConnectionLimits(streams_per_tenant=2, streams=3)
    service = serve(api_key="the key of the operator", connections=limits)
    paths, keys = dict[str, str](), dict[str, dict[str, str]]()
    for tenant in ("ada", "bob"):
        store = service.store.of(tenant)
        graph_id = store.graphs.save(two_layers(), NOON).id
        paths[tenant] = f"/v1/runs/{store.runs.submit(request_for(graph_id), NOON).id}/events"
        for name in (tenant, f"{tenant} 2"):
            key, _ = service.store.keys.add(name, "read", service.now(), tenant=tenant)
            keys[name] = {"Authorization": f"Bearer {key}"}
    with ExitStack() as stack:
        for name, tenant in (("ada", "ada"), ("ada 2", "ada"), ("bob", "bob")):
            answer = stack.enter_context(service.http.stream("GET", paths[tenant], headers=keys[name]))
            assert answer.status_code == 200
        refused = [
            complaint(service.http.get(paths[tenant], headers=keys[f"{tenant} 2"]), 429, "too_many_streams")
            for tenant in ("ada", "bob")
        ]
        assert "2 event streams are open for you" in refused[0]["detail"]
        assert "3 event streams are open already" in refused[1]["detail"]
        assert service.http.get("/healthz").status_code == 200


def test_streams_leave_connections_to_other_requests() -> None:
    usual = ConnectionLimits()
    assert usual.streams_per_tenant < usual.streams < usual.per_address <= usual.total


class Transport:
    """A transport that keeps what is not taken."""

    def __init__(self) -> None:
        self.unsent, self.is_aborted = 0, False

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_aborted = True


def test_who_takes_nothing_of_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapestry.service.connections.H11Protocol.__init__", lambda self: None)
    protocol = LimitedProtocol(Connections(ConnectionLimits(answer_s=5.0)))
    transport = Transport()
    monkeypatch.setattr(protocol, "transport", transport, raising=False)
    monkeypatch.setattr(protocol, "_sends_too_slowly", lambda passed_s: False)
    sizes = [(0, 0), (10, 9000), (13, 9000), (14, 8000), (18, 8000), (19, 8000), (20, 8000)]
    cut = []
    for now, transport.unsent in sizes:
        protocol.check(float(now))
        cut.append(transport.is_aborted)
    assert cut == [False, False, False, False, False, False, True]
