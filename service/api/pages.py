"""Pagination of long lists: a cursor specifies the start of the next page."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from tapestry.service.api.problems import Problem
from tapestry.service.store import Cursor, RunOrder, RunSummary
from tapestry.teg.faults import Fault

# Microseconds since 1970, to the year 5138, and the id of the last item seen.
CURSOR = "^[0-9]{1,17}-[0-9a-f]{1,64}$"
# In lists that are sorted by another value, that value too, its bytes in hexadecimal digits.
SORTED_CURSOR = "^[0-9]{1,17}-[0-9a-f]{1,64}([.]([0-9a-f]{2})*)?$"
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
NUMBER = struct.Struct(">d")
SEPARATOR = "\x1f"  # no name has it: it is not printable
MICROSECOND = timedelta(microseconds=1)


def cursor_of(created_at: datetime, last_id: str) -> str:
    """Return the cursor of the position after an item."""
    return f"{(created_at - BEGIN) // MICROSECOND}-{last_id}"


def read_cursor(text: str | None) -> Cursor | None:
    """Parse a cursor: the start of a page; None without a text.

    Raises:
        Problem: 422, it is not a cursor of this service.
    """
    return None if text is None else _read(text, CURSOR)[0]


def sorted_cursor_of(order: RunOrder, run: RunSummary) -> str:
    """Return the cursor of the position after a run in an order."""
    *first, created_at, run_id = order.place_of(run)
    cursor = cursor_of(created_at, run_id)
    if not first:
        return cursor
    if order.is_by_number:
        return f"{cursor}.{'' if first[0] is None else NUMBER.pack(first[0]).hex()}"
    return f"{cursor}.{SEPARATOR.join(first).encode().hex()}"


def read_sorted_cursor(text: str | None, order: RunOrder) -> tuple[Any, ...] | None:
    """Parse a cursor of a list of runs in an order; whatever has the form of a cursor is a position.

    Raises:
        Problem: 422, it has not.
    """
    if text is None:
        return None
    by_age, value = _read(text, SORTED_CURSOR)
    return (*_first(order, value), *by_age)


def _first(order: RunOrder, value: bytes) -> tuple[Any, ...]:
    """Return the values before the age in the place of a cursor."""
    if order.is_by_number:
        (number,) = NUMBER.unpack(value) if len(value) == NUMBER.size else (math.nan,)
        return (None if math.isnan(number) else number,)
    if not order.texts:
        return ()
    texts = value.decode(errors="replace").replace("\0", "").split(SEPARATOR)
    return tuple([*texts, *[""] * order.texts][: order.texts])


def _read(text: str, form: str) -> tuple[Cursor, bytes]:
    if re.fullmatch(form, text, re.ASCII) is None:
        fault = Fault("#query/cursor", "it is not a cursor that a page of this list gave as next")
        raise Problem(422, "invalid", fault.detail, (fault,))
    by_age, _, value = text.partition(".")
    moment, _, last_id = by_age.partition("-")
    return (BEGIN + int(moment) * MICROSECOND, last_id), bytes.fromhex(value)
