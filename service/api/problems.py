"""Errors: every one is a problem document (RFC 9457), whatever raised it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from service.problems import problem
from service.requests import Fault, InvalidRequest, escape
from service.store import AlreadyEnded, KeyReused, QueueFull, StoreError, UnknownId

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 10
TITLES = {
    400: "The request is malformed",
    401: "A key is needed",
    403: "Not from here",
    404: "Not found",
    405: "Not this method",
    409: "It cannot happen any more",
    413: "Too large",
    415: "Another content type is expected",
    421: "Another host",
    422: "The request cannot be carried out",
    429: "The queue is full",
    500: "A fault of this program",
    503: "Not now",
}
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
    """The end of a request with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        faults: tuple[Fault, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.faults, self.headers = status, code, faults, headers

    def response(self) -> Response:
        return respond(self.status, self.code, str(self), self.faults, self.headers)


def respond(
    status: int,
    code: str,
    detail: str,
    faults: tuple[Fault, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document as a response."""
    errors = [fault.to_json() for fault in faults]
    document = problem(code, TITLES.get(status, "Error"), detail, status=status, errors=errors)
    return JSONResponse(document, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Make every error of this application a problem document."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(InvalidRequest, _invalid)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(StoreError, _store)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidRequest)
    return respond(422, "invalid", f"{len(error.faults)} faults: {error}", error.faults)


def _validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = error.errors()
    if any(detail["type"] == "json_invalid" for detail in details):
        position = details[0]["loc"][-1]
        return respond(400, "malformed", f"the body is not JSON: {details[0]['ctx']['error']} at {position}")
    faults = tuple(_fault_of(detail) for detail in details)
    return respond(422, "invalid", "; ".join(f"{f.pointer}: {f.detail}" for f in faults[:5]), faults)


def _fault_of(detail: Mapping[str, Any]) -> Fault:
    """A fault as pydantic tells it, with the place it has in the request."""
    where, *path = detail["loc"]
    place = "/".join(escape(str(part)) for part in path)
    pointer = f"/{place}" if where == "body" and place else f"#{where}/{place}" if where != "body" else ""
    context = detail.get("ctx") or {}
    expected = context.get("expected", ())
    allowed = (
        tuple(part.strip("' ") for part in expected.replace(" or ", ", ").split(",")) if expected else ()
    )
    return Fault(pointer, detail["msg"], allowed)


def _store(request: Request, error: Exception) -> Response:
    if isinstance(error, UnknownId):
        return respond(404, "unknown_id", str(error))
    if isinstance(error, QueueFull):
        return respond(429, "queue_full", str(error), headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(error, KeyReused):
        return respond(409, "key_reused", str(error))
    if isinstance(error, AlreadyEnded):
        return respond(409, "already_ended", str(error))
    log.error("%s %s: %s", request.method, request.url.path, error)
    return respond(
        503, "unavailable", "the database does not answer", headers={"Retry-After": str(RETRY_AFTER_S)}
    )


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "error")
    return respond(error.status_code, code, str(error.detail), headers=error.headers)


def _fault(request: Request, error: Exception) -> Response:
    log.exception("%s %s", request.method, request.url.path, exc_info=error)
    return respond(500, "internal", "a fault of this program; its log says more under the request's id")
