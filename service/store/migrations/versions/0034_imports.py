"""Tables of imports: uploaded programs that workers read, and their content in portions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tapestry.service.store.columns import UtcDateTime

revision = "0034"
down_revision = "0033"

STATUSES = "'queued', 'running', 'succeeded', 'failed', 'cancelled'"


def upgrade() -> None:
    """Create the tables, empty."""
    op.create_table(
        "imports",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("tenant", sa.String(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_received", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("graph_id", sa.String(32), nullable=True),
        sa.Column("problem", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_imports"),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name="fk_imports_graph_id_graphs", ondelete="SET NULL"
        ),
        sa.CheckConstraint(f"status IN ({STATUSES})", name="status"),
    )
    op.create_index("ix_imports_graph_id", "imports", ["graph_id"])
    op.create_index("ix_imports_tenant_created_at_id", "imports", ["tenant", "created_at", "id"])
    op.create_index("ix_imports_tenant_hash", "imports", ["tenant", "hash"])
    op.create_table(
        "import_parts",
        sa.Column("import_id", sa.String(16), nullable=False),
        sa.Column("file", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("import_id", "file", "number", name="pk_import_parts"),
        sa.ForeignKeyConstraint(
            ["import_id"], ["imports.id"], name="fk_import_parts_import_id_imports", ondelete="CASCADE"
        ),
    )
