"""A column of tensors for what loading one costs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column, empty for the existing tensors: loading them costs no time."""
    op.add_column("tensors", sa.Column("load", sa.JSON(none_as_null=True)))
