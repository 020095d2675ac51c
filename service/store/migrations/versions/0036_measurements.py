"""Measured times of plans."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Create the table, empty."""
    op.create_table(
        "measurements",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("plan_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=True),
        sa.Column("repeat_error", sa.Float(53), nullable=True),
        sa.Column("measured_on", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
        sa.ForeignKeyConstraint(
            ["plan_key"], ["plans.key"], name="fk_measurements_plan_key_plans", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_measurements_plan_key", "measurements", ["plan_key"])
