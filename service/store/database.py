"""Opening a database: one URL in, an engine with tables out, or one clear line about what is wrong."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from service.store.queries import schema_version
from service.store.tables import SCHEMA_VERSION, Base, SchemaVersion

BUSY_TIMEOUT_MS = 30_000
KINDS = ("sqlite", "postgresql")


class StoreError(ValueError):
    """The store cannot be used, or holds nothing by that name; the message is one line for the user."""


def open_database(text: str) -> Engine:
    """An engine whose database has our tables: made if it is empty, checked for their version if not.

    Raises:
        StoreError: a wrong URL, a missing driver, an unreachable or unwritable database, or foreign tables.
    """
    url = _url(text)
    try:
        engine = create_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")
    except ImportError as error:
        raise StoreError(f"database {_shown(url)}: its driver is not installed ({error.name})") from error
    if url.get_backend_name() == "sqlite":
        _prepare_file(url)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin)
    try:
        _prepare_tables(engine)
    except StoreError:
        engine.dispose()
        raise
    except SQLAlchemyError as error:
        engine.dispose()
        raise StoreError(f"cannot use database {_shown(url)}: {reason(error)}") from error
    return engine


def reason(error: SQLAlchemyError) -> str:
    """What a database's error says, on one line, without the statement that met it."""
    own = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(own).split()) or type(own).__name__


def _url(text: str) -> URL:
    try:
        url = make_url(text)
        kind = url.get_backend_name()
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise StoreError(
            f"database URL {text!r} is not of a known form; write sqlite:///folder/file.db "
            "or postgresql+psycopg://user@host/name"
        ) from error
    if kind not in KINDS:
        raise StoreError(f"database URL {text!r}: {kind} is not supported; known are {', '.join(KINDS)}")
    return url


def _shown(url: URL) -> str:
    """The URL without its password; for a file its path."""
    if url.get_backend_name() == "sqlite" and url.database:
        return repr(url.database)
    return url.render_as_string(hide_password=True)


def _prepare_file(url: URL) -> None:
    if not url.database or url.database == ":memory:":
        raise StoreError("a database in memory would be lost at once; give a file: sqlite:///folder/file.db")
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot use database {str(path)!r}: cannot make its folder ({error.strerror})"
        ) from error
    if path.is_dir():
        raise StoreError(f"cannot use database {str(path)!r}: it is a folder")


def _configure_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    """Readers and one writer at a time without blocking each other; references are enforced."""
    connection.isolation_level = None  # transactions begin where `_begin` says, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    """A transaction that will write asks for its turn at once: one that read first could not wait for it."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def writing(engine: Engine) -> Engine:
    """The engine for transactions that write."""
    return engine.execution_options(writes=True)


def _prepare_tables(engine: Engine) -> None:
    """Make the tables, or check the ones that are there; the turn to write shows early that one may."""
    with Session(writing(engine)) as session, session.begin():
        tables = set(inspect(session.connection()).get_table_names())
        if not tables:
            Base.metadata.create_all(session.connection())
            session.add(SchemaVersion(version=SCHEMA_VERSION))
            return
        if SchemaVersion.__tablename__ not in tables:
            raise StoreError(
                f"database {_shown(engine.url)} holds tables of another program "
                f"({', '.join(sorted(tables)[:3])}); give one of its own"
            )
        versions = session.scalars(schema_version()).all()
        if versions != [SCHEMA_VERSION]:
            raise StoreError(
                f"database {_shown(engine.url)} has tables of version {', '.join(map(str, versions)) or 'none'}, "
                f"this program works with version {SCHEMA_VERSION}; use another database or another release"
            )
