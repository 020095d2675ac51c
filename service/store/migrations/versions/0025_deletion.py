"""Indices by which a deletion finds what names a run."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Create the indices."""
    op.create_index("ix_batch_entries_run_id", "batch_entries", ["run_id"])
    op.create_index("ix_idempotency_keys_subject", "idempotency_keys", ["subject"])
