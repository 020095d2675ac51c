"""A column of runs for the proven bounds of their objectives; unknown for earlier runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

RUNS = sa.table("runs", sa.column("bounds", sa.JSON))


def upgrade() -> None:
    """Add the column, empty for the existing runs."""
    op.add_column("runs", sa.Column("bounds", sa.JSON))
    op.get_bind().execute(RUNS.update().values(bounds={}))
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("bounds", existing_type=sa.JSON(), nullable=False)
