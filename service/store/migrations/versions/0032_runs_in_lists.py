"""Indices by which a tenant's runs on a mesh or of a program are listed, rather than found among all its runs."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

ORDER = ["created_at", "id"]


def upgrade() -> None:
    """Create the indices."""
    op.create_index("ix_runs_tenant_mesh_name_created_at_id", "runs", ["tenant", "mesh_name", *ORDER])
    op.create_index("ix_runs_tenant_graph_id_created_at_id", "runs", ["tenant", "graph_id", *ORDER])
