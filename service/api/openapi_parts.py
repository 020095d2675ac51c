"""Documentation of endpoints: the ids and numbers they take, the errors and headers they answer with."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, StringConstraints

from tapestry.service.api.pages import CURSOR, SORTED_CURSOR
from tapestry.service.api.problems import MEDIA_TYPE, Problem
from tapestry.service.problems import TITLES, problem
from tapestry.teg.printable import PATTERN, is_printable

Answers = dict[int | str, dict[str, Any]]

_PROBLEMS = {
    400: ("malformed", "the body is not JSON: Expecting value at character 0"),
    401: ("unauthorized", "this service has a key; send it as 'Authorization: Bearer KEY'"),
    403: ("cross_site", "a page of another site began this request; only this service's own pages may write"),
    404: ("unknown_id", "there is no run '0f4bb7a2c1d9'"),
    409: ("already_ended", "run 0f4bb7a2c1d9 has ended (succeeded); there is nothing to cancel"),
    413: ("too_large", "the body has more than the 8,388,608 bytes that are allowed here"),
    415: ("unsupported_media_type", "expected Content-Type: application/json, not text/plain"),
    421: ("unknown_host", "this service does not answer to the name 'example.org'"),
    422: ("invalid", "/mesh: there is no mesh 'dgx-h10'; did you mean dgx-h100?"),
    429: ("queue_full", "100 jobs of this tenant wait already; try again later"),
    500: ("internal", "a fault of this program; its log says more under the request's id"),
    503: ("unavailable", "the database does not answer"),
    507: ("no_space", "the disk of the database has 1,048,576 bytes left, and 268,435,456 are kept free"),
}
_FAULTS = {
    422: [
        {
            "pointer": "/mesh",
            "detail": "there is no mesh 'dgx-h10'; did you mean dgx-h100?",
            "allowed": ["dgx-h100", "tpu-v5p-4x4x4"],
        }
    ]
}
_ALWAYS = (400, 401, 403, 421, 429, 500, 503)
_RETRY = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}
LOCATION = {"Location": {"description": "where it can be followed", "schema": {"type": "string"}}}
FOLLOWED = (
    LOCATION
    | _RETRY
    | {
        "Preference-Applied": {
            "description": "the preferences that were followed",
            "schema": {"type": "string"},
        }
    }
)
ETAG = {"ETag": {"description": "names this content; for If-None-Match", "schema": {"type": "string"}}}
REPLAYED = {
    "Idempotent-Replayed": {
        "description": "true where this key was answered before and nothing new was made",
        "schema": {"type": "string"},
    }
}


def problems(*statuses: int) -> Answers:
    """Return the documented errors of an endpoint: its own, and those that every endpoint has."""
    stores = (507,) if 413 in statuses else ()
    return {status: _problem(status) for status in sorted({*statuses, *stores, *_ALWAYS})}


def _problem(status: int) -> dict[str, Any]:
    code, detail = _PROBLEMS[status]
    example = problem(code, TITLES[status], detail, status=status, errors=_FAULTS.get(status, ()))
    schema = {"$ref": "#/components/schemas/ProblemAnswer"}
    described: dict[str, Any] = {
        "description": TITLES[status],
        "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
    }
    return described | ({"headers": _RETRY} if status in (429, 503) else {})


def text_answer(media_type: str, description: str, example: str) -> Answers:
    """Return the documented success response of an endpoint that answers with a text."""
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": description, "content": content}}


def json_answer(description: str, example: Any) -> Answers:
    """Return the documented success response of an endpoint that answers with a whole JSON file."""
    content = {"application/json": {"schema": {"type": "object"}, "example": example}}
    answers: Answers = {200: {"description": description, "content": content, "headers": ETAG}}
    return answers | UNCHANGED


ACCEPTED: Answers = {202: {"headers": LOCATION | REPLAYED}}
UNCHANGED: Answers = {304: {"description": "It is what If-None-Match names", "headers": ETAG}}
KEPT: Answers = {200: {"headers": ETAG}, **UNCHANGED}


def _id(what: str, form: str) -> AfterValidator:
    """Build a validator that refuses texts not of the form of an id with 404, before they reach the database."""
    pattern = re.compile(form)

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise Problem(404, "unknown_id", f"there is no {what} {text[:80]!r}")
        return text

    return AfterValidator(check)


def _printable(text: str) -> str:
    if not is_printable(text):
        raise ValueError("expected printable characters")
    return text


def decimal_up_to(largest: int, *, has_zero: bool = True) -> str:
    """Return a regular expression for the decimal numbers from 0, or else 1, to `largest`, without leading zeros."""
    digits = str(largest)
    same_length = [
        digits[:k] + _digit(int(k == 0), int(digits[k]) - 1) + f"[0-9]{{{len(digits) - k - 1}}}"
        for k in range(len(digits))
        if int(digits[k]) > int(k == 0)
    ]
    shorter = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    return f"(?:{'|'.join((*(['0'] if has_zero else []), *shorter, *same_length, digits))})"


def _digit(first: int, last: int) -> str:
    return f"[{first}-{last}]"


DOCUMENT_SCHEMA = "#/components/schemas/TegDocument"
PRINTABLE = {"pattern": PATTERN}
Printable = AfterValidator(_printable)
GraphId = Annotated[
    str,
    Path(description="the id of a graph", examples=["0f2d3a7b9c1e4f60a1b2c3d4e5f60718"]),
    _id("graph", "[0-9a-f]{32}"),
]
RunId = Annotated[
    str, Path(description="the id of a run", examples=["0f4bb7a2c1d9"]), _id("run", "[0-9a-f]{12}")
]
PlanId = Annotated[
    str,
    Path(
        description="the id of a plan, RUN-PLAN; or PLAN of the newest run that has it",
        examples=["0f4bb7a2c1d9-9a1c03d2e4f5"],
    ),
    _id("plan", "([0-9a-f]{12}-)?[0-9a-f]{12,64}"),
]
ExecutionId = Annotated[
    str,
    Path(description="the id of an execution", examples=["71d0c94ae5b2"]),
    _id("execution", "[0-9a-f]{12}"),
]
MeasurementId = Annotated[
    str,
    Path(description="the id of a measurement", examples=["b7c9d0e1f2a3"]),
    _id("measurement", "[0-9a-f]{12}"),
]
ImportId = Annotated[
    str, Path(description="the id of an import", examples=["3c9e0b71d5a8"]), _id("import", "[0-9a-f]{12}")
]
BatchId = Annotated[
    str, Path(description="the id of a batch", examples=["5b1f0c9a7e3d"]), _id("batch", "[0-9a-f]{12}")
]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
PageLimit = Annotated[int, Query(ge=1, le=200, description="how many at most")]
PageCursor = Annotated[
    str | None,
    Query(
        description="`next` of the page before",
        json_schema_extra={"pattern": CURSOR},
        examples=["1795980253123456-0f4bb7a2c1d9"],
    ),
]
SortedCursor = Annotated[
    str | None,
    Query(
        description="`next` of the page before, which was sorted in the same way",
        json_schema_extra={"pattern": SORTED_CURSOR},
        examples=["1795980253123456-0f4bb7a2c1d9"],
    ),
]
