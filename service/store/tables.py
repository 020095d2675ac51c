"""The tables: graphs, runs, plans, frontiers and executions.

Graphs are addressed by content, everything else by row. Costs are one JSON value by objective, so that a new
objective is no new column. Constraints and indices have derived names, so that migrations can refer to them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tapestry.service.lifecycle import STATUSES
from tapestry.service.store.columns import CompressedJson, UtcDateTime

CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
KEY = BigInteger().with_variant(Integer, "sqlite")
TENANT = String(32)


class Base(DeclarativeBase):
    """The base of all rows."""

    metadata = MetaData(naming_convention=CONVENTION)


class GraphRow(Base):
    """A graph of a tenant: `document` is its gzipped TEG document; `lacks_values` is true if large data was left out.

    `family` is shared by programs that differ in sizes and depth only; it is unknown of what earlier releases stored.
    `is_given` distinguishes programs that users stored from those that rewriting made in the first release.
    """

    __tablename__ = "graphs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    structural_hash: Mapped[str] = mapped_column(String(64), index=True)
    family: Mapped[str | None] = mapped_column(String(64), index=True)
    blocks: Mapped[int] = mapped_column(Integer)
    document: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    lacks_values: Mapped[bool]
    is_given: Mapped[bool]
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (Index(None, "tenant", "created_at", "id"),)


class UploadRow(Base):
    """An upload that was read before: a hash of its bytes and of all that decides how they are read, and its graph."""

    __tablename__ = "uploads"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RewriteRow(Base):
    """The derivation of a program from another by moves; `part` is the part of their result, empty for all."""

    __tablename__ = "rewrites"

    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), primary_key=True)
    source_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), primary_key=True)
    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    moves: Mapped[list[dict[str, Any]]] = mapped_column(CompressedJson)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RunRow(Base):
    """A run: its mesh, options, progress, and the versions and host it was made with.

    `options` are those of `RunOptions` with the version of their form: an option is no column unless it is queried.
    `last_event` is the number of its newest event; increasing it orders the writers of events. `revision` is raised by
    every transaction that changes what is shown of the run or of its plans: answers of one revision are equal.
    `refused` are the rules that were disabled, with reasons. `bounds` are what no plan can be below, by cost, and
    `expected` the share by which each objective would fall in another minute, once the search is over; earlier runs
    have none.
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
    )


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
    computed its costs, and its `time` with the error; plans of before that was stored have none.
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
    move_count: Mapped[int] = mapped_column(Integer)
    moves: Mapped[list[dict[str, Any]]] = mapped_column(CompressedJson)
    placements: Mapped[dict[str, Any]] = mapped_column(CompressedJson)
    verified: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    __table_args__ = (UniqueConstraint("run_id", "plan_id"), Index(None, "run_id", "on_frontier"))


class RuleRow(Base):
    """The number of times a rule was applied in a run, and of those that improved the frontier."""

    __tablename__ = "rule_statistics"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    rule: Mapped[str] = mapped_column(String(128), primary_key=True)
    applied: Mapped[int] = mapped_column(BigInteger)
    improved: Mapped[int] = mapped_column(BigInteger)


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


class ExecutionRow(Base):
    """A plan run on the device simulator: counts beside predictions, values beside the reference.

    `request` says which values were given and which are kept (`TensorRequest`).
    """

    __tablename__ = "executions"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), index=True)
    status: Mapped[str] = mapped_column(String(16))
    backend: Mapped[str] = mapped_column(String(32))
    with_values: Mapped[bool]
    seed: Mapped[int | None] = mapped_column(BigInteger)
    counts: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    verified: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    trace: Mapped[dict[str, Any] | None] = mapped_column(CompressedJson)
    request: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),)


class ExecutionTensorRow(Base):
    """A tensor that an execution was given (`kind` is input) or computed (output); elements as in `TensorValue`."""

    __tablename__ = "execution_tensors"

    execution_id: Mapped[str] = mapped_column(
        ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    dtype: Mapped[str] = mapped_column(String(32))
    shape: Mapped[list[int]] = mapped_column(JSON)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class TensorRow(Base):
    """A tensor with a name that stays between executions; `place` is where it lies on a mesh, none: on the host.

    `load` is what loading it from there costs, none: nothing.
    """

    __tablename__ = "tensors"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    dtype: Mapped[str] = mapped_column(String(32))
    shape: Mapped[list[int]] = mapped_column(JSON)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))
    place: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    load: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    content: Mapped[bytes] = mapped_column(LargeBinary)
    stored_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ImportRow(Base):
    """A program to be read by a worker: how, and what became of it. `hash` is that of its upload (`UploadRow`).

    `request` is `ImportRequest` as JSON. It is seen, and waits, once its content `is_received` as a whole.
    """

    __tablename__ = "imports"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    hash: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]] = mapped_column(JSON)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    is_received: Mapped[bool]
    status: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(Integer)
    graph_id: Mapped[str | None] = mapped_column(ForeignKey("graphs.id", ondelete="SET NULL"), index=True)
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),
        Index(None, "tenant", "created_at", "id"),
        Index(None, "tenant", "hash"),
    )


class ImportPartRow(Base):
    """A portion of a file that is to be imported; `file` is its place in the request. Deleted when the import ends."""

    __tablename__ = "import_parts"

    import_id: Mapped[str] = mapped_column(ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True)
    file: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class LeaseRow(Base):
    """An unfinished job: its owner (none: it waits), its lease, and the attempts without progress.

    The owner counts `beat` up. It is taken for dead by who has seen the counter stand still for `lease_s` seconds.
    `attempts_without_progress` counts attempts since the job last wrote something that the next attempt can go on from.
    `origin` is the request's id and place in a trace (`service.telemetry`).
    Jobs of a higher `priority` are claimed first; `expected_s` is for about how long the job will run.
    """

    __tablename__ = "leases"

    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    subject: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    number: Mapped[int] = mapped_column(BigInteger, index=True)
    priority: Mapped[int] = mapped_column(Integer)
    expected_s: Mapped[float] = mapped_column(Float(53))
    owner: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(Integer)
    attempts_without_progress: Mapped[int] = mapped_column(Integer)
    cancel_requested: Mapped[bool]
    beat: Mapped[int] = mapped_column(BigInteger)
    lease_s: Mapped[float] = mapped_column(Float)
    deaths: Mapped[int] = mapped_column(Integer)
    last_death: Mapped[str | None] = mapped_column(Text)
    origin: Mapped[dict[str, str]] = mapped_column(JSON)

    __table_args__ = (
        Index(
            "ix_leases_waiting",
            *("kind", "priority", "tenant", "number", "subject"),
            sqlite_where=text("owner IS NULL"),
            postgresql_where=text("owner IS NULL"),
        ),
        Index(
            "ix_leases_held",
            *("kind", "subject"),
            sqlite_where=text("owner IS NOT NULL"),
            postgresql_where=text("owner IS NOT NULL"),
        ),
    )


class CheckpointRow(Base):
    """The state from which the next attempt at a run continues; deleted when the run has ended."""

    __tablename__ = "checkpoints"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    saved: Mapped[bytes] = mapped_column(LargeBinary)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class EpochRow(Base):
    """An epoch of an island that the worker of a run shares, who takes it, and its answer or what went wrong.

    It is of one `attempt` at the run, and for workers of one `release`.
    """

    __tablename__ = "epochs"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    release: Mapped[str] = mapped_column(Text)
    variant: Mapped[str] = mapped_column(String(64))
    content: Mapped[bytes] = mapped_column(LargeBinary)
    taken_by: Mapped[str | None] = mapped_column(Text)
    answer: Mapped[bytes | None] = mapped_column(LargeBinary)
    fault: Mapped[str | None] = mapped_column(Text)


class EpochVariantRow(Base):
    """The arrays of a variant that shared epochs of a run are of, by a hash of their content."""

    __tablename__ = "epoch_variants"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    token: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class IdempotencyRow(Base):
    """An Idempotency-Key that was used, with the request and the job it stands for."""

    __tablename__ = "idempotency_keys"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    scope: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(32), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class ApiKeyRow(Base):
    """An API key: what is public of it, its tenant and scope, and a hash of its text."""

    __tablename__ = "api_keys"

    prefix: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), index=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    scope: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class TenantRow(Base):
    """A tenant that was made; `quotas` are its limits by name."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(TENANT, primary_key=True)
    quotas: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class AuditRow(Base):
    """A line of the audit log: who did what from where, and with what outcome. The database refuses changes of it.

    `actor` is the prefix of a key, or what stands for another identity; `status` is that of the answer, if there was
    one.
    """

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(KEY, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    tenant: Mapped[str | None] = mapped_column(TENANT)
    actor: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str] = mapped_column(String(16))
    status: Mapped[int | None] = mapped_column(Integer)
    request_id: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index(None, "tenant", "number"),)


class UsageRow(Base):
    """The seconds that the ended jobs of a tenant took, as they count at a moment of the database's clock.

    `at_s` are seconds since 1970; later the same seconds count less (`service.scheduling.decayed`).
    """

    __tablename__ = "usage"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    seconds: Mapped[float] = mapped_column(Float(53))
    at_s: Mapped[float] = mapped_column(Float(53))


class SessionRow(Base):
    """A browser's session, by a hash of its token; `holder` is its key's prefix, or a mark of the settings' key."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    holder: Mapped[str] = mapped_column(String(64), index=True)
    ends_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ArtifactRow(Base):
    """An artifact rendered from a plan once, stored for later requests; gzipped."""

    __tablename__ = "artifacts"

    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WorkerRow(Base):
    """A worker, its current job, the number of its last heartbeat, and the time of that by the worker's clock.

    That is ahead of the database's clock by `ahead_s` seconds; none: the database has no clock of its own.
    `pss_bytes` is the memory of its processes.
    """

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    host: Mapped[str] = mapped_column(Text)
    pid: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(16))
    subject: Mapped[str | None] = mapped_column(String(16))
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    beat: Mapped[int] = mapped_column(BigInteger)
    ahead_s: Mapped[float | None] = mapped_column(Float)
    pss_bytes: Mapped[int] = mapped_column(BigInteger)


class TallyRow(Base):
    """A number that processes counted, by name and label; of durations the sum, and that in each class (`part`)."""

    __tablename__ = "tallies"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    label: Mapped[str] = mapped_column(String(64), primary_key=True)
    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    value: Mapped[float] = mapped_column(Float(53))


NEVER = "rows of the audit log are never changed"
APPEND_ONLY = {
    "sqlite": (
        f"CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, '{NEVER}'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{NEVER}'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_append_only()",
    ),
}


@event.listens_for(AuditRow.__table__, "after_create")
def _keep_from_changes(_: Any, connection: Connection, **__: Any) -> None:
    for statement in APPEND_ONLY[connection.dialect.name]:
        connection.exec_driver_sql(statement)
