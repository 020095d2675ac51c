"""Transactions of the store, and the errors that report a database's refusal."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tapestry.service.store.columns import NotJson
from tapestry.service.store.database import StoreError, open_database, reason, writing
from tapestry.service.store.tallies import DATABASE_SECONDS, Tallies
from tapestry.service.store.tenancy import OPTION, confine


class Conflict(StoreError):
    """Error raised when others have changed or deleted meanwhile what was to be written; trying again helps."""


class UnknownId(StoreError):
    """Error raised when there is nothing by that id."""


class QueueFull(StoreError):
    """Error raised when too many jobs wait already."""


class KeyReused(StoreError):
    """Error raised when an Idempotency-Key was used before, for another request."""


class AlreadyEnded(StoreError):
    """Error raised when the job has ended, so that the requested change is impossible."""


class InUse(StoreError):
    """Error raised when something cannot be deleted, since it has not ended or others need it."""


class Unreadable(StoreError):
    """Error raised for stored data that refers to operators or rules that this installation lacks."""


class LeaseLost(StoreError):
    """Error raised when the job belongs to another worker by now; nothing was written."""


class StoreSpace(NamedTuple):
    """The bytes that are left on the disk of a database file, and those that a server's database takes; else None."""

    free_bytes: int | None
    stored_bytes: int | None


class Database:
    """An open database. Writers wait for each other, readers do not wait."""

    def __init__(self, engine: Engine, tallies: Tallies) -> None:
        self.engine, self.tallies = engine, tallies
        self.dialect = engine.dialect.name
        self._tenant: str | None = engine.get_execution_options().get(OPTION)
        self._writer = writing(engine)

    @classmethod
    def at(cls, url: str) -> Database:
        """Open the database of a URL, for the rows of all tenants; raises StoreError."""
        engine = open_database(url)
        confine(engine)
        return cls(engine, Tallies())

    def of(self, tenant: str) -> Database:
        """Return the same database as a tenant sees it."""
        return Database(self.engine.execution_options(**{OPTION: tenant}), self.tallies)

    @property
    def tenant(self) -> str:
        """The tenant whose rows are seen."""
        assert self._tenant is not None, "this is the database of all tenants"
        return self._tenant

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run one transaction: everything in it is kept, or nothing."""
        try:
            with self._timed("write"), self._writer.begin() as connection:
                yield connection
        except IntegrityError as error:
            message = f"others changed or deleted it at the same moment; nothing was stored: {reason(error)}"
            raise Conflict(message) from error
        except (SQLAlchemyError, NotJson) as error:
            raise StoreError(f"the database refused to write; nothing was stored: {reason(error)}") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection for one consistent read."""
        try:
            with self._timed("read"), self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the database cannot be read: {reason(error)}") from error

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.tallies.time(DATABASE_SECONDS, operation, time.perf_counter() - began_s)

    def space(self) -> StoreSpace:
        """Return how much space there is, or is taken: of a file its disk is known, of a server what it stores."""
        if self.dialect == "sqlite":
            folder = Path(self.engine.url.database or "").resolve().parent
            try:
                return StoreSpace(shutil.disk_usage(folder).free, None)
            except OSError as error:
                raise StoreError(f"the disk of the database cannot be looked at: {error.strerror}") from error
        with self.reading() as connection:
            size = select(func.pg_database_size(func.current_database()))
            return StoreSpace(None, connection.scalar(size))

    def vacuum(self) -> None:
        """Rewrite the file of an SQLite database without its free pages; writers wait meanwhile."""
        try:
            with closing(self.engine.raw_connection()) as connection:  # it runs within no transaction
                connection.cursor().execute("VACUUM")
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(f"the database cannot be compacted: {reason(error)}") from error
