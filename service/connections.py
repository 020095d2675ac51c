"""Limits on connections: how many there may be, and how slowly a client may send a request or take an answer.

Every connection is looked at once a second, so none costs a timer of its own. The limits count for one process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tapestry.service.api.answers import encoded
from tapestry.service.problems import problem
from tapestry.service.settings import ConnectionLimits

UNSENT_BYTES = 2**15  # of an answer, after which its writer waits until the client has taken some


class Connections:
    """The open connections of a server, by the addresses that they come from.

    Those of a proxy are of many clients, so they have no limit per address: `is_proxy` knows its address.
    """

    def __init__(self, limits: ConnectionLimits, is_proxy: Callable[[str], bool] = lambda _: False) -> None:
        self.limits, self._is_proxy = limits, is_proxy
        self._open: set[LimitedProtocol] = set()
        self._of_address: Counter[str] = Counter()

    def add(self, protocol: LimitedProtocol, address: str) -> Refusal | None:
        """Add a connection from an address; return the answer that refuses it if there are too many."""
        self._open.add(protocol)
        self._of_address[address] += 1
        if len(self._open) > self.limits.total:
            return Refusal(
                503, "too_many_connections", "this server has too many connections; try again soon"
            )
        if self._of_address[address] > self.limits.per_address and not self._is_proxy(address):
            return Refusal(429, "too_many_connections", "too many connections come from this address")
        return None

    def remove(self, protocol: LimitedProtocol, address: str) -> None:
        """Forget a connection that was closed."""
        self._open.discard(protocol)
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    def check(self, now: float) -> None:
        """Close the connections that are too slow at a moment of the event loop's clock."""
        for protocol in tuple(self._open):
            protocol.check(now)


@dataclass(frozen=True)
class Refusal:
    """An answer to a connection from which no request is read."""

    status: int
    code: str
    detail: str

    def text(self) -> bytes:
        """Return the answer as it is sent."""
        reason = HTTPStatus(self.status).phrase
        body = encoded(problem(self.code, reason, self.detail, status=self.status))
        lines = [
            f"HTTP/1.1 {self.status} {reason}",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Retry-After: 10",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


TOO_SLOW = Refusal(408, "too_slow", "the request did not arrive in time")


class LimitedProtocol(H11Protocol):
    """A connection that is closed when its client is too slow, and refused where there are too many already."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all, self._limits = connections, connections.limits
        self._address, self._is_refused = "", False
        self._header_began: float | None = None
        self._body_bytes, self._body_s = 0, 0.0
        self._unsent_bytes, self._unsent_s = 0, 0.0
        self._checked = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self._checked = self._header_began = self.loop.time()
        self._address = self.client[0] if self.client else ""
        refusal = self._all.add(self, self._address)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self, self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.conn.their_state is h11.IDLE and self._header_began is None:
            self._header_began = self.loop.time()
        self._body_bytes += len(data)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE and self._header_began is not None:
            self._header_began = None
            self._body_bytes, self._body_s = 0, 0.0

    def check(self, now: float) -> None:
        """Close the connection if its client is too slow."""
        passed_s, self._checked = now - self._checked, now
        if self.transport.is_closing():
            return
        if self._header_began is not None and now - self._header_began > self._limits.header_s:
            self._refuse(TOO_SLOW)
        elif self._sends_too_slowly(passed_s) or self._takes_nothing(passed_s):
            self.transport.abort()

    def _sends_too_slowly(self, passed_s: float) -> bool:
        """Return whether the body of a request arrives too slowly; time in which nothing is read does not count."""
        if self.conn.their_state is not h11.SEND_BODY or self.flow.read_paused:
            return False
        self._body_s += passed_s
        least_bytes = self._limits.body_bytes_per_s * self._body_s
        return self._body_s > self._limits.body_s and self._body_bytes < least_bytes

    def _takes_nothing(self, passed_s: float) -> bool:
        """Return whether the client takes nothing of what waits for it."""
        unsent = self.transport.get_write_buffer_size()
        self._unsent_s = self._unsent_s + passed_s if unsent and unsent == self._unsent_bytes else 0.0
        self._unsent_bytes = unsent
        return self._unsent_s > self._limits.answer_s

    def _refuse(self, refusal: Refusal) -> None:
        self._is_refused, self._header_began = True, None
        self.transport.write(refusal.text())
        self.transport.close()
