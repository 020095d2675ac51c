"""Error handling: every error is a problem document (RFC 9457), whatever raised it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from tapestry.service.api.answers import encoded
from tapestry.service.api.shape_faults import shape_faults
from tapestry.service.api.users import user_of
from tapestry.service.problems import MOST_FAULTS, TITLES, problem
from tapestry.service.requests import InvalidRequest
from tapestry.service.store import (
    AlreadyEnded,
    Conflict,
    InUse,
    KeyReused,
    QueueFull,
    QuotaExceeded,
    StoreError,
    UnknownId,
    Unreadable,
)
from tapestry.service.temporary import is_full
from tapestry.teg.faults import Fault, joined

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 10
MOST_FAULTS_SHOWN = 5
CODES = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "unknown_path",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    503: "unavailable",
}

log = logging.getLogger("tapestry.api")


class Problem(Exception):
    """Error raised to end a request with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        faults: tuple[Fault, ...] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.faults, self.headers = status, code, faults, headers
        self.members = members or {}

    def response(self) -> Response:
        return respond(self.status, self.code, str(self), self.faults, self.headers, self.members)


def respond(
    status: int,
    code: str,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Mapping[str, float]] | None = None,
) -> Response:
    """Build a response from a problem document; `members` are further ones of its kind."""
    errors = [fault.to_json() for fault in faults[:MOST_FAULTS]]
    document = problem(code, TITLES.get(status, "Error"), detail, status=status, errors=errors)
    document.update(members or {})
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(encoded(document), status, kept, MEDIA_TYPE)


def invalid(faults: Sequence[Fault]) -> Problem:
    """Return the problem that a request has these faults."""
    return Problem(422, "invalid", _summary(faults), tuple(faults))


Page = Callable[[Request, int, str], Response]


def add_handlers(app: FastAPI, page: Page, routes: Sequence[BaseRoute]) -> None:
    """Make every error of this application a problem document; browsers that request a page get a `page`.

    `routes` are all routes of the application, from which the allowed methods for a wrong method are found.
    """

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if wants_page and not request.url.path.startswith("/v1"):
            return page(request, error.status_code, "")
        return _http(request, error, routes)

    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(InvalidRequest, _invalid)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(StoreError, _store)
    app.add_exception_handler(OSError, _system)
    app.add_exception_handler(HTTPException, http)


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidRequest)
    return respond(422, "invalid", _summary(error.faults), error.faults)


def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = error.errors()
    for detail in details:
        if detail["type"] == "json_invalid":
            message = f"the body is not JSON: {detail['ctx']['error']} at character {detail['loc'][-1]}"
            return respond(400, "malformed", message)
    field = getattr(request.scope.get("route"), "body_field", None)
    form = None if field is None else field.field_info.annotation
    faults = shape_faults(details, error.body, form)
    rest = getattr(form, "remaining_faults", None)
    if rest is not None and isinstance(error.body, Mapping):
        broken = {fault.pointer.split("/")[1] for fault in faults if fault.pointer.startswith("/")}
        context = request.app.state.context
        store = context.all_tenants.of(user_of(request.scope).tenant)
        faults += rest(error.body, broken, context.settings.limits, store)
    return respond(422, "invalid", _summary(faults), faults)


def _summary(faults: Sequence[Fault]) -> str:
    """Format the first faults in one line."""
    more = f" (and {len(faults) - MOST_FAULTS_SHOWN} more)" if len(faults) > MOST_FAULTS_SHOWN else ""
    return joined([f"{f.pointer or 'the body'}: {f.detail}" for f in faults[:MOST_FAULTS_SHOWN]]) + more


def quota_problem(error: QuotaExceeded) -> Response:
    """Return the answer to a request that would exceed a quota: 429 where time helps, else 403."""
    status, later = (
        (403, {}) if error.retry_after_s is None else (429, {"Retry-After": str(error.retry_after_s)})
    )
    figures = {"limit": {error.quota: error.limit}, "used": {error.quota: error.used}}
    return respond(status, "quota_exceeded", str(error), headers=later, members=figures)


def _store(request: Request, error: Exception) -> Response:
    if isinstance(error, QuotaExceeded):
        return quota_problem(error)
    if isinstance(error, UnknownId):
        return respond(404, "unknown_id", str(error))
    if isinstance(error, QueueFull):
        return respond(429, "queue_full", str(error), headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(error, KeyReused):
        fault = Fault("#header/Idempotency-Key", str(error))
        return respond(422, "key_reused", str(error), (fault,))
    if isinstance(error, AlreadyEnded):
        return respond(409, "already_ended", str(error))
    if isinstance(error, InUse):
        return respond(409, "in_use", str(error))
    if isinstance(error, Unreadable):
        return respond(422, "unreadable", str(error))
    if isinstance(error, Conflict):
        log.warning("%s %s: %s", request.method, request.url.path, error)
        message = "another request changed or deleted it meanwhile; nothing was stored: send it again"
        return respond(503, "changed_meanwhile", message, headers={"Retry-After": "1"})
    log.error("%s %s: %s", request.method, request.url.path, error)
    message = "the database does not answer"
    return respond(503, "unavailable", message, headers={"Retry-After": str(RETRY_AFTER_S)})


def _system(request: Request, error: Exception) -> Response:
    """Answer where the system has no space for temporary files; any other of its errors is a fault of this program."""
    if not is_full(error):
        raise error
    log.error("%s %s: %s", request.method, request.url.path, error)
    message = "there is no space for temporary files; try again later"
    return respond(507, "no_space", message, headers={"Retry-After": str(RETRY_AFTER_S)})


def _http(request: Request, error: HTTPException, routes: Sequence[BaseRoute]) -> Response:
    cause = error.__cause__
    if isinstance(cause, Exception) and is_full(cause):  # a part of a form could not be kept
        return _system(request, cause)
    status, message, headers = error.status_code, str(error.detail), dict(error.headers or {})
    if status == 404 and message == "Not Found":
        message = f"there is nothing at {request.url.path!r}; /docs lists what there is"
    if status == 405:
        here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
        named = [route for route in here if getattr(route, "path", "") == request.url.path]
        methods = {m for route in named or here for m in getattr(route, "methods", None) or ()}
        headers["Allow"] = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        message = f"{request.url.path!r} knows no {request.method}; it knows {headers['Allow']}"
    return respond(status, CODES.get(status, "error"), message, headers=headers)
