"""Insertion of rows that others may insert at the same moment, into any table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, literal
from sqlalchemy.dialects import postgresql, sqlite

from tapestry.service.store.tables import Base


def insert_if_new(connection: Connection, table: type[Base], row: Mapping[str, Any]) -> bool:
    """Insert a row unless one with its key exists already; return whether it was inserted.

    A returned row indicates this on every database; counts of rows do not, PostgreSQL's driver gives none here.
    """
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    query = dialect.insert(table).values(row).on_conflict_do_nothing().returning(literal(1))
    return connection.execute(query).first() is not None
