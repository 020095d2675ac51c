"""Column types that databases do not have themselves: timestamps with a time zone, compressed JSON."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator


class NotJson(ValueError):
    """Error raised for a value that JSON cannot represent, such as infinity."""


def json_text(value: Any) -> str:
    """Convert a value to JSON text; raise NotJson for infinities and NaN, which are not valid JSON."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise NotJson(str(error)) from error


class UtcDateTime(TypeDecorator[datetime]):
    """A timestamp in UTC; SQLite stores no time zones, so the zone is added again on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"expected a moment with a time zone, not {value}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value


class CompressedJson(TypeDecorator[Any]):
    """A JSON value stored as gzipped text: placements and traces are repetitive."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        if value is None:
            return None
        return gzip.compress(json_text(value).encode(), 6, mtime=0)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(gzip.decompress(value))
