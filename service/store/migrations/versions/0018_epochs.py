"""Tables of epochs that the worker of a run shares with other workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Create the tables, empty."""
    op.create_table(
        "epochs",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("variant", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("taken_by", sa.Text(), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "attempt", "number", name="pk_epochs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_epochs_run_id_runs", ondelete="CASCADE"),
    )
    op.create_table(
        "epoch_variants",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "token", name="pk_epoch_variants"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_epoch_variants_run_id_runs", ondelete="CASCADE"
        ),
    )
