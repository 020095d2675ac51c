"""Problem documents (RFC 9457): the single form in which the service reports errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_FAULTS = 100
TITLES = {
    400: "The request is malformed",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Not this method",
    409: "It cannot happen now",
    413: "Too large",
    415: "Another content type is expected",
    421: "Another host",
    422: "The request cannot be carried out",
    429: "Too much at once",
    500: "A fault of this program",
    503: "Not now",
    507: "No space left",
}


def problem(
    code: str,
    title: str,
    detail: str,
    *,
    status: int | None = None,
    errors: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Build a problem document; `code` names the kind for programs, `detail` gives people the case and the remedy.

    `status` is the HTTP status where there is one; `errors` are faults with JSON pointers, of which the
    first `MOST_FAULTS` are listed.
    """
    document: dict[str, Any] = {"type": f"/problems/{code}", "title": title, "detail": detail, "code": code}
    if status is not None:
        document["status"] = status
    if errors:
        document["errors"] = [dict(error) for error in errors]
    return document
