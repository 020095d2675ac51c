"""The choice of the next job within a transaction: the first that waits of every tenant, and what tenants have used.

Statements here see the jobs of all tenants. None of them reads all jobs that wait: each looks its rows up by an index,
one for each tenant that has a job of the highest priority.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Table,
    and_,
    cast,
    false,
    func,
    literal_column,
    or_,
    select,
    update,
)

from tapestry.service.scheduling import Shares, Waiting, decayed, next_job
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.quotas import WEIGHT
from tapestry.service.store.records import Kind
from tapestry.service.store.tables import LeaseRow, TenantRow, UsageRow

TURN = 0x7461706573747273  # the number by which those who claim jobs on PostgreSQL take turns

_LEASES: Table = LeaseRow.__table__  # type: ignore[assignment]
_L = _LEASES.c
_USAGE = UsageRow.__table__.c
_WAITING = (_L.subject, _L.tenant, _L.priority, _L.number, _L.expected_s)
_CLAIMED = (
    *(_L.kind, _L.subject, _L.tenant),
    *(_L.attempt, _L.attempts_without_progress, _L.cancel_requested, _L.deaths, _L.origin),
)


def take_turn(connection: Connection) -> None:
    """Wait for who claims a job at this moment: two that choose at once would choose the same tenant."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(TURN)))


def is_waiting(connection: Connection, kinds: Sequence[Kind]) -> bool:
    """Return whether a job of one of the kinds has no owner."""
    return any(_highest(connection, kind) is not None for kind in kinds)


def choose(
    connection: Connection, kinds: Sequence[Kind], still: Sequence[ColumnElement[bool]]
) -> Row[str, str, str, int, int, bool, int, dict[str, str]] | None:
    """Return the lease of the job to claim, locked: of those without owner, and of those that stand `still`.

    One that another transaction is changing is left to that, and the next one is taken.
    """
    dead = or_(false(), *still)
    candidates = [(job, _of_tenant(kind, job)) for kind in kinds for job in _heads(connection, kind)]
    if still:
        rows = connection.execute(select(_L.kind, *_WAITING).where(dead)).all()
        candidates += [
            (Waiting(*row[1:]), and_(dead, _L.kind == row.kind, _L.subject == row.subject)) for row in rows
        ]
    shares = shares_of(connection, dead) if len(candidates) > 1 else Shares()
    while (job := next_job((job for job, _ in candidates), shares)) is not None:
        (where,) = (where for other, where in candidates if other is job)
        first = select(*_CLAIMED).where(where).order_by(_L.number, _L.subject).limit(1)
        row = connection.execute(first.with_for_update(skip_locked=True)).first()
        if row is not None:
            return row
        candidates = [(other, where) for other, where in candidates if other is not job]
    return None


def _highest(connection: Connection, kind: str) -> int | None:
    """Return the highest priority of the jobs of a kind that wait; None if none does."""
    query = select(_L.priority).where(_L.owner.is_(None), _L.kind == kind)
    return connection.scalar(query.order_by(_L.priority.desc()).limit(1))


def _heads(connection: Connection, kind: str) -> Iterator[Waiting]:
    """Yield the oldest waiting job of the highest priority of each tenant."""
    priority = _highest(connection, kind)
    tenant = ""
    while priority is not None:
        own = (_L.owner.is_(None), _L.kind == kind, _L.priority == priority, _L.tenant > tenant)
        head = select(*_WAITING).where(*own).order_by(_L.tenant, _L.number, _L.subject).limit(1)
        row = connection.execute(head).first()
        if row is None:
            return
        yield Waiting(*row)
        tenant = row.tenant


def _of_tenant(kind: str, head: Waiting) -> ColumnElement[bool]:
    """Return the condition of the waiting jobs of a tenant and a priority."""
    return and_(_L.owner.is_(None), _L.kind == kind, _L.priority == head.priority, _L.tenant == head.tenant)


def shares_of(connection: Connection, dead: ColumnElement[bool] | None = None) -> Shares:
    """Return what all tenants have used, running jobs included but those of `dead` workers; and their weights."""
    now_s = database_time_s(connection)
    rows = connection.execute(select(_USAGE.tenant, _USAGE.seconds, _USAGE.at_s))
    used = {row.tenant: decayed(row.seconds, now_s - row.at_s) for row in rows}
    running = select(_L.tenant, func.sum(_L.expected_s).label("seconds")).where(_L.owner.is_not(None))
    if dead is not None:
        running = running.where(~dead)
    for row in connection.execute(running.group_by(_L.tenant)):
        used[row.tenant] = used.get(row.tenant, 0.0) + row.seconds
    tenants = connection.execute(select(TenantRow.name, TenantRow.quotas))
    return Shares(used, {name: float(quotas[WEIGHT]) for name, quotas in tenants if quotas.get(WEIGHT)})


def charge(connection: Connection, tenant: str, seconds: float) -> None:
    """Add seconds to what a tenant has used; what was used before has decayed since then."""
    now_s = database_time_s(connection)
    insert_if_new(connection, UsageRow, {"tenant": tenant, "seconds": 0.0, "at_s": now_s})
    mine = UsageRow.tenant == tenant
    before = connection.execute(select(UsageRow.seconds, UsageRow.at_s).where(mine).with_for_update()).one()
    left = decayed(before.seconds, now_s - before.at_s)
    connection.execute(update(UsageRow).where(mine).values(seconds=left + seconds, at_s=now_s))


def database_time_s(connection: Connection) -> float:
    """Return the seconds since 1970 by the clock of the database, one for all workers; shares follow it, no lease."""
    if connection.dialect.name == "postgresql":
        moment: ColumnElement[float] = cast(func.extract("epoch", func.clock_timestamp()), Float)
    else:
        moment = (func.julianday("now") - literal_column("2440587.5")) * 86400.0
    return float(connection.scalar(select(moment)) or 0.0)
