"""Rates: how many requests and submissions one key may send, by token buckets of this process.

A bucket holds what a key may send in `BURST_S` seconds, and fills at its rate. Where a service needs no key, whoever
can reach it is trusted, and nothing is limited.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.keys import READING
from tapestry.service.api.problems import respond
from tapestry.service.api.users import actor_of, noted_user, user_of
from tapestry.service.settings import Rates

BURST_S = 10.0
MOST_BUCKETS = 10_000


@dataclass
class TokenBucket:
    """The tokens that are left of a policy, as of a moment of a clock."""

    name: str
    rate: float
    left: float
    at_s: float

    @property
    def size(self) -> int:
        """The most tokens that it holds."""
        return max(1, math.floor(self.rate * BURST_S))

    def take(self, now_s: float) -> float:
        """Take a token; return 0, or in how many seconds there will be one."""
        self.left = min(self.size, self.left + (now_s - self.at_s) * self.rate)
        self.at_s = now_s
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) / self.rate

    def headers(self) -> dict[str, str]:
        """Return the header fields of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10)."""
        full_in = math.ceil((self.size - self.left) / self.rate)
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.size};w={math.ceil(self.size / self.rate)}',
            "RateLimit": f'"{self.name}";r={math.floor(self.left)};t={full_in}',
        }


class RateLimit:
    """Middleware that refuses the requests of a key beyond its rates with 429, and tells what is left in headers."""

    def __init__(self, app: ASGIApp, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock
        self._rates = {"requests": rates.requests_per_s, "submissions": rates.submissions_per_s}
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bucket = self._bucket(scope) if scope["type"] == "http" and noted_user(scope) is not None else None
        if bucket is None:
            await self._app(scope, receive, send)
            return
        wait_s = bucket.take(self._clock())
        if wait_s > 0:
            message = (
                f"this key may send {bucket.rate:g} {bucket.name} per second, and {bucket.size:,} at once; send the "
                f"next in {math.ceil(wait_s)} s"
            )
            headers = {"Retry-After": str(math.ceil(wait_s)), **bucket.headers()}
            await respond(429, "rate_limited", message, headers=headers)(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(bucket.headers())
            await send(message)

        await self._app(scope, receive, counted)

    def _bucket(self, scope: Scope) -> TokenBucket | None:
        """Return the bucket from which a request takes; None where its rate has no limit."""
        name = "requests" if scope["method"] in READING else "submissions"
        rate = self._rates[name]
        if rate == 0:
            return None
        user = user_of(scope)
        key = (user.tenant, actor_of(user), name)
        found = self._buckets.get(key)
        if found is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._forget()
            found = self._buckets[key] = TokenBucket(name, rate, math.inf, self._clock())
        return found

    def _forget(self) -> None:
        """Forget the buckets that are full by now: a new one is full, too."""
        now_s = self._clock()
        full = [key for key, each in self._buckets.items() if now_s - each.at_s >= BURST_S]
        for key in full or list(self._buckets)[: MOST_BUCKETS // 2]:
            del self._buckets[key]
