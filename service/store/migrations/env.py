"""The script that Alembic runs to apply the migrations; it is loaded by Alembic alone, never imported."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import types

from tapestry.service.store.tables import Base


def as_the_database_has_it(kind: str, item: Any, _: object) -> str | Literal[False]:
    """Render our own column types for a new migration: as their types in the database, so that ours may change."""
    if kind == "type" and isinstance(item, types.TypeDecorator):
        return f"sa.{item.impl!r}"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot change most things of a table, and so gets a new one
    render_item=as_the_database_has_it,
)
with context.begin_transaction():
    context.run_migrations()
