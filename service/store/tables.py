"""The tables: what is kept of graphs, runs, plans, frontiers and executions.

Graphs are addressed by content, everything else by row. Objective values are rows, so that a new objective is
no new column. Constraints and indices have derived names, so that migrations can refer to them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from service.store.columns import Moment, PackedJson

SCHEMA_VERSION = 1
STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")
CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
KEY = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """The base of all rows."""

    metadata = MetaData(naming_convention=CONVENTION)


class SchemaVersion(Base):
    """One row: the version of these tables that the database was made with."""

    __tablename__ = "schema_version"

    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)


class GraphRow(Base):
    """A graph: `document` is its gzipped TEG document; `lacks_values` says that large data was left out.

    `is_given` tells programs that people handed in from those that rewriting made.
    """

    __tablename__ = "graphs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    structural_hash: Mapped[str] = mapped_column(String(64), index=True)
    blocks: Mapped[int] = mapped_column(Integer)
    document: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    lacks_values: Mapped[bool]
    is_given: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(Moment)

    __table_args__ = (Index(None, "created_at", "id"),)


class RunRow(Base):
    """A search: what was asked, on which machine, how it went, and with which versions on which host."""

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), index=True)
    mesh_name: Mapped[str] = mapped_column(Text)
    mesh: Mapped[dict[str, Any]] = mapped_column(JSON)
    objectives: Mapped[list[str]] = mapped_column(JSON)
    constraints: Mapped[list[str]] = mapped_column(JSON)
    rules: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    pins: Mapped[dict[str, str]] = mapped_column(JSON)
    compute_dtype: Mapped[str | None] = mapped_column(Text)
    budget_seconds: Mapped[float | None] = mapped_column(Float(53))
    budget_evaluations: Mapped[int | None] = mapped_column(BigInteger)
    seed: Mapped[int] = mapped_column(BigInteger)
    islands: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(16), index=True)
    stopped: Mapped[str] = mapped_column(Text)
    evaluations: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float] = mapped_column(Float(53))
    timings: Mapped[dict[str, float]] = mapped_column(JSON)
    versions: Mapped[dict[str, str]] = mapped_column(JSON)
    host: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment)

    graph: Mapped[GraphRow] = relationship()

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),
        Index(None, "created_at", "id"),
    )


class PlanRow(Base):
    """A plan that a run found: the rewritten graph, its placements and how they came about.

    `plan_id` is derived from what the plan is, so two runs may hold the same one; `key` tells them apart.
    """

    __tablename__ = "plans"

    key: Mapped[int] = mapped_column(KEY, primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    plan_id: Mapped[str] = mapped_column(String(64), index=True)
    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), index=True)
    feasible: Mapped[bool]
    moves: Mapped[list[dict[str, Any]]] = mapped_column(PackedJson)
    placements: Mapped[dict[str, Any]] = mapped_column(PackedJson, deferred=True)
    verified: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    run: Mapped[RunRow] = relationship()
    costs: Mapped[list[CostRow]] = relationship(order_by="CostRow.key")

    __table_args__ = (UniqueConstraint("run_id", "plan_id"),)


class CostRow(Base):
    """One objective of one plan; `whole` is the exact value of what is counted in whole numbers."""

    __tablename__ = "costs"

    key: Mapped[int] = mapped_column(KEY, primary_key=True)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"))
    objective: Mapped[str] = mapped_column(String(64))
    value: Mapped[float] = mapped_column(Float(53))
    whole: Mapped[int | None] = mapped_column(BigInteger)

    __table_args__ = (UniqueConstraint("plan_key", "objective"), Index(None, "objective", "value"))


class FrontierRow(Base):
    """A plan's position on the frontier of its run."""

    __tablename__ = "frontier"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), unique=True)


class RuleRow(Base):
    """How often a rule was applied in a run, and how often that improved the frontier."""

    __tablename__ = "rule_statistics"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    rule: Mapped[str] = mapped_column(String(128), primary_key=True)
    applied: Mapped[int] = mapped_column(BigInteger)
    improved: Mapped[int] = mapped_column(BigInteger)


class HistoryRow(Base):
    """The frontier's hypervolume over a run."""

    __tablename__ = "history"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    seconds: Mapped[float] = mapped_column(Float(53))
    evaluations: Mapped[int] = mapped_column(BigInteger)
    front: Mapped[int] = mapped_column(Integer)
    hypervolume: Mapped[float] = mapped_column(Float(53))


class ExecutionRow(Base):
    """A plan run on the device simulator: counts beside predictions, values beside the reference."""

    __tablename__ = "executions"

    key: Mapped[int] = mapped_column(KEY, primary_key=True)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), index=True)
    backend: Mapped[str] = mapped_column(String(32))
    seed: Mapped[int | None] = mapped_column(BigInteger)
    counts: Mapped[dict[str, Any]] = mapped_column(JSON)
    verified: Mapped[dict[str, Any]] = mapped_column(JSON)
    trace: Mapped[dict[str, Any] | None] = mapped_column(PackedJson, deferred=True)
    created_at: Mapped[datetime] = mapped_column(Moment)
