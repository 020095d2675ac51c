"""A column of plans for the version of the cost model; artifacts, which hold costs and counts of it, are made again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

UNVERSIONED = 1
PLANS = sa.table("plans", sa.column("cost_model", sa.Integer))
ARTIFACTS = sa.table("artifacts")


def upgrade() -> None:
    """Add the column, 1 for the existing plans, and delete what was rendered from these."""
    op.add_column("plans", sa.Column("cost_model", sa.Integer))
    op.get_bind().execute(PLANS.update().values(cost_model=UNVERSIONED))
    with op.batch_alter_table("plans") as plans:
        plans.alter_column("cost_model", existing_type=sa.Integer(), nullable=False)
    op.get_bind().execute(sa.delete(ARTIFACTS))
