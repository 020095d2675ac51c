"""Pages of long lists: an opaque cursor says where the next one begins."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime

from service.api.problems import Problem
from service.requests import Fault
from service.store import Cursor


def cursor_of(created_at: datetime, last_id: str) -> str:
    """The cursor behind an item."""
    return base64.urlsafe_b64encode(json.dumps([created_at.isoformat(), last_id]).encode()).decode()


def read_cursor(text: str | None) -> Cursor | None:
    """Where a page begins.

    Raises:
        Problem: 422, it is none of ours.
    """
    if text is None:
        return None
    try:
        moment, last_id = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        if not isinstance(last_id, str):
            raise ValueError
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is None:
            raise ValueError
    except (ValueError, TypeError, binascii.Error) as error:
        fault = Fault("#query/cursor", "it is not a cursor that a page of this list gave as next")
        raise Problem(422, "invalid", fault.detail, (fault,)) from error
    return created_at, last_id
