"""API keys: where there are any, all but the health checks require one, as a header or by a browser's session.

The key of the settings may do everything. Keys with names, which the store has, may do what their scope allows: read,
also submit (POST and PUT), or also administer (DELETE). Wrong keys are answered ever more slowly.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import threading
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tapestry.service.api.problems import RETRY_AFTER_S, respond
from tapestry.service.api.users import (
    OPERATOR,
    SECRET,
    WrongIdentity,
    is_operator,
    note_session,
    note_user,
    proxied,
)
from tapestry.service.settings import ServiceSettings
from tapestry.service.store import ApiKey, KeyScope, Store, StoreError

COOKIE = "tapestry_key"
OPEN = ("/healthz", "/readyz", "/login")
OPEN_FOLDERS = ("/static/",)
READING = ("GET", "HEAD", "OPTIONS")
PURE = ("/v1/layouts/",)  # what is posted here is answered, and leaves nothing
OPERATION = ("/metrics",)  # figures of all tenants together, for the operator only
ADMINISTRATION = ("/v1/audit",)
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tapestry"'}
KNOWN_S = 2.0  # for so long a key that was right, and whether there are keys, is not looked up again
MOST_KNOWN = 1000
# Wrong keys of one address in so many seconds that are answered at once, the longest pause then, and how many wait.
WINDOW_S, AT_ONCE, LONGEST_PAUSE_S, MOST_WAITING = 60.0, 5, 2.0, 8

log = logging.getLogger("tapestry.api")


class Locks:
    """The keys that a service accepts: that of its settings, if there is one, and those of its store.

    A service that more than this machine can reach is locked even when its last key has ended.
    """

    def __init__(self, store: Store, settings: ServiceSettings) -> None:
        self._store, self._key, self.proxy = store, settings.api_key, settings.proxy
        self._is_reachable = not settings.is_loopback
        self._known: dict[str, tuple[ApiKey, float]] = {}
        self._has_keys = (False, 0.0)
        self._lock = threading.Lock()

    def is_locked(self) -> bool:
        """Return whether a key is needed: there is one, or others can reach the service."""
        found = self.is_known_locked()
        if found is None:
            found = self._store.keys.any_valid(datetime.now(UTC))
            self._has_keys = (found, time.monotonic() + KNOWN_S)
        return found

    def is_known_locked(self) -> bool | None:
        """Return whether a key is needed, without the database; None if that was not looked up of late."""
        if self._key is not None or self.proxy is not None or self._is_reachable:
            return True
        found, until = self._has_keys
        return found if time.monotonic() < until else None

    def of_text(self, text: str) -> ApiKey | None:
        """Return the key that a text is; None if it is none."""
        found = self.known(text)
        if found is None:
            found = self._store.keys.identify(text, datetime.now(UTC))
            if found is not None:
                self._remember(text, found)
        return found

    def known(self, text: str) -> ApiKey | None:
        """Return the key that a text is, without the database; None if that was not looked up of late."""
        if self._key is not None and hmac.compare_digest(text.encode(errors="replace"), self._key.encode()):
            return self._own()
        with self._lock:
            key, until = self._known.get(_digest(text), (None, 0.0))
        return key if time.monotonic() < until else None

    def of_session(self, token: str) -> ApiKey | None:
        """Return the key with which a session began, if both are valid still."""
        holder = self._store.keys.holder(token, datetime.now(UTC))
        if holder is None or holder == self._mark():
            return None if holder is None else self._own()
        return self._store.keys.by_prefix(holder, datetime.now(UTC))

    def begin_session(self, key: ApiKey, now: datetime, ends_at: datetime) -> str:
        """Begin a session with a key; return its token."""
        return self._store.keys.begin_session(key.prefix or self._mark(), now, ends_at)

    def _own(self) -> ApiKey:
        """Return the key of the settings as one that may do everything."""
        return OPERATOR

    def _mark(self) -> str:
        """Return what stands for the key of the settings in sessions; another key has another one."""
        return f"settings:{hashlib.sha256((self._key or '').encode()).hexdigest()[:32]}" if self._key else "-"

    def _remember(self, text: str, key: ApiKey) -> None:
        with self._lock:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[_digest(text)] = (key, time.monotonic() + KNOWN_S)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


class WrongKeys:
    """The wrong keys of late by address: the more there are, the longer the answer takes."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)
        self._waiting: defaultdict[str, int] = defaultdict(int)

    async def pause(self, address: str) -> bool:
        """Count a wrong key, and wait; return False where too many wait already."""
        now = time.monotonic()
        for known in [a for a, times in self._times.items() if now - times[-1] > WINDOW_S]:
            del self._times[known]
        times = self._times[address]
        times.append(now)
        while now - times[0] > WINDOW_S:
            times.popleft()
        if len(times) <= AT_ONCE:
            return True
        if self._waiting[address] >= MOST_WAITING:
            return False
        self._waiting[address] += 1
        try:
            await asyncio.sleep(min(LONGEST_PAUSE_S, 0.05 * 2.0 ** min(len(times) - AT_ONCE, 10)))
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True


class KeyRequired:
    """Middleware that refuses requests without a key that allows them; browsers that request a page get the login."""

    def __init__(self, app: ASGIApp, locks: Locks, wrong: WrongKeys) -> None:
        self._app, self._locks, self._wrong = app, locks, wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            refusal = await self._refusal(scope)
        except StoreError as error:  # who cannot be known is not let in
            log.error("%s %s: %s", scope["method"], scope["path"], error)
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            refusal = respond(503, "unavailable", "the database does not answer", headers=headers)
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        is_locked = self._locks.is_known_locked()
        if not (await run_in_threadpool(self._locks.is_locked) if is_locked is None else is_locked):
            return None
        headers = Headers(scope=scope)
        given, token = _bearer(headers), token_of(headers)
        try:
            key = proxied(headers, self._locks.proxy)
        except WrongIdentity as error:
            if not await self._wrong.pause(address_of(scope)):
                return too_many()
            return respond(401, "unauthorized", str(error), headers=CHALLENGE)
        if key is not None:
            pass
        elif given is not None:
            key = self._locks.known(given) or await run_in_threadpool(self._locks.of_text, given)
        elif token is not None:
            key = await run_in_threadpool(self._locks.of_session, token)
            note_session(scope, token)
        if key is not None:
            note_user(scope, key)
            if scope["path"] in OPERATION:
                return None if is_operator(key) else _not_operator(key)
            needed = _needed(scope["method"], scope["path"])
            return None if key.allows(needed) else _insufficient(key, needed)
        if given is not None and not await self._wrong.pause(address_of(scope)):
            return too_many()
        wants_page = scope["method"] in READING and "text/html" in headers.get("accept", "")
        if wants_page and not scope["path"].startswith("/v1"):
            query = scope["query_string"].decode("ascii", "replace")
            wanted = f"{scope['path']}?{query}" if query else scope["path"]
            return RedirectResponse(f"/login?next={quote(wanted)}", 303)
        message = "this service has a key; send it as 'Authorization: Bearer KEY'"
        return respond(401, "unauthorized", message, headers=CHALLENGE)

    def _is_open(self, path: str) -> bool:
        return path in OPEN or path.startswith(OPEN_FOLDERS)


def address_of(scope: Scope) -> str:
    """Return the address that a request came from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def too_many() -> Response:
    """Return the answer to an address of which many wrong keys came."""
    headers = {"Retry-After": str(int(WINDOW_S))}
    return respond(429, "too_many_attempts", "too many wrong keys came from this address", headers=headers)


def is_pure(path: str) -> bool:
    """Return whether what is posted to a path leaves nothing."""
    return path.startswith(PURE)


def has_credentials(scope: Scope) -> bool:
    """Return whether a request shows a key, a session or what a proxy would send, or logs in."""
    headers = Headers(scope=scope)
    shown = _bearer(headers) or token_of(headers) or headers.get(SECRET)
    return bool(shown) or (scope["path"] == "/login" and scope["method"] == "POST")


def _needed(method: str, path: str) -> KeyScope:
    if path in ADMINISTRATION:
        return "admin"
    if method in READING or is_pure(path) or path == "/logout":
        return "read"
    return "admin" if method == "DELETE" else "submit"


def _insufficient(key: ApiKey, needed: KeyScope) -> Response:
    message = f"the key {key.name!r} has the scope {key.scope!r}; this needs {needed!r}"
    return respond(403, "insufficient_scope", message)


def _not_operator(key: ApiKey) -> Response:
    message = (
        f"the key {key.name!r} is not the operator's: this needs the scope 'admin' and the default tenant"
    )
    return respond(403, "insufficient_scope", message)


def _bearer(headers: Headers) -> str | None:
    """Return the key in the header of a request; None without one."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else None


def token_of(headers: Headers) -> str | None:
    """Return the token of a browser's session; None without one."""
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None
