"""Tables of batches: runs that were asked for together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tapestry.service.store.columns import UtcDateTime

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the tables, empty."""
    op.create_table(
        "batches",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_index("ix_batches_created_at_id", "batches", ["created_at", "id"])
    op.create_table(
        "batch_entries",
        sa.Column("batch_id", sa.String(16), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("graph_id", sa.String(32), nullable=False),
        sa.Column("mesh_name", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.String(16), nullable=True),
        sa.Column("problem", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", "number", name="pk_batch_entries"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name="fk_batch_entries_batch_id_batches", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_batch_entries_run_id_runs", ondelete="SET NULL"
        ),
    )
