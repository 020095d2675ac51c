"""A column of plans for their time with its error."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column, empty for the existing plans: their checks have the time, where there were any."""
    op.add_column("plans", sa.Column("time", sa.JSON(none_as_null=True)))
