"""Descriptions of the tables of a database, so that two databases can be compared."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, inspect


def description(engine: Engine) -> dict[str, dict[str, Any]]:
    """Describe the tables as the database itself reports them, without the order of columns."""
    inspector = inspect(engine)

    def sorted_by_name(found: list[Any]) -> list[str]:
        return sorted(repr(sorted(dict(one).items())) for one in found)

    return {
        table: {
            "columns": sorted_by_name(
                [{**column, "type": repr(column["type"])} for column in inspector.get_columns(table)]
            ),
            "key": inspector.get_pk_constraint(table),
            "references": sorted_by_name(inspector.get_foreign_keys(table)),
            "unique": sorted_by_name(inspector.get_unique_constraints(table)),
            "indices": sorted_by_name(
                [
                    {**index, "dialect_options": {k: str(v) for k, v in index["dialect_options"].items()}}
                    for index in inspector.get_indexes(table)
                ]
            ),
            "checks": sorted_by_name(inspector.get_check_constraints(table)),
        }
        for table in sorted(inspector.get_table_names())
    }
