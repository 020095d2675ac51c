"""Tables of API keys and of the sessions that began with one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Create the tables, empty."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "api_keys",
        sa.Column("prefix", sa.String(8), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment, nullable=True),
        sa.Column("revoked_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("prefix", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_name", "api_keys", ["name"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("ends_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_index("ix_sessions_holder", "sessions", ["holder"])
