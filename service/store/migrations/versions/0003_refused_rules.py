"""A column of runs for the rules that were disabled, with reasons; unknown for earlier runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

RUNS = sa.table("runs", sa.column("refused", sa.JSON))


def upgrade() -> None:
    """Add the column, empty for the existing runs."""
    op.add_column("runs", sa.Column("refused", sa.JSON))
    op.get_bind().execute(RUNS.update().values(refused=[]))
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("refused", existing_type=sa.JSON(), nullable=False)
