"""Pagination of long lists: an opaque cursor specifies the start of the next page."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from tapestry.service.api.problems import Problem
from tapestry.service.store import Cursor
from tapestry.teg.faults import Fault

LAST_ID = re.compile("[0-9a-f]{1,64}")


def cursor_of(created_at: datetime, last_id: str) -> str:
    """Return the cursor of the position after an item."""
    text = json.dumps([created_at.isoformat(), last_id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(text: str | None) -> Cursor | None:
    """Parse a cursor: the start of a page; None without a text.

    Raises:
        Problem: 422, it is not a cursor of this service.
    """
    if text is None:
        return None
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        moment, last_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is None or not LAST_ID.fullmatch(last_id):
            raise ValueError
        created_at = created_at.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        fault = Fault("#query/cursor", "it is not a cursor that a page of this list gave as next")
        raise Problem(422, "invalid", fault.detail, (fault,)) from error
    return created_at, last_id
