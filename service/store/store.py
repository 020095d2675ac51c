"""The store: requests, searches, results and checks, kept beyond the processes that made them.

Guarantees. A graph is addressed by its content: stored twice it is one graph. A run of the command line is stored
whole or not at all; a run of the service is a row from the moment it is acknowledged, and every write about it
is one transaction. Results are plain values that no session tracks. A store may be used by several threads
and several processes at once: writers wait for each other, readers do not wait. Every method raises StoreError
with one line for the user. SQL is written in this package only, in a module per entity.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select

from tapestry.service.store.batches import Batches
from tapestry.service.store.changes import ChangeCounter
from tapestry.service.store.deletion import Deletions
from tapestry.service.store.epochs import Epochs
from tapestry.service.store.executions import Executions
from tapestry.service.store.graphs import Graphs
from tapestry.service.store.jobs import Jobs
from tapestry.service.store.keys import Keys
from tapestry.service.store.learning import Learning
from tapestry.service.store.plans import Plans
from tapestry.service.store.runs import Runs
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import IdempotencyRow
from tapestry.service.store.tensors import Tensors
from tapestry.service.store.workers import Workers

CHECKED_S = 5.0


class Store:
    """A database by its URL; see the module for its guarantees. `close()` when done.

    Who is dead is told by `clock`, seconds that never go back.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = Database(url)
        self._clock, self._writes_until = clock, -math.inf
        self.graphs = Graphs(self._database)
        self.runs = Runs(self._database)
        self.plans = Plans(self._database)
        self.executions = Executions(self._database)
        self.jobs = Jobs(self._database, clock)
        self.tensors = Tensors(self._database)
        self.workers = Workers(self._database, clock)
        self.batches = Batches(self._database)
        self.learning = Learning(self._database)
        self.epochs = Epochs(self._database)
        self.deletions = Deletions(self._database)
        self.keys = Keys(self._database)
        self.changes = ChangeCounter(self._database.engine)

    def ping(self) -> None:
        """Check that the database answers."""
        with self._database.reading() as connection:
            connection.execute(select(1))

    def check_writes(self) -> None:
        """Check that the database keeps what is written, by a row that comes and goes; raises StoreError.

        It is not tried again for a few seconds after it went well.
        """
        if self._clock() < self._writes_until:
            return
        key = secrets.token_hex(8)
        row = {
            "scope": "check",
            "key": key,
            "fingerprint": "",
            "subject": "",
            "created_at": datetime.now(UTC),
        }
        with self._database.writing() as connection:
            connection.execute(insert(IdempotencyRow).values(row))
        with self._database.writing() as connection:
            connection.execute(delete(IdempotencyRow).where(IdempotencyRow.key == key))
        self._writes_until = self._clock() + CHECKED_S

    def close(self) -> None:
        self.changes.close()
        self._database.engine.dispose()
