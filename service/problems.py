"""Problem documents (RFC 9457): the single form in which the service reports errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def problem(
    code: str,
    title: str,
    detail: str,
    *,
    status: int | None = None,
    errors: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Build a problem document; `code` names the kind for programs, `detail` gives people the case and the remedy.

    `status` is the HTTP status where there is one; `errors` are faults with JSON pointers.
    """
    document: dict[str, Any] = {"type": f"/problems/{code}", "title": title, "detail": detail, "code": code}
    if status is not None:
        document["status"] = status
    if errors:
        document["errors"] = [dict(error) for error in errors]
    return document
