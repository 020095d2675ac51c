"""Request instrumentation: an id, a span, a measurement, a line in the log, and an answer even to internal errors."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.audit import REQUEST_ID
from tapestry.service.api.metrics import Metrics
from tapestry.service.api.problems import respond
from tapestry.service.api.users import user_of
from tapestry.service.store.keys import FORM
from tapestry.service.telemetry.correlation_fields import correlated
from tapestry.service.telemetry.tracing import NO_SPAN, TraceSpan, tracing

REQUEST_IDS = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,100}")
QUIET = ("/healthz", "/readyz", "/metrics")
SUBJECTS = ("run_id", "execution_id", "import_id")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

log = logging.getLogger("tapestry.api")


class Instrumentation:
    """Middleware that gives each request an id, a span, figures and a log line; unhandled exceptions become a 500.

    All that is logged while a request is answered has its id, and so have the logs of the job that it makes.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, has_begun = time.perf_counter(), False
        headers = Headers(scope=scope)
        request_id = scope[REQUEST_ID] = _id_of(headers.get("x-request-id", ""))
        span = _span_of(scope, headers, request_id)

        async def noted(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
                self._note(scope, message["status"], time.perf_counter() - began, request_id, span)
            await send(message)

        self._metrics.open.inc()
        with correlated(span, request_id=request_id):
            fault = ""
            try:
                await self._app(scope, receive, noted)
            except Exception as error:
                fault = type(error).__name__
                message = "%s %s: a fault of this program"
                fields = {"request_id": request_id, **_subjects(scope)}
                log.exception(message, scope["method"], _path(scope), extra=fields)
                if has_begun:
                    raise  # the connection is cut, which shows the reader that this is not all
                reason = f"a fault of this program; its log says more under the request's id, {request_id}"
                await respond(500, "internal", reason)(scope, receive, noted)
            finally:
                span.end(fault)
                self._metrics.open.dec()

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str, span: TraceSpan) -> None:
        method, route = _method(scope), _route(scope)
        self._metrics.note(method, route, status, seconds)
        if scope["path"] in QUIET:
            return
        span.rename(f"{method} {route}")
        span.note(http__route=route, http__response__status_code=status)
        extra = {
            "request_id": request_id,
            **({} if status == 401 else {"tenant": user_of(scope).tenant}),
            "method": method,
            "path": _path(scope),
            "status": status,
            "seconds": round(seconds, 4),
            **_subjects(scope),
        }
        log.info("%s %s %d", method, _path(scope), status, extra=extra)


def _id_of(proposed: str) -> str:
    """Return the request id of the sender if it is of the known form, else a new one."""
    return proposed if REQUEST_IDS.fullmatch(proposed) else secrets.token_hex(8)


def _span_of(scope: Scope, headers: Headers, request_id: str) -> TraceSpan:
    """Start the span of a request, in the sender's trace if it has one; what monitoring asks for is not traced."""
    if scope["path"] in QUIET:
        return NO_SPAN
    attributes = {
        "http.request.method": _method(scope),
        "url.path": _path(scope),
        "tapestry.request_id": request_id,
    }
    return tracing().start(_method(scope), headers.get("traceparent"), "server", attributes)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


def _route(scope: Scope) -> str:
    """Return the template of the path (few values, whatever is requested), or `other` without a route."""
    path = getattr(scope.get("route"), "path", None)
    return str(path) if path else "other"


def _path(scope: Scope) -> str:
    """Return the path of a request without the secret of a key that was sent in it by mistake."""
    return FORM.sub(r"tapestry_\1_...", scope["path"])


def _subjects(scope: Scope) -> dict[str, str]:
    """Return the ids of the run or execution that a request is about."""
    found = scope.get("path_params") or {}
    return {name: str(found[name]) for name in SUBJECTS if name in found}
