"""Pagination of long lists: a cursor specifies the start of the next page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tapestry.service.api.problems import Problem
from tapestry.service.store import Cursor
from tapestry.teg.faults import Fault

# Microseconds since 1970, to the year 5138, and the id of the last item seen.
CURSOR = "^[0-9]{1,17}-[0-9a-f]{1,64}$"
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def cursor_of(created_at: datetime, last_id: str) -> str:
    """Return the cursor of the position after an item."""
    return f"{(created_at - BEGIN) // MICROSECOND}-{last_id}"


def read_cursor(text: str | None) -> Cursor | None:
    """Parse a cursor: the start of a page; None without a text.

    Raises:
        Problem: 422, it is not a cursor of this service.
    """
    if text is None:
        return None
    if re.fullmatch(CURSOR, text, re.ASCII) is None:
        fault = Fault("#query/cursor", "it is not a cursor that a page of this list gave as next")
        raise Problem(422, "invalid", fault.detail, (fault,))
    moment, _, last_id = text.partition("-")
    return BEGIN + int(moment) * MICROSECOND, last_id
