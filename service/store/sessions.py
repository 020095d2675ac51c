"""Transactions: what every part of the store does its work in, and how a database's refusal is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from tapestry.service.store.columns import NotJson
from tapestry.service.store.database import StoreError, open_database, reason, writing


class UnknownId(StoreError):
    """There is nothing by that id."""


class QueueFull(StoreError):
    """Too many jobs wait already."""


class KeyReused(StoreError):
    """An Idempotency-Key was used before, for another request."""


class AlreadyEnded(StoreError):
    """The job has ended; what was asked cannot happen any more."""


class Unreadable(StoreError):
    """What is stored makes no sense here: it speaks of operators or rules that this installation lacks."""


class LeaseLost(StoreError):
    """The job belongs to another worker by now; nothing was written."""


class Database:
    """An open database. Writers wait for each other, readers for nobody."""

    def __init__(self, url: str) -> None:
        self.engine: Engine = open_database(url)
        self.dialect = self.engine.dialect.name
        self._writer = writing(self.engine)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: everything in it is kept, or nothing."""
        try:
            with self._writer.begin() as connection:
                yield connection
        except (SQLAlchemyError, NotJson) as error:
            raise StoreError(f"the database refused to write; nothing was stored: {reason(error)}") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent look."""
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"the database cannot be read: {reason(error)}") from error
