"""Pagination of lists: newest first, by (created_at, id), so that nothing is missed or repeated."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, tuple_

from tapestry.service.store.records import Cursor
from tapestry.service.store.tables import BatchRow, GraphRow, ImportRow


def newest(
    query: Select[Any],
    table: type[GraphRow] | type[BatchRow] | type[ImportRow],
    limit: int,
    before: Cursor | None,
) -> Select[Any]:
    """Limit a query to the `limit` newest rows; `before` is the cursor of the last one seen."""
    place = (table.created_at, table.id)
    if before is not None:
        query = query.where(tuple_(*place) < tuple_(*before))  # compared as one: an index leads right there
    return query.order_by(*(column.desc() for column in place)).limit(limit)
