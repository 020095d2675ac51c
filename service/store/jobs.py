"""Jobs and their leases. All writes of workers are here, and every one of them is fenced.

Fencing: a write first renews the worker's lease by kind, subject, owner and attempt, in the same transaction.
If there is no such lease any more, the write is refused (LeaseLost) and changes nothing, so that a worker
that was presumed dead cannot disturb the one that took over.

A worker is presumed dead by who has seen the counter of its lease stand still for as long as the lease lasts, on a
clock of its own that never jumps. Timestamps are the workers' own, and decide nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, literal, select, update

from tapestry.optimizer import Plan
from tapestry.optimizer.run.plan import Rate
from tapestry.service.lifecycle import Event, Status, next_status
from tapestry.service.store.claiming import charge, choose, is_waiting, take_turn
from tapestry.service.store.epochs import forget_epochs
from tapestry.service.store.executions import ended_values, outcome_values
from tapestry.service.store.frontiers import put_costs
from tapestry.service.store.imports import forget_content
from tapestry.service.store.learning import put_rates
from tapestry.service.store.observing import Observers
from tapestry.service.store.queue import append_event, append_status, oldest, revise, waiting
from tapestry.service.store.records import ComputedTensors, Job, Kind, NewExecution, RunUpdate
from tapestry.service.store.run_updates import put_update
from tapestry.service.store.sessions import Database, LeaseLost, UnknownId
from tapestry.service.store.tables import (
    CheckpointRow,
    ExecutionRow,
    ImportRow,
    LeaseRow,
    PlanRow,
    RunRow,
)
from tapestry.service.store.tensors import put_tensors, put_values
from tapestry.service.store.watch import Watch

KINDS: tuple[Kind, ...] = ("run", "execution", "import")
log = logging.getLogger("tapestry.store")

LONGEST_LOOK_S = 5.0  # between two looks at leases: so much of the time counts at most


class Jobs:
    """The queue and the leases of all tenants, and all that workers write about their jobs."""

    def __init__(self, database: Database, clock: Callable[[], float], observers: Observers) -> None:
        self._database, self._observers, self._clock = database, observers, clock
        self._watches = {kind: Watch(clock, LONGEST_LOOK_S) for kind in KINDS}

    def claim(self, owner: str, now: datetime, lease_s: float, kinds: Sequence[Kind] = KINDS) -> Job | None:
        """Claim the next job that is free, or whose worker is presumed dead (`service.scheduling`), if there is one.

        A worker is presumed dead once its lease stood still for its length while this store was asked again and again.
        """
        with self._database.reading() as connection:  # workers ask often, and mostly there is nothing to take
            still = self._still(connection, kinds)
            if not still and not is_waiting(connection, kinds):
                return None
        with self._database.writing() as connection:
            take_turn(connection)
            while (row := choose(connection, kinds, still)) is not None:
                if _exists(connection, row.kind, row.subject):
                    break
                log.error("the lease of %s %s was left when that was deleted", row.kind, row.subject)
                connection.execute(delete(LeaseRow).where(_is(row.kind, row.subject)))
            else:
                return None
            attempts = row.attempts_without_progress + 1
            job = Job(
                row.kind,
                row.subject,
                owner,
                row.attempt + 1,
                attempts,
                row.cancel_requested,
                row.deaths,
                row.tenant,
                row.origin,
                self._clock(),
            )
            taken = {
                "owner": owner,
                "attempt": job.attempt,
                "attempts_without_progress": attempts,
                "beat": LeaseRow.beat + 1,
                "lease_s": lease_s,
            }
            connection.execute(update(LeaseRow).where(_is(job.kind, job.subject)).values(taken))
            _begin(connection, job, now)
        self._observers.claimed(job)
        return job

    def waits(self, kind: Kind) -> bool:
        """Return whether a job of a kind waits for a worker, or for another one than it had."""
        with self._database.reading() as connection:
            return bool(self._still(connection, (kind,))) or is_waiting(connection, (kind,))

    def _still(self, connection: Connection, kinds: Sequence[Kind]) -> list[ColumnElement[bool]]:
        """Return conditions of the leases that have stood still for their length, and do so still."""
        held = select(*_LEASE).where(LeaseRow.kind.in_(kinds), LeaseRow.owner.is_not(None))
        rows = connection.execute(held).all()
        found = []
        for kind in kinds:
            mine = {row.subject: row for row in rows if row.kind == kind}
            counters = {subject: (row.attempt, row.beat) for subject, row in mine.items()}
            still = self._watches[kind].still_s(counters)
            found += [_stands(row) for subject, row in mine.items() if still[subject] >= row.lease_s]
        return found

    def renew(self, job: Job, lease_s: float) -> bool:
        """Renew the lease of a job; return whether its cancellation was requested.

        Whoever is busy so looks at the leases of others, too, and takes a dead one's job once it has ended its own.
        """
        with self._database.reading() as connection:
            self._still(connection, KINDS)
        with self._fenced(job, lease_s) as connection:
            lease = _is(job.kind, job.subject)
            return bool(connection.scalar(select(LeaseRow.cancel_requested).where(lease)))

    def cancelled(self, jobs: Sequence[Job]) -> frozenset[str]:
        """Return the ids of those jobs whose cancellation was requested."""
        subjects = [job.subject for job in jobs]
        query = select(LeaseRow.subject).where(LeaseRow.subject.in_(subjects), LeaseRow.cancel_requested)
        with self._database.reading() as connection:
            return frozenset(connection.scalars(query))

    def release(self, job: Job, now: datetime, death: str | None = None, *, counts: bool = False) -> None:
        """Return a job to the queue; the attempt does not count, but by the death of its process, or if it `counts`."""
        with self._fenced(job, 0.0) as connection:
            attempts = max(job.attempts_without_progress - (not counts), 0)
            free: dict[str, Any] = {"owner": None, "attempts_without_progress": attempts}
            if death is not None:
                free |= {"deaths": job.deaths + 1, "last_death": death}
            connection.execute(update(LeaseRow).where(_is(job.kind, job.subject)).values(free))
            charge(connection, job.tenant, self._held_s(job))
            _move(connection, job, "released", now, phase="queued")
            if job.kind == "run":
                forget_epochs(connection, job.subject)
        self._observers.left(job, "released")

    def release_owner(self, owner: str) -> int:
        """Free the jobs of a worker that is known to be dead; return how many."""
        with self._database.writing() as connection:
            held = update(LeaseRow).where(LeaseRow.owner == owner)
            return connection.execute(held.values(owner=None)).rowcount

    def begin(
        self,
        job: Job,
        now: datetime,
        lease_s: float,
        *,
        islands: int,
        prior: str,
        started_from: str | None = None,
        versions: Mapping[str, str],
        host: Mapping[str, Any],
    ) -> None:
        """Record the environment of a run in this attempt: islands, prior, runs it starts from, versions and host."""
        with self._fenced(job, lease_s) as connection:
            stored = connection.scalar(select(RunRow.options).where(RunRow.id == job.subject)) or {}
            made_with = {
                "options": {**stored, "islands": islands, "prior": prior, "start_from": started_from},
                "versions": dict(versions),
                "host": dict(host),
                "revision": RunRow.revision + 1,
            }
            connection.execute(update(RunRow).where(RunRow.id == job.subject).values(made_with))

    def phase(self, job: Job, now: datetime, lease_s: float, phase: str) -> None:
        """Record the current phase of a run."""
        with self._fenced(job, lease_s) as connection:
            connection.execute(update(RunRow).where(RunRow.id == job.subject).values(phase=phase))
            append_status(connection, job.subject, now)
        self._observers.entered(job, phase)

    def working(self, job: Job, now: datetime, lease_s: float, doing: Mapping[str, Any]) -> None:
        """Write an event that a `phase` before the search goes on, for so many `seconds` and `steps` by now."""
        with self._fenced(job, lease_s) as connection:
            append_event(connection, job.subject, "working", dict(doing), now)

    def executing(self, job: Job, now: datetime, lease_s: float, doing: Mapping[str, Any]) -> None:
        """Write an event that a plan is executed: its `number`, their `count`, and for about how many `seconds`."""
        with self._fenced(job, lease_s) as connection:
            append_event(connection, job.subject, "executing", dict(doing), now)

    def saved(self, run_id: str) -> bytes | None:
        """Return the last saved state of a run; None if there is none."""
        query = select(CheckpointRow.saved).where(CheckpointRow.run_id == run_id)
        with self._database.reading() as connection:
            return connection.scalar(query)

    def checkpoint(self, job: Job, now: datetime, lease_s: float, found: RunUpdate) -> None:
        """Store the state of a search and its results since the last checkpoint, all of it or nothing."""
        with self._fenced(job, lease_s, is_progress=True) as connection:
            evaluations = put_update(connection, job.subject, found, now)
        self._observers.entered(job, found.phase)
        self._observers.evaluated(job, evaluations)

    def foresee(
        self,
        job: Job,
        now: datetime,
        lease_s: float,
        bounds: Mapping[str, Mapping[str, Any]],
        expected: Mapping[str, float],
        rates: Sequence[Rate],
    ) -> None:
        """Store what a search tells once it is over.

        That is what no plan of the run can be below, what more searching is expected to bring, and the rates of moves.
        """
        with self._fenced(job, lease_s) as connection:
            known = {name: dict(bound) for name, bound in bounds.items()}
            values = {"bounds": known, "expected": dict(expected), "revision": RunRow.revision + 1}
            connection.execute(update(RunRow).where(RunRow.id == job.subject).values(values))
            put_rates(connection, job.subject, rates, now)

    def recost(
        self, job: Job, now: datetime, lease_s: float, costed: Mapping[str, Plan], removed: Sequence[str]
    ) -> None:
        """Store new costs of a run's plans, by their ids, and take those in `removed` off the frontier.

        Their checks, what was rendered of them and the state of the search were about the old costs, and are deleted.
        """
        run_id = job.subject
        with self._fenced(job, lease_s) as connection:
            front = put_costs(connection, run_id, costed, removed, now)
            connection.execute(update(RunRow).where(RunRow.id == run_id).values(front=front))
            connection.execute(delete(CheckpointRow).where(CheckpointRow.run_id == run_id))

    def verified(
        self,
        job: Job,
        now: datetime,
        lease_s: float,
        plan_id: str,
        verified: Mapping[str, Any],
        execution: NewExecution | None,
    ) -> None:
        """Store the results of the checks of a plan, and the execution by which it was checked."""
        with self._fenced(job, lease_s, is_progress=True) as connection:
            plan = (PlanRow.run_id == job.subject, PlanRow.plan_id == plan_id)
            checked = update(PlanRow).where(*plan).values(verified=dict(verified)).returning(PlanRow.key)
            key = connection.scalar(checked)
            if key is None:
                raise UnknownId(f"there is no plan {plan_id!r} in run {job.subject}")
            if execution is not None:
                connection.execute(insert(ExecutionRow).values(ended_values(key, execution)))
            data = {"plan": f"{job.subject}-{plan_id}", "verified": dict(verified)}
            append_event(connection, job.subject, "verified", data, now)

    def end_run(
        self,
        job: Job,
        now: datetime,
        event: Event,
        *,
        stopped: str,
        problem: Mapping[str, Any] | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> None:
        """End a run: it has finished, failed or was cancelled."""
        with self._fenced(job, 0.0) as connection:
            outcome: dict[str, Any] = {
                "stopped": stopped,
                "problem": None if problem is None else dict(problem),
                "ended_at": now,
            }
            if timings is not None:
                outcome["timings"] = dict(timings)
            ended = update(RunRow).where(RunRow.id == job.subject).values(outcome).returning(RunRow.seconds)
            searched_s = connection.scalar(ended) or 0.0
            # Of a later attempt they are those of earlier ones, too, which were charged when they ended.
            charge(connection, job.tenant, max(self._held_s(job), searched_s if job.attempt == 1 else 0.0))
            connection.execute(delete(LeaseRow).where(_is(job.kind, job.subject)))
            connection.execute(delete(CheckpointRow).where(CheckpointRow.run_id == job.subject))
            forget_epochs(connection, job.subject)
            _move(connection, job, event, now, phase="done")
        self._observers.left(job, event)

    def end_execution(
        self,
        job: Job,
        now: datetime,
        event: Event,
        *,
        execution: NewExecution | None = None,
        problem: Mapping[str, Any] | None = None,
        verified: Mapping[int, Mapping[str, Any]] | None = None,
        computed: ComputedTensors | None = None,
    ) -> None:
        """End an execution, with its results or with the reason why there are none.

        `computed` are its tensors that stay. `verified` holds the new check results of plans, by their keys.
        """
        with self._fenced(job, 0.0) as connection:
            outcome: dict[str, Any] = {} if execution is None else outcome_values(execution)
            outcome |= {"ended_at": now, "problem": None if problem is None else dict(problem)}
            connection.execute(update(ExecutionRow).where(ExecutionRow.id == job.subject).values(outcome))
            for key, verdict in (verified or {}).items():
                checked = update(PlanRow).where(PlanRow.key == key).values(verified=dict(verdict))
                run_id = connection.scalar(checked.returning(PlanRow.run_id))
                revise(connection, RunRow.id == run_id)
            if computed is not None:
                put_values(connection, job.subject, "output", computed.outputs)
                put_tensors(connection, computed.saved, now, computed.places)
            charge(connection, job.tenant, self._held_s(job))
            connection.execute(delete(LeaseRow).where(_is(job.kind, job.subject)))
            _move(connection, job, event, now, phase="done")
        self._observers.left(job, event)

    def end_import(
        self,
        job: Job,
        now: datetime,
        event: Event,
        *,
        graph_id: str | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        """End an import, with its graph or with the reason why there is none; its content is deleted."""
        with self._fenced(job, 0.0) as connection:
            outcome = {
                "graph_id": graph_id,
                "ended_at": now,
                "problem": None if problem is None else dict(problem),
            }
            connection.execute(update(ImportRow).where(ImportRow.id == job.subject).values(outcome))
            forget_content(connection, job.subject)
            charge(connection, job.tenant, self._held_s(job))
            connection.execute(delete(LeaseRow).where(_is(job.kind, job.subject)))
            _move(connection, job, event, now)
        self._observers.left(job, event)

    def _held_s(self, job: Job) -> float:
        """Return for how long a job has been a worker's in this attempt."""
        return max(0.0, self._clock() - job.claimed_s)

    def counts(self) -> dict[str, Any]:
        """Count the jobs of each kind by status, and those that wait; `oldest` are the first of these by kind."""
        with self._database.reading() as connection:
            return {
                "runs": _by_status(connection, RunRow),
                "executions": _by_status(connection, ExecutionRow),
                "imports": _by_status(connection, ImportRow),
                "queued": waiting(connection),
                "oldest": oldest(connection),
            }

    @contextmanager
    def _fenced(self, job: Job, lease_s: float, is_progress: bool = False) -> Iterator[Connection]:
        """Run a transaction of the job's tenant in which this worker holds its lease; raise LeaseLost without that."""
        renewed: dict[str, Any] = {"beat": LeaseRow.beat + 1, "lease_s": lease_s}
        if is_progress:
            renewed["attempts_without_progress"] = 0
        with self._database.of(job.tenant).writing() as connection:
            mine = and_(
                _is(job.kind, job.subject), LeaseRow.owner == job.owner, LeaseRow.attempt == job.attempt
            )
            if connection.execute(update(LeaseRow).where(mine).values(renewed)).rowcount != 1:
                raise LeaseLost(f"{job.kind} {job.subject} belongs to another worker by now, or has ended")
            yield connection


def _is(kind: str, subject: str) -> ColumnElement[bool]:
    return and_(LeaseRow.kind == kind, LeaseRow.subject == subject)


JobRow = type[RunRow] | type[ExecutionRow] | type[ImportRow]
ROWS: Mapping[Kind, JobRow] = {"run": RunRow, "execution": ExecutionRow, "import": ImportRow}


def _by_status(connection: Connection, table: JobRow) -> dict[str, int]:
    query = select(table.status, func.count().label("jobs")).group_by(table.status)
    return {row.status: row.jobs for row in connection.execute(query)}


_LEASE = (LeaseRow.kind, LeaseRow.subject, LeaseRow.attempt, LeaseRow.beat, LeaseRow.lease_s)


def _stands(row: Any) -> ColumnElement[bool]:
    """Return the condition that a lease is as it was."""
    return and_(_is(row.kind, row.subject), LeaseRow.attempt == row.attempt, LeaseRow.beat == row.beat)


def _exists(connection: Connection, kind: Kind, subject: str) -> bool:
    """Return whether the job of a lease is there: else nothing could ever be claimed behind it."""
    table = ROWS[kind]
    return connection.scalar(select(literal(1)).where(table.id == subject)) is not None


def _begin(connection: Connection, job: Job, now: datetime) -> None:
    """Record a new attempt where users see it, and forget what the last one shared with other workers."""
    if job.kind == "run":
        forget_epochs(connection, job.subject)
    if job.kind != "execution":
        table = RunRow if job.kind == "run" else ImportRow
        begun = {"attempt": job.attempt, "started_at": func.coalesce(table.started_at, now)}
        connection.execute(update(table).where(table.id == job.subject).values(begun))
    _move(connection, job, "claimed", now)


def _move(connection: Connection, job: Job, event: Event, now: datetime, phase: str | None = None) -> None:
    """Set the next status of a job, by its life cycle; for a run also write an event."""
    table = ROWS[job.kind]
    status = cast(Status, connection.scalar(select(table.status).where(table.id == job.subject)))
    changes: dict[str, Any] = {"status": next_status(status, event)}
    if job.kind == "run" and phase is not None:
        changes["phase"] = phase
    connection.execute(update(table).where(table.id == job.subject).values(changes))
    if job.kind == "run":
        append_status(connection, job.subject, now)
