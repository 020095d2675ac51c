"""Priorities of jobs, and for about how long each will run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

USUAL_S = 20.0  # the budget of a run that states none


def upgrade() -> None:
    """Add both columns: jobs that are there have the usual priority and the usual length."""
    with op.batch_alter_table("leases") as leases:
        leases.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
        leases.add_column(sa.Column("expected_s", sa.Float(53), nullable=False, server_default=str(USUAL_S)))
    with op.batch_alter_table("leases") as leases:
        leases.alter_column("priority", server_default=None)
        leases.alter_column("expected_s", server_default=None)
