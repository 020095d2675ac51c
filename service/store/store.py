"""The store: requests, searches, results and checks, kept beyond the processes that made them.

Guarantees. A graph is addressed by its content: stored twice it is one graph. A run of the command line is stored
whole or not at all; a run of the service is a row from the moment it is acknowledged, and every write about it
is one transaction. Results are plain values that no session tracks. A store may be used by several threads
and several processes at once: writers wait for each other, readers do not wait. Every method raises StoreError
with one line for the user. Whoever answers a request of a tenant has a TenantStore, in which there is nothing of
others (`tenancy.py`). SQL is written in this package only, in a module per entity.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import delete, insert, select

from tapestry.service.store.audit import Audit
from tapestry.service.store.batches import Batches
from tapestry.service.store.changes import ChangeCounter
from tapestry.service.store.database import StoreError
from tapestry.service.store.deletion import Deletions
from tapestry.service.store.epochs import Epochs
from tapestry.service.store.executions import Executions
from tapestry.service.store.graphs import Graphs
from tapestry.service.store.imports import Imports
from tapestry.service.store.jobs import Jobs
from tapestry.service.store.keys import Keys
from tapestry.service.store.learning import Learning
from tapestry.service.store.measurements import Measurements
from tapestry.service.store.notices import Notices
from tapestry.service.store.observing import Observers
from tapestry.service.store.plans import Plans
from tapestry.service.store.quotas import Quotas
from tapestry.service.store.run_watch import RunWatch
from tapestry.service.store.runs import Runs
from tapestry.service.store.sessions import Database, StoreSpace
from tapestry.service.store.tables import IdempotencyRow
from tapestry.service.store.tallies import TallyKey, add_tallies, stored_tallies
from tapestry.service.store.tenancy import DEFAULT
from tapestry.service.store.tenants import Tenants
from tapestry.service.store.tensors import Tensors
from tapestry.service.store.waiting import WaitingRuns
from tapestry.service.store.workers import Workers

CHECKED_S = 5.0


class StoreAddress(NamedTuple):
    """The address of what a tenant has, for other processes: the database's URL, and the tenant's name."""

    url: str
    tenant: str


class TenantStore:
    """A database as a tenant sees it: whatever others have is not there."""

    def __init__(self, database: Database, url: str) -> None:
        self.address = StoreAddress(url, database.tenant)
        self.graphs = Graphs(database)
        self.runs = Runs(database)
        self.plans = Plans(database)
        self.executions = Executions(database)
        self.measurements = Measurements(database)
        self.imports = Imports(database)
        self.tensors = Tensors(database)
        self.batches = Batches(database)
        self.learning = Learning(database)
        self.deletions = Deletions(database)
        self.quotas = Quotas(database)

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        return self.address.tenant


class Store(TenantStore):
    """A database by its URL; see the module for its guarantees. `close()` when done.

    It is the default tenant's view, with `of` for others, and with all that no tenant has: the queue, workers and
    keys. Who is dead is told by `clock`, seconds that never go back.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = Database.at(url)
        super().__init__(self._database.of(DEFAULT), url)
        self._clock, self._writes_until = clock, -math.inf
        self._views: dict[str, TenantStore] = {DEFAULT: self}
        self.tallies = self._database.tallies
        self.observers = Observers([self.tallies])
        self.jobs = Jobs(self._database, clock, self.observers)
        self.workers = Workers(self._database, clock)
        self.waiting = WaitingRuns(self._database, clock)
        self.epochs = Epochs(self._database)
        self.keys = Keys(self._database)
        self.run_watch = RunWatch(self._database)
        self.audit = Audit(self._database)
        self.changes = ChangeCounter(self._database.engine)
        self.tenants = Tenants(self._database)

    def of(self, tenant: str) -> TenantStore:
        """Return the store as a tenant sees it, over the same connections."""
        found = self._views.get(tenant)
        if found is None:
            found = self._views[tenant] = TenantStore(self._database.of(tenant), self.address.url)
        return found

    def of_all(self) -> tuple[TenantStore, ...]:
        """Return the store as each tenant sees it."""
        return tuple(map(self.of, self.tenants.names()))

    def notices(self, wake: Callable[[], object]) -> Notices:
        """Begin to listen to those who write events, where the database carries their messages; `end()` when done."""
        return Notices(self._database.engine, wake)

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
            "tenant": DEFAULT,
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

    def space(self) -> StoreSpace:
        """Return the bytes that are free for a database file, and those that a database of a server takes."""
        return self._database.space()

    def flush_tallies(self) -> None:
        """Add what this process has counted to the rows of all; where that fails, it is kept for the next time."""
        found = self.tallies.take()
        try:
            with self._database.writing() as connection:
                add_tallies(connection, found)
        except StoreError:
            self.tallies.give_back(found)
            raise

    def all_tallies(self) -> dict[TallyKey, float]:
        """Return what all processes have counted that flushed their tallies, and this one."""
        with self._database.reading() as connection:
            found = stored_tallies(connection)
        for key, amount in self.tallies.look().items():
            found[key] = found.get(key, 0.0) + amount
        return found

    def close(self) -> None:
        self.changes.close()
        self._database.engine.dispose()
