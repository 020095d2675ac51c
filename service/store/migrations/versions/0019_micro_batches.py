"""A column of plans for their number of micro-batches; 1 for the existing ones, which have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column with 1 for the existing plans."""
    op.add_column("plans", sa.Column("micro_batches", sa.Integer(), nullable=False, server_default="1"))
