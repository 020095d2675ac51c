"""The audit log: who did what from where, and with what outcome; lines are appended, and never changed.

They are deleted by age only, and only where that is asked for (`tapestry gc --audit-older-than`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select

from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import AuditRow
from tapestry.service.store.tenancy import DEFAULT

Outcome = Literal["done", "refused", "failed"]
COMMAND_LINE = "command line"
LONGEST = 300  # characters of what a sender chose


@dataclass(frozen=True)
class AuditLine:
    """A line of the audit log; `number` is its place in it, None until it is appended.

    `tenant` is None where nobody was known. `actor` is a key's prefix, or what stands for another identity.
    """

    at: datetime
    tenant: str | None
    actor: str
    action: str
    outcome: Outcome = "done"
    subject: str = ""
    address: str = ""
    status: int | None = None
    request_id: str = ""
    number: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        return {**{name: getattr(self, name) for name in _NAMES}, "at": self.at.isoformat()}


_NAMES = tuple(column.key for column in AuditRow.__table__.columns)
_COLUMNS = tuple(getattr(AuditRow, name) for name in _NAMES)


class Audit:
    """The audit log of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, line: AuditLine) -> None:
        """Append a line."""
        with self._database.writing() as connection:
            append_line(connection, line)

    def note_command(self, action: str, subject: str, now: datetime) -> None:
        """Append a line of what a command did."""
        self.append(AuditLine(now, DEFAULT, COMMAND_LINE, action, subject=subject))

    def page(
        self,
        limit: int = 50,
        before: int | None = None,
        *,
        since: datetime | None = None,
        tenant: str | None = None,
    ) -> tuple[AuditLine, ...]:
        """Return lines of a tenant, or of all and of nobody, newest first; `before` is the number of the last seen."""
        query = select(*_COLUMNS).order_by(AuditRow.number.desc()).limit(limit)
        for condition in (
            None if before is None else AuditRow.number < before,
            None if since is None else AuditRow.at >= since,
            None if tenant is None else AuditRow.tenant == tenant,
        ):
            query = query if condition is None else query.where(condition)
        with self._database.reading() as connection:
            return tuple(AuditLine(**row._mapping) for row in connection.execute(query))

    def forget(self, until: datetime, *, dry: bool = False) -> int:
        """Delete the lines of before a moment, or if `dry` only count them; return how many."""
        old = AuditRow.at < until
        with self._database.writing() as connection:
            if dry:
                return len(connection.scalars(select(AuditRow.number).where(old)).all())
            return connection.execute(delete(AuditRow).where(old)).rowcount


def append_line(connection: Connection, line: AuditLine) -> None:
    """Append a line within a transaction; NUL, which PostgreSQL takes in no text, is replaced."""
    row = {name: getattr(line, name) for name in _NAMES if name != "number"}
    chosen = ("actor", "address", "action", "subject", "request_id")
    row |= {name: row[name][:LONGEST].replace("\0", "\N{REPLACEMENT CHARACTER}") for name in chosen}
    connection.execute(insert(AuditRow).values(row))
