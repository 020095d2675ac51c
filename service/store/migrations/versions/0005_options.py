"""One column for all options of a run, as versioned JSON; a lease's attempts without progress get that name.

What earlier releases stored of a run's options was in ten columns and in `options`, which had only the choices.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

JSON = sa.JSON(none_as_null=True)
COLUMNS: tuple[sa.Column[Any], ...] = (
    sa.Column("objectives", JSON),
    sa.Column("constraints", JSON),
    sa.Column("rules", JSON),
    sa.Column("pins", JSON),
    sa.Column("start_from", sa.String(16)),
    sa.Column("compute_dtype", sa.Text),
    sa.Column("budget_seconds", sa.Float(53)),
    sa.Column("budget_evaluations", sa.BigInteger),
    sa.Column("seed", sa.BigInteger),
    sa.Column("islands", sa.Integer),
)
RUNS = sa.table(
    "runs",
    sa.column("id"),
    sa.column("options", JSON),
    *(sa.column(column.name, column.type) for column in COLUMNS),
)


def upgrade() -> None:
    """Move the options of every run into one value, then drop their columns; rename the column of leases."""
    bind = op.get_bind()
    for run in bind.execute(sa.select(RUNS)).all():
        bind.execute(RUNS.update().where(RUNS.c.id == run.id).values(options=_options(run)))
    with op.batch_alter_table("runs") as runs:
        for column in COLUMNS:
            runs.drop_column(column.name)
    with op.batch_alter_table("leases") as leases:
        leases.alter_column("barren", new_column_name="attempts_without_progress", existing_type=sa.Integer())


def _options(run: sa.Row[Any]) -> dict[str, Any]:
    """Build the options of a run in the form of version 1; choices that it lacks keep their defaults."""
    return {
        "version": 1,
        "objectives": run.objectives,
        "constraints": run.constraints,
        "budget": {"seconds": run.budget_seconds, "evaluations": run.budget_evaluations},
        "seed": run.seed,
        "islands": run.islands,
        "rules": run.rules,
        "pins": run.pins,
        "start_from": run.start_from,
        "compute_dtype": run.compute_dtype,
        **run.options,
    }
