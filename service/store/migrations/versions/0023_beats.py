"""Counters of leases and workers in place of the moment when a lease ends: clocks of machines differ."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

BEFORE_S = 15.0  # how long leases were until now


def upgrade() -> None:
    """Add the counters at 0: who looks at an existing lease waits until it has stood still for its length."""
    with op.batch_alter_table("leases") as leases:
        leases.add_column(sa.Column("beat", sa.BigInteger(), nullable=False, server_default="0"))
        leases.add_column(sa.Column("lease_s", sa.Float(), nullable=False, server_default=str(BEFORE_S)))
        leases.drop_column("expires_at")
    with op.batch_alter_table("leases") as leases:
        leases.alter_column("beat", server_default=None)
        leases.alter_column("lease_s", server_default=None)
    with op.batch_alter_table("workers") as workers:
        workers.add_column(sa.Column("beat", sa.BigInteger(), nullable=False, server_default="0"))
        workers.add_column(sa.Column("ahead_s", sa.Float(), nullable=True))
    with op.batch_alter_table("workers") as workers:
        workers.alter_column("beat", server_default=None)
