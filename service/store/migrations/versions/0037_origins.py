"""A column of plans for where they come from; null for the existing ones, of which that is not known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Add the column with null for the existing plans."""
    op.add_column("plans", sa.Column("origin", sa.JSON(none_as_null=True), nullable=True))
