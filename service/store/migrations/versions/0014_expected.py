"""A column of runs for what more searching is expected to bring; unknown for earlier runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

RUNS = sa.table("runs", sa.column("expected", sa.JSON))


def upgrade() -> None:
    """Add the column, empty for the existing runs."""
    op.add_column("runs", sa.Column("expected", sa.JSON))
    op.get_bind().execute(RUNS.update().values(expected={}))
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("expected", existing_type=sa.JSON(), nullable=False)
