"""A column of plans for what they have on the hosts; null for the existing ones, which have nothing there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the column with null for the existing plans."""
    op.add_column("plans", sa.Column("offload", sa.JSON(none_as_null=True), nullable=True))
