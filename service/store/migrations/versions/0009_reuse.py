"""Hashes by which a request finds the run that answered an equal one, and an upload the graph that was read from it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column, empty for the existing runs: they are not reused. Add the table of uploads."""
    op.add_column("runs", sa.Column("request_hash", sa.String(64)))
    op.create_index("ix_runs_request_hash", "runs", ["request_hash"])
    op.create_table(
        "uploads",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("graph_id", sa.String(32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_uploads"),
        sa.ForeignKeyConstraint(["graph_id"], ["graphs.id"], name="fk_uploads_graph_id_graphs"),
    )
