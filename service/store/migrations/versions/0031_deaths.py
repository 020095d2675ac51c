"""Deaths of the processes of jobs, and what the last one was."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add both columns: no process of a job that is there has died."""
    with op.batch_alter_table("leases") as leases:
        leases.add_column(sa.Column("deaths", sa.Integer(), nullable=False, server_default="0"))
        leases.add_column(sa.Column("last_death", sa.Text(), nullable=True))
    with op.batch_alter_table("leases") as leases:
        leases.alter_column("deaths", server_default=None)
