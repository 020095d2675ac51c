"""Restoring a copy of a database into an empty one, so that a service can go on from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, delete, func, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError

from tapestry.service.store.backup import appearing, copy_file
from tapestry.service.store.database import StoreError, connect, database_url_of, open_database, reason, shown
from tapestry.service.store.postgresql_programs import client_program, run_program
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import GraphRow, LeaseRow, PlanRow, RunRow, SessionRow, WorkerRow

MAGIC = {b"SQLite format 3\0": "sqlite", b"PGDMP": "postgresql"}
EXAMPLES = {"sqlite": "sqlite:///folder/file.db", "postgresql": "postgresql://user@host/name"}


@dataclass(frozen=True)
class RestoredDatabase:
    """The content of a restored database: numbers of rows, and `unfinished`, the jobs that workers go on with."""

    database: str
    runs: int
    plans: int
    graphs: int
    unfinished: int


def restore(text: str, source: Path, environment: Mapping[str, str]) -> RestoredDatabase:
    """Restore a copy made by `back_up` into the database of this URL, which must be empty; its tables are upgraded.

    Jobs that were under way wait for a worker, which continues them from their last checkpoint. Sessions end.

    Raises:
        StoreError: no such copy, one of another kind of database, a database that is not empty, or a failure, after
            which nothing was restored.
    """
    url, kind = database_url_of(text), _kind_of(source)
    if kind != url.get_backend_name():
        raise StoreError(
            f"{str(source)!r} is a copy of a database of {kind}, and {shown(url)} is none: "
            f"name one such as {EXAMPLES[kind]}"
        )
    if kind == "sqlite":
        _restore_file(source, url)
    else:
        _restore_dump(source, url, environment)
    database = Database.at(text)
    try:
        return _settle(database, shown(url))
    finally:
        database.engine.dispose()


def _kind_of(source: Path) -> str:
    try:
        with source.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise StoreError(f"cannot read the copy {str(source)!r}: {error.strerror}") from error
    for magic, kind in MAGIC.items():
        if start.startswith(magic):
            return kind
    raise StoreError(f"{str(source)!r} is no copy that `tapestry backup` made")


def _restore_file(source: Path, url: URL) -> None:
    target = Path(url.database or "")
    _refuse_used_file(target, shown(url))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {str(target)!r}: {error.strerror}") from error
    with appearing(target, overwrite=target.exists()) as partial:
        copy_file(source, partial)
        open_database(f"sqlite:///{partial}").dispose()  # upgraded before it appears, or refused


def _refuse_used_file(target: Path, name: str) -> None:
    """Refuse a file that has tables, or is no database; an empty one is replaced."""
    beside = [path for suffix in ("-wal", "-shm") if (path := Path(f"{target}{suffix}")).exists()]
    if beside:
        raise StoreError(
            f"{str(beside[0])!r} is left of another database, or that is in use; remove it, or name another file"
        )
    if not target.exists():
        return
    try:
        with closing(sqlite3.connect(f"{target.resolve().as_uri()}?mode=ro", uri=True)) as found:
            (tables,) = found.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"cannot restore into {name}: {error}") from error
    if tables:
        raise _not_empty(name)


def _restore_dump(source: Path, url: URL, environment: Mapping[str, str]) -> None:
    task = f"restore into {shown(url)}"
    program = client_program("pg_restore", task, environment)
    try:
        engine = connect(url)
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
        engine.dispose()
    except SQLAlchemyError as error:
        raise StoreError(f"cannot {task}: {reason(error)}") from error
    if tables:
        raise _not_empty(shown(url))
    options = ("--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", str(source))
    run_program(program, url, options, task, environment)


def _not_empty(name: str) -> StoreError:
    return StoreError(f"database {name} is not empty, and nothing in it is overwritten; name an empty one")


def _settle(database: Database, name: str) -> RestoredDatabase:
    """Free the jobs of workers that the copy remembers, forget these and all sessions, and count what there is."""
    with database.writing() as connection:
        connection.execute(update(LeaseRow).values(owner=None))
        connection.execute(delete(WorkerRow))
        connection.execute(delete(SessionRow))
        counts = [
            connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (RunRow, PlanRow, GraphRow, LeaseRow)
        ]
    return RestoredDatabase(name, *counts)
