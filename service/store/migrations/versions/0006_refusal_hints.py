"""The advice on a disabled rule is called `hint` in records of runs and in their events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

OLD, NEW = "cure", "hint"
RUNS = sa.table("runs", sa.column("id"), sa.column("refused", sa.JSON))
EVENTS = sa.table(
    "events", sa.column("run_id"), sa.column("number"), sa.column("kind"), sa.column("data", sa.JSON)
)


def upgrade() -> None:
    """Rename the key in the disabled rules of every run and in the events that report them."""
    bind = op.get_bind()
    for run in bind.execute(sa.select(RUNS)).all():
        if run.refused:
            bind.execute(RUNS.update().where(RUNS.c.id == run.id).values(refused=_renamed(run.refused)))
    for event in bind.execute(sa.select(EVENTS).where(EVENTS.c.kind == "refused")).all():
        this = (EVENTS.c.run_id == event.run_id) & (EVENTS.c.number == event.number)
        bind.execute(EVENTS.update().where(this).values(data=_renamed(event.data)))


def _renamed(refusals: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{NEW if key == OLD else key: value for key, value in refusal.items()} for refusal in refusals]
