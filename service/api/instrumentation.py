"""Request instrumentation: an id, a measurement, a line in the log, and an answer even to internal errors."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.audit import REQUEST_ID
from tapestry.service.api.health import Metrics
from tapestry.service.api.problems import respond

LONGEST_ID = 100
QUIET = ("/healthz", "/readyz", "/metrics")
SUBJECTS = ("run_id", "execution_id")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

log = logging.getLogger("tapestry.api")


class Instrumentation:
    """Middleware that gives each request an id, a measurement and a log line; unhandled exceptions become a 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, has_begun = time.perf_counter(), False
        request_id = scope[REQUEST_ID] = _id_of(Headers(scope=scope).get("x-request-id", ""))

        async def noted(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
                self._note(scope, message["status"], time.perf_counter() - began, request_id)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            fields = {"request_id": request_id, **_subjects(scope)}
            log.exception("%s %s: a fault of this program", scope["method"], scope["path"], extra=fields)
            if has_begun:
                raise  # the connection is cut, which shows the reader that this is not all
            reason = f"a fault of this program; its log says more under the request's id, {request_id}"
            await respond(500, "internal", reason)(scope, receive, noted)

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.note(method, _route(scope), status, seconds)
        if scope["path"] in QUIET:
            return
        extra = {
            "request_id": request_id,
            "method": method,
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
            **_subjects(scope),
        }
        log.info("%s %s %d", method, scope["path"], status, extra=extra)


def _id_of(given: str) -> str:
    """Return the request id of the sender if it is fit for a header and a log, else a new one."""
    if 0 < len(given) <= LONGEST_ID and given.isascii() and given.isprintable():
        return given
    return secrets.token_hex(8)


def _route(scope: Scope) -> str:
    """Return the template of the path (few values, whatever is requested), or `other` without a route."""
    path = getattr(scope.get("route"), "path", None)
    return str(path) if path else "other"


def _subjects(scope: Scope) -> dict[str, str]:
    """Return the ids of the run or execution that a request is about."""
    given = scope.get("path_params") or {}
    return {name: str(given[name]) for name in SUBJECTS if name in given}
