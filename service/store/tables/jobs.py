"""The tables of jobs: leases, checkpoints, epochs that workers share, and the workers themselves."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.store.columns import UtcDateTime
from tapestry.service.store.tables.base import TENANT, Base


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
