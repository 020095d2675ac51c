"""Queueing within a transaction: the rows of a new job, limits, and keys that make a request safe to repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from tapestry.service.scheduling import USUAL
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.notices import notify
from tapestry.service.store.quotas import require_job
from tapestry.service.store.records import Idempotency, Kind, Submitted
from tapestry.service.store.sessions import KeyReused, QueueFull
from tapestry.service.store.tables import EventRow, IdempotencyRow, LeaseRow, RunRow
from tapestry.service.telemetry.correlation_fields import origin

KEYS_KEPT = timedelta(hours=24)
LAST_PLACE = 0x7461706573747271  # the number by which those who queue jobs on PostgreSQL take turns


@dataclass(frozen=True)
class QueueLimits:
    """The most jobs that may wait: of one tenant, and of all together, so that none can shut the others out."""

    own: int
    all_tenants: int


def submit(
    connection: Connection,
    kind: Kind,
    subject: str,
    created_at: datetime,
    write: Callable[[], None],
    *,
    priority: int = USUAL,
    expected_s: float,
    place: int = 0,
    queue_limits: QueueLimits | None,
    idempotency: Idempotency | None,
    reused: str | None = None,
) -> Submitted:
    """Queue a job whose own rows `write` creates; a request with a known key is answered as before.

    `expected_s` is for about how long the job will run. `reused` is an earlier job that answers the request: then
    nothing is queued. Of jobs of one moment the one of the lesser `place` comes first.

    Raises:
        KeyReused: the key was used for another request.
        QueueFull: too many jobs wait already.
        QuotaExceeded: the tenant has no more jobs or seconds left.
    """
    if idempotency is not None:
        before = remember(connection, idempotency, reused or subject, created_at)
        if before is not None:
            return before
    if reused is not None:
        return Submitted(reused, False, created_at)
    if queue_limits is not None:
        lock_places(connection)
        _require_place(connection, queue_limits)
    require_job(connection, kind, expected_s, created_at)
    write()
    row = {
        "kind": kind,
        "subject": subject,
        "number": int(created_at.timestamp() * 1e6) + place,
        "priority": priority,
        "expected_s": expected_s,
        "owner": None,
        "attempt": 0,
        "attempts_without_progress": 0,
        "cancel_requested": False,
        "beat": 0,
        "lease_s": 0.0,
        "deaths": 0,
        "origin": origin(),
    }
    connection.execute(insert(LeaseRow).values(row))
    return Submitted(subject, False, created_at)


def waiting(connection: Connection) -> int:
    """Return the number of jobs, of all tenants, that no worker has claimed."""
    leases = LeaseRow.__table__
    return connection.scalar(select(func.count()).select_from(leases).where(leases.c.owner.is_(None))) or 0


def _require_place(connection: Connection, limits: QueueLimits) -> None:
    """Check that one more job of the tenant may wait; what is refused tells nothing of the jobs of others."""
    own = select(func.count()).select_from(LeaseRow).where(LeaseRow.owner.is_(None))
    if (connection.scalar(own) or 0) >= limits.own:
        raise QueueFull(f"{limits.own:,} jobs of this tenant wait already; try again later")
    if waiting(connection) >= limits.all_tenants:
        raise QueueFull("the queue of this service is full; try again later")


def oldest(connection: Connection) -> dict[str, datetime]:
    """Return when the longest waiting job of each kind was queued."""
    query = select(LeaseRow.kind, func.min(LeaseRow.number).label("number")).group_by(LeaseRow.kind)
    rows = connection.execute(query.where(LeaseRow.owner.is_(None)))
    return {row.kind: datetime.fromtimestamp(row.number / 1e6, UTC) for row in rows}


def lock_places(connection: Connection) -> None:
    """Lock the queue's limit: of two that want the last place the second waits; SQLite's writers do so anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LAST_PLACE)))


def remember(connection: Connection, used: Idempotency, subject: str, now: datetime) -> Submitted | None:
    """Store a key and return None, or return a known key's job. Of two at once the second waits for the first."""
    connection.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < now - KEYS_KEPT))
    row = {
        "scope": used.scope,
        "key": used.key,
        "fingerprint": used.fingerprint,
        "subject": subject,
        "created_at": now,
    }
    if insert_if_new(connection, IdempotencyRow, row):
        return None
    same = (IdempotencyRow.scope == used.scope, IdempotencyRow.key == used.key)
    columns = (IdempotencyRow.fingerprint, IdempotencyRow.subject, IdempotencyRow.created_at)
    known = connection.execute(select(*columns).where(*same)).one()
    if known.fingerprint != used.fingerprint:
        raise KeyReused(
            f"the Idempotency-Key {used.key!r} was used before for another request; take a new one"
        )
    return Submitted(known.subject, True, known.created_at)


def append_event(connection: Connection, run_id: str, kind: str, data: Any, now: datetime) -> int:
    """Write the next event of a run; return its number. The run's row orders concurrent writers."""
    number = connection.scalar(
        update(RunRow)
        .where(RunRow.id == run_id)
        .values(last_event=RunRow.last_event + 1, revision=RunRow.revision + 1)
        .returning(RunRow.last_event)
    )
    row = {"run_id": run_id, "number": number, "kind": kind, "data": data, "created_at": now}
    connection.execute(insert(EventRow).values(row))
    notify(connection)
    return int(number or 0)


def revise(connection: Connection, *chosen: ColumnElement[bool]) -> None:
    """Raise the revision of runs of which something else than an event is written."""
    connection.execute(update(RunRow).where(*chosen).values(revision=RunRow.revision + 1))


def append_status(connection: Connection, run_id: str, now: datetime) -> None:
    """Write an event with the status of a run."""
    row = connection.execute(
        select(RunRow.status, RunRow.phase, RunRow.attempt, RunRow.problem).where(RunRow.id == run_id)
    ).one()
    append_event(connection, run_id, "status", dict(row._mapping), now)
