"""The tables of the service: durable jobs, events, checkpoints; plans get columns for costs and frontier.

The first release stored only searches that had ended, made at the command line: their runs and executions
have no events and no leases. Its rewritten graphs stay, though plans no longer refer to them.
"""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
PACKED_JSON = sa.LargeBinary()
JSON = sa.JSON(none_as_null=True)
FLOAT = sa.Float(53)
IS_A_STATUS = "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')"
# What a search of the first release was told unless it was told otherwise, which was not stored.
OPTIONS = {"devices": "any", "inputs": "chosen", "outputs": "sharded", "verify": "auto"}

RUNS = sa.table(
    "runs",
    sa.column("id"),
    sa.column("options", JSON),
    sa.column("phase"),
    sa.column("attempt"),
    sa.column("front"),
    sa.column("hypervolume"),
    sa.column("last_event"),
    sa.column("seconds"),
    sa.column("created_at", MOMENT),
    sa.column("started_at", MOMENT),
    sa.column("ended_at", MOMENT),
)
PLANS = sa.table(
    "plans",
    sa.column("key"),
    sa.column("moves", PACKED_JSON),
    sa.column("on_frontier", sa.Boolean),
    sa.column("cost", JSON),
    sa.column("devices"),
    sa.column("move_count"),
)
COSTS = sa.table("costs", *map(sa.column, ("key", "plan_key", "objective", "value", "whole")))
FRONTIER = sa.table("frontier", *map(sa.column, ("run_id", "plan_key")))
HISTORY = sa.table("history", *map(sa.column, ("run_id", "step", "hypervolume")))


def upgrade() -> None:
    """Change graphs, runs, plans and executions with their rows; drop the tables these replace; add new ones."""
    op.add_column("graphs", sa.Column("summary", JSON))
    _runs()
    _plans()
    _executions()
    for table in ("costs", "frontier", "schema_version"):
        op.drop_table(table)
    _tables_of_runs()
    _tables_of_jobs()


def _runs() -> None:
    required: tuple[sa.Column[Any], ...] = (
        sa.Column("options", sa.JSON),
        sa.Column("phase", sa.String(16)),
        sa.Column("attempt", sa.Integer),
        sa.Column("front", sa.Integer),
        sa.Column("hypervolume", FLOAT),
        sa.Column("last_event", sa.Integer),
    )
    optional: tuple[sa.Column[Any], ...] = (
        sa.Column("start_from", sa.String(16)),
        sa.Column("problem", JSON),
        sa.Column("started_at", MOMENT),
        sa.Column("ended_at", MOMENT),
    )
    for column in (*required, *optional):
        op.add_column("runs", column)
    _fill_runs(op.get_bind())
    with op.batch_alter_table("runs") as runs:
        for column in required:
            runs.alter_column(column.name, existing_type=column.type, nullable=False)
        runs.alter_column("islands", existing_type=sa.Integer(), nullable=True)
        for column_name in ("status", "graph_id"):  # lists are filtered by these, newest first
            runs.drop_index(op.f(f"ix_runs_{column_name}"))
            columns = [column_name, "created_at", "id"]
            runs.create_index(op.f(f"ix_runs_{column_name}_created_at_id"), columns)


def _fill_runs(bind: sa.Connection) -> None:
    """Fill the new columns of runs: started when created, and ended after the seconds that they searched."""
    shown = sa.select(sa.func.count()).select_from(FRONTIER).where(FRONTIER.c.run_id == RUNS.c.id)
    newest = (
        sa.select(HISTORY.c.hypervolume)
        .where(HISTORY.c.run_id == RUNS.c.id)
        .order_by(HISTORY.c.step.desc())
        .limit(1)
    )
    bind.execute(
        RUNS.update().values(
            options=OPTIONS,
            phase="done",
            attempt=1,
            front=shown.scalar_subquery(),
            hypervolume=sa.func.coalesce(newest.scalar_subquery(), 0.0),
            last_event=0,
            started_at=RUNS.c.created_at,
        )
    )
    for run_id, created_at, seconds in bind.execute(
        sa.select(RUNS.c.id, RUNS.c.created_at, RUNS.c.seconds)
    ).all():
        ended_at = created_at + timedelta(seconds=seconds)
        bind.execute(RUNS.update().where(RUNS.c.id == run_id).values(ended_at=ended_at))


def _plans() -> None:
    required: tuple[sa.Column[Any], ...] = (
        sa.Column("on_frontier", sa.Boolean),
        sa.Column("cost", sa.JSON),
        sa.Column("devices", sa.Text),
        sa.Column("move_count", sa.Integer),
    )
    for column in required:
        op.add_column("plans", column)
    _fill_plans(op.get_bind())
    with op.batch_alter_table("plans") as plans:
        for column in required:
            plans.alter_column(column.name, existing_type=column.type, nullable=False)
        plans.drop_index(op.f("ix_plans_graph_id"))
        plans.drop_constraint(op.f("fk_plans_graph_id_graphs"), type_="foreignkey")
        plans.drop_column("graph_id")
        plans.create_index(op.f("ix_plans_run_id_on_frontier"), ["run_id", "on_frontier"])


def _fill_plans(bind: sa.Connection) -> None:
    """Fill the new columns of plans: costs in one value, whole numbers exactly; and the values that moves determine."""
    rows = bind.execute(sa.select(COSTS).order_by(COSTS.c.plan_key, COSTS.c.key)).all()
    costs = {
        plan: {row.objective: row.value if row.whole is None else row.whole for row in group}
        for plan, group in groupby(rows, key=attrgetter("plan_key"))
    }
    shown = set(bind.scalars(sa.select(FRONTIER.c.plan_key)))
    for key in bind.scalars(sa.select(PLANS.c.key)).all():
        packed: bytes = bind.execute(sa.select(PLANS.c.moves).where(PLANS.c.key == key)).scalar_one()
        moves = json.loads(gzip.decompress(packed))
        devices = (m["choice"] for m in moves if (m["rule"], m["place"]) == ("set_option", "devices"))
        bind.execute(
            PLANS.update()
            .where(PLANS.c.key == key)
            .values(
                on_frontier=key in shown,
                cost=costs.get(key, {}),
                devices=next(devices, "all"),
                move_count=len(moves),
            )
        )


def _executions() -> None:
    """Give executions text ids instead of numbers: made of the old number, so that their order stays."""
    op.execute("CREATE TABLE executions_before AS SELECT * FROM executions")
    op.drop_table("executions")
    op.create_table(
        "executions",
        sa.Column("id", sa.String(16), primary_key=True),
        _plan_key(index=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("backend", sa.String(32), nullable=False),
        sa.Column("with_values", sa.Boolean, nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("counts", JSON),
        sa.Column("verified", JSON),
        sa.Column("problem", JSON),
        sa.Column("trace", PACKED_JSON),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("ended_at", MOMENT),
        sa.CheckConstraint(IS_A_STATUS, name="status"),
    )
    text_of_key = "lpad(to_hex(key), 12, '0')" if _is_postgresql() else "printf('%012x', key)"
    op.execute(
        "INSERT INTO executions (id, plan_key, status, backend, with_values, seed, counts, verified, trace,"
        f" created_at, ended_at) SELECT {text_of_key}, plan_key, 'succeeded', backend, backend <> 'dry', seed,"
        " counts, verified, trace, created_at, created_at FROM executions_before"
    )
    op.drop_table("executions_before")


def _tables_of_runs() -> None:
    op.create_table(
        "events",
        _run_id(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
    )
    op.create_table(
        "checkpoints",
        _run_id(),
        sa.Column("saved", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
    )
    op.create_table(
        "artifacts",
        _plan_key(primary_key=True),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
    )


def _tables_of_jobs() -> None:
    op.create_table(
        "leases",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("subject", sa.String(16), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False, index=True),
        sa.Column("owner", sa.Text),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("barren", sa.Integer, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("expires_at", MOMENT),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(32), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False, index=True),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(16)),
        sa.Column("seen_at", MOMENT, nullable=False),
    )


def _run_id() -> sa.Column[str]:
    return sa.Column("run_id", sa.String(16), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)


def _plan_key(primary_key: bool = False, index: bool | None = None) -> sa.Column[int]:
    reference = sa.ForeignKey("plans.key", ondelete="CASCADE")
    return sa.Column("plan_key", KEY, reference, primary_key=primary_key, index=index, nullable=False)


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"
