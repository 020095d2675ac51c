"""The audit log, whose rows the database itself keeps from being changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tapestry.service.store.columns import UtcDateTime

revision = "0029"
down_revision = "0028"

NEVER = "rows of the audit log are never changed"
APPEND_ONLY = {
    "sqlite": (
        f"CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, '{NEVER}'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{NEVER}'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_append_only()",
    ),
}


def upgrade() -> None:
    """Create the table, empty, with its trigger."""
    op.create_table(
        "audit",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
        ),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("tenant", sa.String(32), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_tenant_number", "audit", ["tenant", "number"])
    for statement in APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)
