"""The tenants of a service, which share it and see nothing of each other."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update

from tapestry.service.store.audit import COMMAND_LINE, AuditLine, append_line
from tapestry.service.store.graphs import insert_if_new
from tapestry.service.store.quotas import QuotaLimits, limits_of
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import TenantRow
from tapestry.service.store.tenancy import DEFAULT, checked_tenant


class Tenants:
    """The tenants by name, with their quotas; the default one is always there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> tuple[str, ...]:
        """Return the names of all tenants, the default one first."""
        with self._database.reading() as connection:
            found = connection.scalars(select(TenantRow.name).order_by(TenantRow.name))
            return (DEFAULT, *(name for name in found if name != DEFAULT))

    def limits(self, name: str) -> QuotaLimits:
        """Return the quotas of a tenant."""
        with self._database.reading() as connection:
            return limits_of(connection, name)

    def set_limits(self, name: str, limits: QuotaLimits, now: datetime, actor: str = COMMAND_LINE) -> None:
        """Set the quotas of a tenant, which is made where there is none of that name; the audit log names the `actor`.

        Raises:
            StoreError: the name is none.
        """
        quotas = limits.to_json()
        row = {"name": checked_tenant(name), "quotas": quotas, "created_at": now}
        text = ", ".join(f"{quota} {limit:g}" for quota, limit in quotas.items()) or "none"
        with self._database.writing() as connection:
            if not insert_if_new(connection, TenantRow, row):
                connection.execute(update(TenantRow).where(TenantRow.name == name).values(quotas=quotas))
            append_line(connection, AuditLine(now, name, actor, "set quotas", subject=text))
