"""Tables for tensors: those of executions, and those with a name; a column for what an execution was asked to do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    """Create the tables, and add the column, empty for the existing executions."""
    op.create_table(
        "tensors",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("dtype", sa.String(32), nullable=False),
        sa.Column("shape", sa.JSON, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("place", JSON),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "execution_tensors",
        sa.Column(
            "execution_id",
            sa.String(16),
            sa.ForeignKey("executions.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("dtype", sa.String(32), nullable=False),
        sa.Column("shape", sa.JSON, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.add_column("executions", sa.Column("request", JSON))
