"""Idempotency-Key: a request that is sent again because no answer came is carried out once."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from fastapi import Header

from tapestry.service.api.problems import Problem
from tapestry.service.store import Idempotency, Submitted
from tapestry.teg.faults import Fault

LONGEST = 255

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="any text that is new for each request, such as a UUID; sent again, the request is answered "
        "as before and nothing new is made, for 24 hours",
        json_schema_extra={"minLength": 1, "maxLength": LONGEST, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    ),
]


def replayed(submitted: Submitted) -> dict[str, str]:
    """Return the header that distinguishes a repeated answer from a first one."""
    return {"Idempotent-Replayed": "true"} if submitted.is_replay else {}


def idempotency(key: str | None, scope: str, body: Any) -> Idempotency | None:
    """Return the key of a request with a hash of its content; None without a key.

    Raises:
        Problem: 422, the key is empty or too long.
    """
    if key is None:
        return None
    if not 0 < len(key) <= LONGEST or not (key.isascii() and key.isprintable()):
        fault = Fault("#header/Idempotency-Key", f"expected 1 to {LONGEST} printable ASCII characters")
        raise Problem(422, "invalid", fault.detail, (fault,))
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return Idempotency(scope, key, hashlib.sha256(text.encode()).hexdigest())
