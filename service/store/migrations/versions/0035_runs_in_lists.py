"""Tags and notes of runs, and what lists show of each run: its best values, and how its hypervolume grew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

MOST_POINTS = 32
TIME, MEMORY = "time_s", "peak_memory_bytes"
RUNS = sa.table(
    "runs",
    *(sa.column(name) for name in ("id", "least_time_s", "least_memory_bytes")),
    *(sa.column(name, sa.JSON) for name in ("options", "best", "trend")),
)
PLANS = sa.table(
    "plans", sa.column("run_id"), sa.column("on_frontier", sa.Boolean), sa.column("cost", sa.JSON)
)
HISTORY = sa.table("history", *map(sa.column, ("run_id", "step", "seconds", "hypervolume")))


def upgrade() -> None:
    """Create the tables, empty; fill the columns from the plans and the history of each run."""
    _tables()
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("best", sa.JSON(), nullable=False, server_default="{}"))
        runs.add_column(sa.Column("trend", sa.JSON(), nullable=False, server_default="[]"))
        runs.add_column(sa.Column("least_time_s", sa.Float(53), nullable=True))
        runs.add_column(sa.Column("least_memory_bytes", sa.Float(53), nullable=True))
    bind = op.get_bind()
    for run_id, options in bind.execute(sa.select(RUNS.c.id, RUNS.c.options)).all():
        bind.execute(RUNS.update().where(RUNS.c.id == run_id).values(_highlights(bind, run_id, options)))
    for column in ("least_time_s", "least_memory_bytes"):
        op.create_index(
            f"ix_runs_tenant_{column}_created_at_id", "runs", ["tenant", column, "created_at", "id"]
        )


def _tables() -> None:
    for name, text in (("run_tags", "tag"), ("run_notes", "notes")):
        op.create_table(
            name,
            sa.Column("run_id", sa.String(16), nullable=False),
            sa.Column(text, sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("run_id", *(["tag"] if text == "tag" else []), name=f"pk_{name}"),
            sa.ForeignKeyConstraint(
                ["run_id"], ["runs.id"], name=f"fk_{name}_run_id_runs", ondelete="CASCADE"
            ),
        )
    op.create_index("ix_run_tags_tag_run_id", "run_tags", ["tag", "run_id"])


def _highlights(bind: sa.Connection, run_id: str, options: Any) -> dict[str, Any]:
    shown = sa.select(PLANS.c.cost).where(PLANS.c.run_id == run_id, PLANS.c.on_frontier.is_(True))
    costs = bind.scalars(shown).all()
    best = {
        name: min(cost[name] for cost in costs)
        for name in dict.fromkeys((*options.get("objectives", ()), TIME, MEMORY))
        if costs and all(name in cost for cost in costs)
    }
    points = sa.select(HISTORY.c.seconds, HISTORY.c.hypervolume).where(HISTORY.c.run_id == run_id)
    history = [list(row) for row in bind.execute(points.order_by(HISTORY.c.step))]
    return {
        "best": best,
        "trend": _thinned(history),
        "least_time_s": best.get(TIME),
        "least_memory_bytes": best.get(MEMORY),
    }


def _thinned(points: Sequence[Any]) -> list[Any]:
    """Return at most `MOST_POINTS` of the points, the first and the last among them."""
    if len(points) <= MOST_POINTS:
        return list(points)
    last = len(points) - 1
    return [points[round(k * last / (MOST_POINTS - 1))] for k in range(MOST_POINTS)]
