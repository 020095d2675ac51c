"""Tables of what runs have learned of moves, in numbered snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tapestry.service.store.columns import UtcDateTime

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Create the tables, empty: what earlier runs counted was not by class of operator."""
    op.create_table(
        "snapshots",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(16), nullable=True),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("mesh_kind", sa.String(64), nullable=False),
        sa.Column("focus", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_snapshots"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_snapshots_run_id_runs", ondelete="SET NULL"
        ),
        sa.UniqueConstraint("run_id", name="uq_snapshots_run_id"),
    )
    op.create_table(
        "rates",
        sa.Column("snapshot", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(128), nullable=False),
        sa.Column("operator_class", sa.String(32), nullable=False),
        sa.Column("applicable", sa.BigInteger(), nullable=False),
        sa.Column("applied", sa.BigInteger(), nullable=False),
        sa.Column("improved", sa.BigInteger(), nullable=False),
        sa.Column("credit", sa.Float(53), nullable=False),
        sa.Column("volume", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("snapshot", "rule", "operator_class", name="pk_rates"),
        sa.ForeignKeyConstraint(
            ["snapshot"], ["snapshots.number"], name="fk_rates_snapshot_snapshots", ondelete="CASCADE"
        ),
    )
