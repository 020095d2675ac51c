"""The tenants of a service, which share it and see nothing of each other."""

from __future__ import annotations

from sqlalchemy import select

from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import TenantRow
from tapestry.service.store.tenancy import DEFAULT


class Tenants:
    """The tenants by name; the default one is always there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> tuple[str, ...]:
        """Return the names of all tenants, the default one first."""
        with self._database.reading() as connection:
            found = connection.scalars(select(TenantRow.name).order_by(TenantRow.name))
            return (DEFAULT, *(name for name in found if name != DEFAULT))
