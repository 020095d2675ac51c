"""A table of programs derived from others by moves, with these moves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "rewrites",
        sa.Column("graph_id", sa.String(32), sa.ForeignKey("graphs.id"), primary_key=True),
        sa.Column("source_id", sa.String(32), sa.ForeignKey("graphs.id"), primary_key=True),
        sa.Column("part", sa.String(16), primary_key=True),
        sa.Column("moves", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
