"""Opening of databases: one URL in, an engine with tables out, or one clear line about the error."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError, StatementError

from tapestry.service.store.columns import json_text
from tapestry.service.store.schema import UnusableTables, prepare_tables

BUSY_TIMEOUT_MS = 30_000
RETRY_PAUSE_S = 0.01
CONNECT_TIMEOUT_S = 10
IDLE_IN_TRANSACTION_TIMEOUT_S = 60
CONNECTIONS_KEPT = 8
CONNECTIONS_MOST = (
    44  # as many as the web server has threads, with those of probes and feeds, so that none waits
)
KINDS = ("sqlite", "postgresql")
POSTGRESQL_DRIVER = "postgresql+psycopg"
POSTGRESQL_HINT = "pip install 'tapestry[postgres]'"


class StoreError(ValueError):
    """Error raised if the store cannot be used or holds nothing by that name; the message is one line for the user."""


def open_database(text: str) -> Engine:
    """Open an engine whose database has our tables: created if it is empty, upgraded if they are older.

    Raises:
        StoreError: a wrong URL, a missing driver, an unreachable or unwritable database, foreign or newer tables.
    """
    url = database_url_of(text)
    is_file = url.get_backend_name() == "sqlite"
    if is_file:
        _prepare_file(url)
    engine = connect(url)
    try:
        prepare_tables(engine)
    except (UnusableTables, SQLAlchemyError) as error:
        engine.dispose()
        if isinstance(error, UnusableTables):
            raise StoreError(f"database {shown(url)} {error}") from error
        raise StoreError(f"cannot use database {shown(url)}: {reason(error)}") from error
    return engine


def connect(url: URL) -> Engine:
    """Create an engine of a database, whatever is in it.

    Raises:
        StoreError: its driver is missing.
    """
    try:
        return _sqlite_engine(url) if url.get_backend_name() == "sqlite" else _postgresql_engine(url)
    except ImportError as error:
        raise StoreError(f"database {shown(url)}: {_lacking(url, error)}") from error


def database_url_of(text: str) -> URL:
    """Parse a database's URL; PostgreSQL's without a driver means the driver supplied with Tapestry.

    Raises:
        StoreError: not a URL of a database that is supported.
    """
    try:
        url = make_url(text)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername=POSTGRESQL_DRIVER)
        kind = url.get_backend_name()
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise StoreError(
            f"database URL {text!r} is not of a known form; write sqlite:///folder/file.db "
            "or postgresql://user@host/name"
        ) from error
    if kind not in KINDS:
        raise StoreError(f"database URL {text!r}: {kind} is not supported; known are {', '.join(KINDS)}")
    return url


def _lacking(url: URL, error: ImportError) -> str:
    """Return which driver is missing, and for ours how it is installed."""
    if url.drivername == POSTGRESQL_DRIVER:
        return f"its driver, psycopg, is not installed: {POSTGRESQL_HINT}"
    return f"its driver is not installed ({error.name})"


def shown(url: URL) -> str:
    """Return the URL without its password; for a file its path."""
    if url.get_backend_name() == "sqlite" and url.database:
        return repr(url.database)
    return url.render_as_string(hide_password=True)


def reason(error: Exception) -> str:
    """Return the message of a database's error on one line, without the statement that caused it."""
    own = error.orig if isinstance(error, StatementError) and error.orig is not None else error
    return " ".join(str(own).split()) or type(own).__name__


def writing(engine: Engine) -> Engine:
    """Return the engine for transactions that write."""
    return engine.execution_options(writes=True)


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=CONNECTIONS_KEPT,
        max_overflow=CONNECTIONS_MOST - CONNECTIONS_KEPT,
        json_serializer=json_text,
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _postgresql_engine(url: URL) -> Engine:
    """Create an engine with READ COMMITTED, as queries assume, whatever the server's default; it notices restarts."""
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT_S)})
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=CONNECTIONS_KEPT,
        max_overflow=CONNECTIONS_MOST - CONNECTIONS_KEPT,
        pool_pre_ping=True,
        json_serializer=json_text,
    )
    event.listen(engine, "connect", _configure_postgresql)
    return engine


def _prepare_file(url: URL) -> None:
    """Create the folder of a file, and check early that it is writable: otherwise a search would be lost later."""
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
    for place, noun in ((path.parent, "its folder"), (path, "it")):
        if place.exists() and not os.access(place, os.W_OK):
            raise StoreError(f"cannot use database {str(path)!r}: {noun} cannot be written to")


def _configure_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    """Configure SQLite: readers and one writer at a time without blocking each other; foreign keys are enforced.

    With the log written ahead, `synchronous = NORMAL` loses nothing when a process is killed, and never harms the
    file. Only a power cut may take back what was stored in the last moments, since not every transaction waits
    for the disk: a few points of a frontier, found again by the run that goes on. FULL would cost a wait for
    the disk per checkpoint and request. PostgreSQL, the database for more than one machine, always waits.
    """
    connection.isolation_level = None  # transactions begin where `_begin` says, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch to the write-ahead log, once in a file's life; of two processes that do so at once one is refused.

    SQLite refuses that one at once, whatever its busy timeout is, so the waiting is done here.
    """
    deadline = monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(RETRY_PAUSE_S)


def _configure_postgresql(connection: Any, _: Any) -> None:
    """Set a timeout, so that a process lost with its machine does not hold locks for a TCP connection's two hours."""
    connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_TIMEOUT_S}s'")
    connection.commit()


def _begin(connection: Connection) -> None:
    """Begin a transaction; one that will write takes the write lock at once, as it could not wait after reading."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
