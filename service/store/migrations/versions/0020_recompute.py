"""A column of plans for what they compute again instead of storing it; null for the existing ones, which store all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the column with null for the existing plans."""
    op.add_column("plans", sa.Column("recompute", sa.JSON(none_as_null=True), nullable=True))
