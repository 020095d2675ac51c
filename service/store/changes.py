"""A counter of what is written to a database, which takes microseconds to read where that is a file."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from sqlalchemy import Engine

LARGEST = 2**32  # of SQLite's own counter


class ChangeCounter:
    """The counter of a database's transactions that wrote something; used by one thread.

    SQLite has one per connection, which moves with what others commit. This one has a connection of its own that never
    writes, so it moves with every transaction of any process. Reading it takes no lock that a writer could hold.
    """

    def __init__(self, engine: Engine) -> None:
        self._path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def now(self) -> int | None:
        """Return the counter; None where the database has none, or does not answer at once."""
        if self._path is None:
            return None
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    self._path, timeout=0.0, isolation_level=None, check_same_thread=False
                )
                self._opened += 1
            row = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self.close()
            return None
        return self._opened * LARGEST + int(row[0])  # another connection counts anew

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
