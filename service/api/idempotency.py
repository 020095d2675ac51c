"""Idempotency-Key: a request that was sent again because no answer came is carried out once."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from fastapi import Header

from service.api.problems import Problem
from service.requests import Fault
from service.store import Idempotency

LONGEST = 255
REPLAYED = "Idempotent-Replayed"

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="any text that is new for each request, such as a UUID"),
]


def idempotency(key: str | None, scope: str, body: Any) -> Idempotency | None:
    """The key of a request with a hash of what it asks for.

    Raises:
        Problem: 422, the key is empty or too long.
    """
    if key is None:
        return None
    if not 0 < len(key) <= LONGEST or not key.isprintable():
        fault = Fault("#header/Idempotency-Key", f"expected 1 to {LONGEST} printable characters")
        raise Problem(422, "invalid", fault.detail, (fault,))
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return Idempotency(scope, key, hashlib.sha256(text.encode()).hexdigest())
