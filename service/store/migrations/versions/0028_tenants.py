"""Tenants: whose rows are whose. All that was stored before belongs to the default one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tapestry.service.store.columns import UtcDateTime

revision = "0028"
down_revision = "0027"

KEYS = {
    "uploads": ("hash",),
    "tensors": ("name",),
    "idempotency_keys": ("scope", "key"),
    "snapshots": ("number",),
    "rates": ("snapshot", "rule", "operator_class"),
}
LISTED = ("graphs", "runs", "batches")


def upgrade() -> None:
    """Add the column to all tables whose rows name their tenant, and to the keys by which tenants name the same."""
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("quotas", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    with op.batch_alter_table("rates") as rates:
        rates.drop_constraint("fk_rates_snapshot_snapshots", type_="foreignkey")
    for table in ("api_keys", "leases", *LISTED, *KEYS):
        with op.batch_alter_table(table) as changed:
            changed.add_column(sa.Column("tenant", sa.String(32), nullable=False, server_default="default"))
    for table in ("api_keys", "leases", *LISTED):
        with op.batch_alter_table(table) as changed:
            changed.alter_column("tenant", server_default=None)
    for table, columns in KEYS.items():
        with op.batch_alter_table(table) as changed:
            changed.alter_column("tenant", server_default=None)
            changed.drop_constraint(f"pk_{table}", type_="primary")
            changed.create_primary_key(f"pk_{table}", ["tenant", *columns])
    with op.batch_alter_table("rates") as rates:
        rates.create_foreign_key(
            "fk_rates_tenant_snapshot_snapshots",
            "snapshots",
            ["tenant", "snapshot"],
            ["tenant", "number"],
            ondelete="CASCADE",
        )
    for table in LISTED:
        op.drop_index(f"ix_{table}_created_at_id", table)
        op.create_index(f"ix_{table}_tenant_created_at_id", table, ["tenant", "created_at", "id"])
    op.drop_index("ix_runs_status_created_at_id", "runs")
    op.create_index("ix_runs_tenant_status_created_at_id", "runs", ["tenant", "status", "created_at", "id"])
