"""Tallies for metrics, the memory of workers, and the request that a job is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Create the table, empty; workers report their memory with the next heartbeat, and jobs have no origin."""
    op.create_table(
        "tallies",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("part", sa.String(16), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", "label", "part", name="pk_tallies"),
    )
    with op.batch_alter_table("workers") as workers:
        workers.add_column(sa.Column("pss_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    with op.batch_alter_table("workers") as workers:
        workers.alter_column("pss_bytes", server_default=None)
    with op.batch_alter_table("leases") as leases:
        leases.add_column(sa.Column("origin", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("leases") as leases:
        leases.alter_column("origin", server_default=None)
