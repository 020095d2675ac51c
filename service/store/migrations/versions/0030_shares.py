"""The seconds that tenants have used, and the indices by which the next job is found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

WAITS, HELD = sa.text("owner IS NULL"), sa.text("owner IS NOT NULL")


def upgrade() -> None:
    """Create the table, empty, and the indices."""
    op.create_table(
        "usage",
        sa.Column("tenant", sa.String(32), nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("at_s", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_usage"),
    )
    op.create_index(
        "ix_leases_waiting",
        "leases",
        ["kind", "priority", "tenant", "number", "subject"],
        sqlite_where=WAITS,
        postgresql_where=WAITS,
    )
    op.create_index("ix_leases_held", "leases", ["kind", "subject"], sqlite_where=HELD, postgresql_where=HELD)
