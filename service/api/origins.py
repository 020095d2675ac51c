"""Allowed origins of requests: this host by its own names, and no page of another site.

A service on loopback has no key, so a web page that a person visits must not be able to use it: neither by
posting a form to it, nor by a name of its own that it resolves to this host (DNS rebinding).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.problems import respond

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SAFE = ("GET", "HEAD", "OPTIONS")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
        b"object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
)


class SafeHeaders:
    """Middleware that adds security headers for browsers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        await self._app(scope, receive, guarded)


class SameOrigin:
    """Middleware that refuses foreign host names where `hosts` are given, and writes begun by other sites' pages."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] | None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(f"//{host}") not in self._hosts:
            message = (
                f"this service does not answer to the name {host[:200]!r}; allow it by TAPESTRY_ALLOWED_HOSTS"
            )
            return respond(421, "unknown_host", message)
        if method not in SAFE and _is_foreign(headers, host):
            message = "a page of another site began this request; only this service's own pages may write"
            return respond(403, "cross_site", message)
        return None


def _is_foreign(headers: Headers, host: str) -> bool:
    """Return whether a page of another site started a request; by its origin where browsers do not report that."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
