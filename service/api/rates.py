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
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.keys import READING
from tapestry.service.api.problems import respond
from tapestry.service.api.users import actor_of, noted_user
from tapestry.service.settings import Rates
from tapestry.service.store import ApiKey

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


class RateBuckets:
    """The buckets of all keys: of each one for what reads, and one for what writes."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rates = {"requests": rates.requests_per_s, "submissions": rates.submissions_per_s}
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}

    def take(self, bucket: TokenBucket) -> Response | None:
        """Take a token; return the refusal where there is none."""
        wait_s = bucket.take(self._clock())
        if wait_s == 0:
            return None
        message = (
            f"this key may send {bucket.rate:g} {bucket.name} per second, and {bucket.size:,} at once; send the "
            f"next in {math.ceil(wait_s)} s"
        )
        headers = {"Retry-After": str(math.ceil(wait_s)), **bucket.headers()}
        return respond(429, "rate_limited", message, headers=headers)

    def of(self, user: ApiKey, *, writes: bool) -> TokenBucket | None:
        """Return the bucket from which what a user sends takes; None where its rate has no limit."""
        name = "submissions" if writes else "requests"
        rate = self._rates[name]
        if rate == 0:
            return None
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


class RateLimit:
    """Middleware that refuses the requests of a key beyond its rates with 429, and tells what is left in headers."""

    def __init__(self, app: ASGIApp, buckets: RateBuckets) -> None:
        self._app, self._buckets = app, buckets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = noted_user(scope) if scope["type"] == "http" else None
        bucket = None if user is None else self._buckets.of(user, writes=scope["method"] not in READING)
        if bucket is None:
            await self._app(scope, receive, send)
            return
        refusal = self._buckets.take(bucket)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(bucket.headers())
            await send(message)

        await self._app(scope, receive, counted)
