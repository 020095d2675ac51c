"""The tables of runs: batches, plans with what is derived from them, rules, and events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.lifecycle import STATUSES
from tapestry.service.store.columns import CompressedJson, UtcDateTime
from tapestry.service.store.tables.base import KEY, TENANT, Base


class RunRow(Base):
    """A run: its mesh, options, progress, and the versions and host it was made with.

    `options` are those of `RunOptions` with the version of their form: an option is no column unless it is queried.
    `last_event` is the number of its newest event; increasing it orders the writers of events. `revision` is raised by
    every transaction that changes what is shown of the run or of its plans: answers of one revision are equal.
    `refused` are the rules that were disabled, with reasons. `bounds` are what no plan can be below, by cost, and
    `expected` the share by which each objective would fall in another minute, once the search is over; earlier runs
    have none.
    `best` has the least value, on the frontier now, of each objective and of time and peak memory, of which
    `least_time_s` and `least_memory_bytes` are copies to sort by; `trend` is the hypervolume over the seconds of
    searching, thinned (`service.store.highlights`).
    Equal requests have equal `request_hash`es (`RunRequest.hash`); runs of before there was one have none.
    """

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"))
    mesh_name: Mapped[str] = mapped_column(Text)
    mesh: Mapped[dict[str, Any]] = mapped_column(JSON)
    options: Mapped[dict[str, Any]] = mapped_column(JSON)
    request_hash: Mapped[str | None] = mapped_column(String(64), index=True)
    status: Mapped[str] = mapped_column(String(16))
    phase: Mapped[str] = mapped_column(String(16))
    stopped: Mapped[str] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(Integer)
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    evaluations: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float] = mapped_column(Float(53))
    front: Mapped[int] = mapped_column(Integer)
    hypervolume: Mapped[float] = mapped_column(Float(53))
    timings: Mapped[dict[str, float]] = mapped_column(JSON)
    refused: Mapped[list[dict[str, str]]] = mapped_column(JSON)
    bounds: Mapped[dict[str, dict[str, Any]]] = mapped_column(JSON)
    expected: Mapped[dict[str, float]] = mapped_column(JSON)
    versions: Mapped[dict[str, str]] = mapped_column(JSON)
    host: Mapped[dict[str, Any]] = mapped_column(JSON)
    last_event: Mapped[int] = mapped_column(Integer)
    revision: Mapped[int] = mapped_column(BigInteger, server_default="0")
    best: Mapped[dict[str, float]] = mapped_column(JSON, server_default="{}")
    trend: Mapped[list[list[float]]] = mapped_column(JSON, server_default="[]")
    least_time_s: Mapped[float | None] = mapped_column(Float(53))
    least_memory_bytes: Mapped[float | None] = mapped_column(Float(53))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),
        Index(None, "tenant", "created_at", "id"),
        Index(None, "tenant", "status", "created_at", "id"),
        Index(None, "tenant", "mesh_name", "created_at", "id"),
        Index(None, "tenant", "graph_id", "created_at", "id"),
        Index(None, "graph_id", "created_at", "id"),
        Index(None, "tenant", "least_time_s", "created_at", "id"),
        Index(None, "tenant", "least_memory_bytes", "created_at", "id"),
    )


class RunTagRow(Base):
    """A tag that somebody gave a run."""

    __tablename__ = "run_tags"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(Text, primary_key=True)

    __table_args__ = (Index(None, "tag", "run_id"),)


class RunNotesRow(Base):
    """The notes that somebody wrote about a run; a run without any has no row."""

    __tablename__ = "run_notes"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    notes: Mapped[str] = mapped_column(Text)


class BatchRow(Base):
    """A batch of runs that were asked for together."""

    __tablename__ = "batches"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (Index(None, "tenant", "created_at", "id"),)


class BatchEntryRow(Base):
    """An entry of a batch: the run that answers it, or the problem because of which there is none."""

    __tablename__ = "batch_entries"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    graph_id: Mapped[str] = mapped_column(String(32))
    mesh_name: Mapped[str] = mapped_column(Text)
    seed: Mapped[int] = mapped_column(BigInteger)
    run_id: Mapped[str | None] = mapped_column(ForeignKey("runs.id", ondelete="SET NULL"), index=True)
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class PlanRow(Base):
    """A plan that was on a run's frontier: its placements, moves and costs, and whether it is still on it.

    `plan_id` is derived from the content of the plan, so two runs may hold the same one; `key` distinguishes them. Its
    rewritten graph is not stored: the moves make it from the run's. `cost_model` is the version of the cost model that
    computed its costs, and its `time` with the error; plans of before that was stored have none, nor an `origin`.
    """

    __tablename__ = "plans"

    key: Mapped[int] = mapped_column(KEY, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    plan_id: Mapped[str] = mapped_column(String(64), index=True)
    on_frontier: Mapped[bool]
    feasible: Mapped[bool]
    cost: Mapped[dict[str, float]] = mapped_column(JSON)
    cost_model: Mapped[int] = mapped_column(Integer)
    time: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    devices: Mapped[str] = mapped_column(Text)
    micro_batches: Mapped[int] = mapped_column(Integer, server_default="1")
    recompute: Mapped[dict[str, int] | None] = mapped_column(JSON(none_as_null=True))
    offload: Mapped[dict[str, int] | None] = mapped_column(JSON(none_as_null=True))
    stages: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    origin: Mapped[dict[str, str] | None] = mapped_column(JSON(none_as_null=True))
    move_count: Mapped[int] = mapped_column(Integer)
    moves: Mapped[list[dict[str, Any]]] = mapped_column(CompressedJson)
    placements: Mapped[dict[str, Any]] = mapped_column(CompressedJson)
    verified: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    __table_args__ = (UniqueConstraint("run_id", "plan_id"), Index(None, "run_id", "on_frontier"))


class ArtifactRow(Base):
    """An artifact rendered from a plan once, stored for later requests; gzipped."""

    __tablename__ = "artifacts"

    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RuleRow(Base):
    """The number of times a rule was applied in a run, and of those that improved the frontier."""

    __tablename__ = "rule_statistics"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    rule: Mapped[str] = mapped_column(String(128), primary_key=True)
    applied: Mapped[int] = mapped_column(BigInteger)
    improved: Mapped[int] = mapped_column(BigInteger)


class RateRow(Base):
    """The counts of a rule's moves on operators of one class in a run, as in `optimizer.run.plan.Rate`."""

    __tablename__ = "rates"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    snapshot: Mapped[int] = mapped_column(Integer, primary_key=True)
    rule: Mapped[str] = mapped_column(String(128), primary_key=True)
    operator_class: Mapped[str] = mapped_column(String(32), primary_key=True)
    applicable: Mapped[int] = mapped_column(BigInteger)
    applied: Mapped[int] = mapped_column(BigInteger)
    improved: Mapped[int] = mapped_column(BigInteger)
    credit: Mapped[float] = mapped_column(Float(53))
    volume: Mapped[float] = mapped_column(Float(53))

    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant", "snapshot"], ["snapshots.tenant", "snapshots.number"], ondelete="CASCADE"
        ),
    )


class SnapshotRow(Base):
    """A run that has told what it learned of moves: the prior of this number is what all runs up to it have told.

    Each tenant has its own, numbered from 1. `mesh_kind` and `focus` are the kind of its mesh and its objectives,
    `version` is the release that searched.
    """

    __tablename__ = "snapshots"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    run_id: Mapped[str | None] = mapped_column(ForeignKey("runs.id", ondelete="SET NULL"))
    version: Mapped[str] = mapped_column(Text)
    mesh_kind: Mapped[str] = mapped_column(String(64))
    focus: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (UniqueConstraint("run_id"),)


class HistoryRow(Base):
    """The frontier's hypervolume over a run."""

    __tablename__ = "history"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    seconds: Mapped[float] = mapped_column(Float(53))
    evaluations: Mapped[int] = mapped_column(BigInteger)
    front: Mapped[int] = mapped_column(Integer)
    hypervolume: Mapped[float] = mapped_column(Float(53))


class EventRow(Base):
    """An event of a run; numbers begin at 1 and leave no gap."""

    __tablename__ = "events"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[Any] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
