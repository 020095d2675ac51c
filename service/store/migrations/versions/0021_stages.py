"""A column of plans for their stages; null for the existing ones, which have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column with null for the existing plans."""
    op.add_column("plans", sa.Column("stages", sa.JSON(none_as_null=True), nullable=True))
