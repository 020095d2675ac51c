"""Quotas of tenants: the jobs, stored bytes and seconds of search that one may have, and how much of that is used.

A tenant has no quota that was not set. Jobs and seconds are counted in the transaction that queues a job, so that of
two requests for the last place one is refused; bytes are counted before a request is read, by who answers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, or_, select

from tapestry.service.store.database import StoreError
from tapestry.service.store.deletion import run_sizes
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import GraphRow, ImportRow, LeaseRow, RunRow, TenantRow, TensorRow
from tapestry.service.store.tenancy import tenant_of

DAY = timedelta(days=1)
ABANDONED = timedelta(hours=1)  # after which an upload that has not ended is not going on any more
SOON_S = 30  # after which a job of the tenant may have ended


@dataclass(frozen=True)
class QuotaLimits:
    """The limits of a tenant; None: no limit.

    `jobs` wait or are under way, of any kind. `search_seconds` are those of a day: of the runs that ended within
    24 hours, and what the others are expected to take.
    """

    jobs: int | None = None
    stored_bytes: int | None = None
    search_seconds: float | None = None

    def to_json(self) -> dict[str, float]:
        """Convert to a JSON document of the limits that are set."""
        limits = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: limit for name, limit in limits.items() if limit is not None}


WEIGHT = "weight"  # of a tenant in fair shares, kept beside its quotas
QUOTAS = tuple(field.name for field in fields(QuotaLimits))


@dataclass(frozen=True)
class QuotaUse:
    """The part of each quota that a tenant uses."""

    jobs: int
    stored_bytes: int
    search_seconds: float

    def to_json(self) -> dict[str, float]:
        """Convert to a JSON document."""
        return {name: getattr(self, name) for name in QUOTAS}


class QuotaExceeded(StoreError):
    """Error raised where a request would exceed a quota; `retry_after_s` is None where time alone does not help."""

    def __init__(self, quota: str, limit: float, used: float, retry_after_s: int | None, hint: str) -> None:
        super().__init__(
            f"the quota {quota!r} of this tenant is {limit:,.15g}, of which {used:,.15g} are used; {hint}"
        )
        self.quota, self.limit, self.used, self.retry_after_s = quota, limit, used, retry_after_s


@dataclass(frozen=True)
class TenantSpace:
    """The bytes that a tenant has stored, and those that it may."""

    used_bytes: int
    limit_bytes: int

    def require(self, more_bytes: int = 0) -> None:
        """Check that so many bytes more may be stored, or anything at all; raises QuotaExceeded."""
        if self.used_bytes + max(more_bytes, 1) > self.limit_bytes:
            hint = "delete runs, programs or tensors, or let the operator raise it"
            if self.used_bytes < self.limit_bytes:
                hint = f"{more_bytes:,} more are too many: {hint}"
            raise QuotaExceeded("stored_bytes", self.limit_bytes, self.used_bytes, None, hint)


class Quotas:
    """The quotas of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def limits(self) -> QuotaLimits:
        """Return the limits."""
        with self._database.reading() as connection:
            return limits_of(connection, self._database.tenant)

    def use(self, now: datetime) -> QuotaUse:
        """Count what is used of all quotas; of the bytes those of runs, programs, tensors and unread uploads.

        An upload that was abandoned does not count.
        """
        with self._database.reading() as connection:
            seconds, _ = _searched(connection, now)
            return QuotaUse(_jobs(connection), _stored_bytes(connection, now), seconds)

    def space(self, now: datetime) -> TenantSpace | None:
        """Return how much the tenant has stored and how much it may; None where it has no limit."""
        with self._database.reading() as connection:
            limit = limits_of(connection, self._database.tenant).stored_bytes
            return None if limit is None else TenantSpace(_stored_bytes(connection, now), limit)


def limits_of(connection: Connection, tenant: str) -> QuotaLimits:
    """Return the limits of a tenant within a transaction."""
    stored: Mapping[str, Any] | None = connection.scalar(
        select(TenantRow.quotas).where(TenantRow.name == tenant)
    )
    return QuotaLimits(**{name: limit for name, limit in (stored or {}).items() if name in QUOTAS})


def require_job(connection: Connection, kind: str, expected_s: float, now: datetime) -> None:
    """Check, in the transaction that queues it, that the tenant may have one more job.

    Raises:
        QuotaExceeded: it has as many as it may, or the seconds of the day would not do.
    """
    limits = limits_of(connection, tenant_of(connection))
    if limits.jobs is not None and (jobs := _jobs(connection)) >= limits.jobs:
        hint = "wait until some have ended, or cancel some"
        raise QuotaExceeded("jobs", limits.jobs, jobs, SOON_S, hint)
    if limits.search_seconds is not None and kind == "run":
        used, first_ended = _searched(connection, now)
        if used + expected_s > limits.search_seconds:
            hint = f"this run is expected to take {expected_s:,.15g}; let it be shorter, or wait: a day has 24 hours"
            later = (
                None if first_ended is None else max(1, math.ceil((first_ended + DAY - now).total_seconds()))
            )
            raise QuotaExceeded("search_seconds", limits.search_seconds, used, later or SOON_S, hint)


def _jobs(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(LeaseRow)) or 0


def _searched(connection: Connection, now: datetime) -> tuple[float, datetime | None]:
    """Return the seconds of search of the last day, and when the first of its runs ended."""
    ended = select(func.sum(RunRow.seconds), func.min(RunRow.ended_at)).where(RunRow.ended_at > now - DAY)
    seconds, first_ended = connection.execute(ended).one()
    left = select(RunRow.seconds, LeaseRow.expected_s).join(LeaseRow, LeaseRow.subject == RunRow.id)
    pending = connection.execute(left.where(LeaseRow.kind == "run", RunRow.ended_at.is_(None)))
    return float(seconds or 0) + sum(max(row.seconds, row.expected_s) for row in pending), first_ended


def _stored_bytes(connection: Connection, now: datetime) -> int:
    graphs = connection.scalar(select(func.sum(func.length(GraphRow.document))))
    tensors = connection.scalar(select(func.sum(TensorRow.size_bytes)))
    pending = select(func.sum(ImportRow.size_bytes)).where(ImportRow.ended_at.is_(None))
    goes_on = or_(ImportRow.is_received.is_(True), ImportRow.created_at >= now - ABANDONED)
    imports = connection.scalar(pending.where(goes_on))
    runs = sum(run_sizes(connection).values())
    return int(graphs or 0) + int(tensors or 0) + int(imports or 0) + runs
