"""A revision of each run, by which answers about it that were encoded before are found valid still."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add the revisions at 0."""
    op.add_column("runs", sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0"))
