"""Messages from those who write events to those who wait for them, where the database carries them (PostgreSQL)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from tapestry.service.store.database import reason

CHANNEL = "tapestry_events"
CHECK_S = 1.0  # between two looks whether the listener is still wanted
RETRY_S = 5.0

log = logging.getLogger("tapestry.store")


def notify(connection: Connection) -> None:
    """Let all listeners know, once this transaction is committed, that an event was written."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, "")))


class Notices:
    """A listener to the messages of writers, on a thread and a connection of its own.

    `wake` is called on that thread. A lost connection is made again; meanwhile, and on SQLite, `is_listening` is false.
    """

    def __init__(self, engine: Engine, wake: Callable[[], object]) -> None:
        self._engine, self._wake = engine, wake
        self._ended = threading.Event()
        self.is_listening = False
        self._thread: threading.Thread | None = None
        if engine.dialect.name == "postgresql":
            self._thread = threading.Thread(target=self._run, name="notices", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop listening, and wait for the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except Exception as error:
                self.is_listening = False
                log.warning("events are polled until the database can be listened to: %s", reason(error))
                self._ended.wait(RETRY_S)
        self.is_listening = False

    def _listen(self) -> None:
        with closing(self._engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            connection.detach()  # it does not return to the pool, where it would go on listening
            driver.rollback()
            driver.autocommit = True
            driver.execute(f"LISTEN {CHANNEL}")
            self.is_listening = True
            self._wake()  # what came before this counts as news
            while not self._ended.is_set():
                for _ in driver.notifies(timeout=CHECK_S, stop_after=1):
                    self._wake()
