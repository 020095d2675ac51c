"""The API key: where one is set, all but the health checks require it, as a header or a browser's cookie."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tapestry.service.api.problems import respond

COOKIE = "tapestry_key"
OPEN = ("/healthz", "/readyz", "/login")
OPEN_FOLDERS = ("/static/",)


def cookie_value(key: str) -> str:
    """Compute the cookie that a browser keeps instead of the key itself."""
    return hmac.new(key.encode(), b"tapestry dashboard", hashlib.sha256).hexdigest()


def is_key(given: str, key: str) -> bool:
    """Return whether this is the key, in a time that reveals nothing about it."""
    return hmac.compare_digest(given.encode(), key.encode())


class KeyRequired:
    """Middleware that refuses requests without the key; browsers that request a page are redirected to the login."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]) or self._has_key(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        wants_page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if wants_page and not scope["path"].startswith("/v1"):
            await RedirectResponse(f"/login?next={quote(scope['path'])}", 303)(scope, receive, send)
            return
        message = "this service has a key; send it as 'Authorization: Bearer KEY'"
        refusal = respond(
            401, "unauthorized", message, headers={"WWW-Authenticate": 'Bearer realm="tapestry"'}
        )
        await refusal(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in OPEN or path.startswith(OPEN_FOLDERS)

    def _has_key(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return is_key(given.strip(), self._key)
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return COOKIE in cookies and is_key(cookies[COOKIE].value, cookie_value(self._key))
