"""The tables of the first release: graphs, runs, plans, costs, frontiers, statistics and executions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
PACKED_JSON = sa.LargeBinary()
FLOAT = sa.Float(53)


def upgrade() -> None:
    """Create all tables; constraints and indices get their names from the convention of the metadata."""
    op.create_table("schema_version", sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
    _graphs()
    _runs()
    _plans()
    _statistics()
    _executions()


def _graphs() -> None:
    op.create_table(
        "graphs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("structural_hash", sa.String(64), nullable=False, index=True),
        sa.Column("blocks", sa.Integer, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("lacks_values", sa.Boolean, nullable=False),
        sa.Column("is_given", sa.Boolean, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Index(None, "created_at", "id"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("graph_id", sa.String(32), sa.ForeignKey("graphs.id"), nullable=False, index=True),
        sa.Column("mesh_name", sa.Text, nullable=False),
        sa.Column("mesh", sa.JSON, nullable=False),
        sa.Column("objectives", sa.JSON, nullable=False),
        sa.Column("constraints", sa.JSON, nullable=False),
        sa.Column("rules", sa.JSON),
        sa.Column("pins", sa.JSON, nullable=False),
        sa.Column("compute_dtype", sa.Text),
        sa.Column("budget_seconds", FLOAT),
        sa.Column("budget_evaluations", sa.BigInteger),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("islands", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("stopped", sa.Text, nullable=False),
        sa.Column("evaluations", sa.BigInteger, nullable=False),
        sa.Column("seconds", FLOAT, nullable=False),
        sa.Column("timings", sa.JSON, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("host", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"
        ),
        sa.Index(None, "created_at", "id"),
    )


def _run_id(primary_key: bool = False) -> sa.Column[str]:
    reference = sa.ForeignKey("runs.id", ondelete="CASCADE")
    return sa.Column("run_id", sa.String(16), reference, primary_key=primary_key, nullable=False)


def _plan_key(unique: bool | None = None, index: bool | None = None) -> sa.Column[int]:
    reference = sa.ForeignKey("plans.key", ondelete="CASCADE")
    return sa.Column("plan_key", KEY, reference, unique=unique, index=index, nullable=False)


def _plans() -> None:
    op.create_table(
        "plans",
        sa.Column("key", KEY, primary_key=True),
        _run_id(),
        sa.Column("plan_id", sa.String(64), nullable=False, index=True),
        sa.Column("graph_id", sa.String(32), sa.ForeignKey("graphs.id"), nullable=False, index=True),
        sa.Column("feasible", sa.Boolean, nullable=False),
        sa.Column("moves", PACKED_JSON, nullable=False),
        sa.Column("placements", PACKED_JSON, nullable=False),
        sa.Column("verified", sa.JSON),
        sa.UniqueConstraint("run_id", "plan_id"),
    )
    op.create_table(
        "costs",
        sa.Column("key", KEY, primary_key=True),
        _plan_key(),
        sa.Column("objective", sa.String(64), nullable=False),
        sa.Column("value", FLOAT, nullable=False),
        sa.Column("whole", sa.BigInteger),
        sa.UniqueConstraint("plan_key", "objective"),
        sa.Index(None, "objective", "value"),
    )
    op.create_table(
        "frontier",
        _run_id(primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        _plan_key(unique=True),
    )


def _statistics() -> None:
    op.create_table(
        "rule_statistics",
        _run_id(primary_key=True),
        sa.Column("rule", sa.String(128), primary_key=True),
        sa.Column("applied", sa.BigInteger, nullable=False),
        sa.Column("improved", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "history",
        _run_id(primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seconds", FLOAT, nullable=False),
        sa.Column("evaluations", sa.BigInteger, nullable=False),
        sa.Column("front", sa.Integer, nullable=False),
        sa.Column("hypervolume", FLOAT, nullable=False),
    )


def _executions() -> None:
    op.create_table(
        "executions",
        sa.Column("key", KEY, primary_key=True),
        _plan_key(index=True),
        sa.Column("backend", sa.String(32), nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("verified", sa.JSON, nullable=False),
        sa.Column("trace", PACKED_JSON),
        sa.Column("created_at", MOMENT, nullable=False),
    )
