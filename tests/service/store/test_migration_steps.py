"""Contract of all steps of the tables: each keeps every row that there is, with all values whose columns stay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, create_engine, select

from tapestry.service.store.migrations import HEAD, REVISIONS
from tapestry.service.store.migrations.upgrade import upgrade
from tests.service.first_release import NOON

START = "0009"  # what the steps before it move elsewhere has tests of its own
BY_STEP = REVISIONS[REVISIONS.index(START) :]
OWN = {"alembic_version", "schema_version"}
STATUS = "succeeded"
VALUES: Mapping[type, Any] = {
    int: 7,
    float: 0.5,
    str: "text",
    bool: True,
    bytes: b"\x1f\x00bytes",
    object: {"of": "json"},  # of JSON
    datetime: NOON,
}


def tables(connection: Connection) -> dict[str, Table]:
    found = MetaData()
    found.reflect(connection)
    return {table.name: table for table in found.sorted_tables if table.name not in OWN}


def value(column: Column[Any], rows: Mapping[str, Mapping[str, Any]], is_file: bool) -> Any:
    """Return a value for a column: that of the row that it refers to, or one of its type."""
    for key in column.foreign_keys:
        return rows[key.column.table.name][key.column.name]
    if column.name == "status" and column.type.python_type is str:
        return STATUS
    found = VALUES[column.type.python_type]
    return NOON.replace(tzinfo=None) if is_file and found is NOON else found


def fill(connection: Connection, known: set[str], chosen: Mapping[str, Any] | None = None) -> None:
    """Write a row into each table that is not `known`, those first that others refer to.

    `chosen` are values of columns by name, or by table and name.
    """
    is_file = connection.dialect.name == "sqlite"
    rows: dict[str, Mapping[str, Any]] = {}
    for name, table in tables(connection).items():
        if name in known:
            rows[name] = connection.execute(select(table)).mappings().one()
            continue
        made = {column.name: value(column, rows, is_file) for column in table.columns}
        made |= {
            key: found for key in made for by in (key, f"{name}.{key}") if (found := (chosen or {}).get(by))
        }
        rows[name] = made
        connection.execute(table.insert().values(rows[name]))


def content(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [dict(row) for row in connection.execute(select(table)).mappings()]
        for name, table in tables(connection).items()
    }


def test_every_step_keeps_every_row(empty_url: str) -> None:
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        upgrade(connection, None, START)
        fill(connection, set())
        stored = content(connection)
        for before, step in pairwise(BY_STEP):
            upgrade(connection, before, step)
            found = content(connection)
            assert set(stored) <= set(found), f"{step} drops tables: {set(stored) - set(found)}"
            for name, rows in stored.items():
                kept = [{key: row[key] for key in row if key in found[name][0]} for row in rows]
                same = [{key: row[key] for key in kept[0]} for row in found[name]]
                assert same == kept, f"{step} changes {name}"
            if set(found) > set(stored):
                fill(connection, set(stored))
                found = content(connection)
            stored = found
    assert step == HEAD and len(stored) >= 25
    assert all(len(rows) == 1 for rows in stored.values())
    engine.dispose()
