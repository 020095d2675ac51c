"""Stored explicit graphs are deleted: they are written anew for every request, without the weights they repeated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ARTIFACTS = sa.table("artifacts", sa.column("kind", sa.String))


def upgrade() -> None:
    """Delete them."""
    op.get_bind().execute(sa.delete(ARTIFACTS).where(ARTIFACTS.c.kind.startswith("explicit-graph")))
