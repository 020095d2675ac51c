"""A column of graphs for the family of a program; unknown for the existing ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column, empty for the existing graphs."""
    op.add_column("graphs", sa.Column("family", sa.String(64), nullable=True))
    op.create_index("ix_graphs_family", "graphs", ["family"])
