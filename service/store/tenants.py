"""The tenants of a service, which share it and see nothing of each other."""

from __future__ import annotations

from datetime import datetime
from math import inf

from sqlalchemy import select, update

from tapestry.service.store.audit import COMMAND_LINE, AuditLine, append_line
from tapestry.service.store.database import StoreError
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.quotas import WEIGHT, QuotaLimits, limits_of
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import BatchRow, GraphRow, ImportRow, RunRow, TenantRow, TensorRow
from tapestry.service.store.tenancy import DEFAULT, checked_tenant

_OWNED = (
    GraphRow,
    RunRow,
    BatchRow,
    ImportRow,
    TensorRow,
)  # whatever a tenant has begins with a row of these


class Tenants:
    """The tenants by name, with their quotas; the default one is always there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> tuple[str, ...]:
        """Return the names of all tenants, the default one first; those too that only a proxy names, by their rows."""
        known = select(TenantRow.name).union(*(select(table.tenant) for table in _OWNED))
        with self._database.reading() as connection:
            return (DEFAULT, *sorted({*connection.scalars(known)} - {DEFAULT}))

    def limits(self, name: str) -> QuotaLimits:
        """Return the quotas of a tenant."""
        with self._database.reading() as connection:
            return limits_of(connection, name)

    def weight(self, name: str) -> float:
        """Return the weight of a tenant in fair shares; 1 where none was set."""
        with self._database.reading() as connection:
            stored = connection.scalar(select(TenantRow.quotas).where(TenantRow.name == name))
        return float((stored or {}).get(WEIGHT, 1.0))

    def set_limits(
        self,
        name: str,
        limits: QuotaLimits,
        now: datetime,
        actor: str = COMMAND_LINE,
        *,
        weight: float | None = None,
    ) -> None:
        """Set the quotas of a tenant, and its weight in fair shares (None: as it is); the audit log names the `actor`.

        The tenant is made where there is none of that name.

        Raises:
            StoreError: the name is none, or the weight is not a number above 0.
        """
        if weight is not None and not 0 < weight < inf:
            raise StoreError(f"the weight of a tenant is a number above 0, not {weight:g}")
        quotas = limits.to_json() | ({} if weight is None else {WEIGHT: weight})
        row = {"name": checked_tenant(name), "quotas": quotas, "created_at": now}
        text = ", ".join(f"{quota} {limit:g}" for quota, limit in quotas.items()) or "none"
        with self._database.writing() as connection:
            if not insert_if_new(connection, TenantRow, row):
                mine = TenantRow.name == name
                before = connection.scalar(select(TenantRow.quotas).where(mine).with_for_update()) or {}
                kept = {WEIGHT: before[WEIGHT]} if WEIGHT in before else {}
                connection.execute(update(TenantRow).where(mine).values(quotas=kept | quotas))
            append_line(connection, AuditLine(now, name, actor, "set quotas", subject=text))
