"""The tables of tenants: keys, sessions, use, keys of requests, and the audit log, whose rows never change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    Float,
    Index,
    Integer,
    String,
    Text,
    event,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.store.columns import UtcDateTime
from tapestry.service.store.tables.base import KEY, TENANT, Base


class TenantRow(Base):
    """A tenant that was made; `quotas` are its limits by name."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(TENANT, primary_key=True)
    quotas: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ApiKeyRow(Base):
    """An API key: what is public of it, its tenant and scope, and a hash of its text."""

    __tablename__ = "api_keys"

    prefix: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), index=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    scope: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class SessionRow(Base):
    """A browser's session, by a hash of its token; `holder` is its key's prefix, or a mark of the settings' key."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    holder: Mapped[str] = mapped_column(String(64), index=True)
    ends_at: Mapped[datetime] = mapped_column(UtcDateTime)


class UsageRow(Base):
    """The seconds that the ended jobs of a tenant took, as they count at a moment of the database's clock.

    `at_s` are seconds since 1970; later the same seconds count less (`service.scheduling.decayed`).
    """

    __tablename__ = "usage"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    seconds: Mapped[float] = mapped_column(Float(53))
    at_s: Mapped[float] = mapped_column(Float(53))


class IdempotencyRow(Base):
    """An Idempotency-Key that was used, with the request and the job it stands for."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    scope: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(32), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class AuditRow(Base):
    """A line of the audit log: who did what from where, and with what outcome. The database refuses changes of it.

    `actor` is the prefix of a key, or what stands for another identity; `status` is that of the answer, if there was
    one.
    """

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(KEY, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    tenant: Mapped[str | None] = mapped_column(TENANT)
    actor: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str] = mapped_column(String(16))
    status: Mapped[int | None] = mapped_column(Integer)
    request_id: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index(None, "tenant", "number"),)


NEVER = "rows of the audit log are never changed"
APPEND_ONLY = {
    "sqlite": (
        f"CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, '{NEVER}'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{NEVER}'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_append_only()",
    ),
}


@event.listens_for(AuditRow.__table__, "after_create")
def _keep_from_changes(_: Any, connection: Connection, **__: Any) -> None:
    for statement in APPEND_ONLY[connection.dialect.name]:
        connection.exec_driver_sql(statement)
