"""Write a new migration step from what changed in the tables: `python -m tapestry.service.store.migrations MESSAGE`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command
from sqlalchemy import create_engine

from tapestry.service.store.migrations import HEAD, REVISIONS
from tapestry.service.store.migrations.upgrade import configuration


def main(message: str) -> None:
    """Compare the tables of the newest migration with those of `tables.py`, and write the difference into a file."""
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{Path(folder) / 'newest.db'}")
        with engine.connect() as connection, connection.begin():
            config = configuration(connection)
            command.upgrade(config, HEAD)
            command.revision(config, message, autogenerate=True, rev_id=f"{len(REVISIONS) + 1:04}")
        engine.dispose()
    print(
        "now make it readable, let it move the data, add its number to REVISIONS, and what it added to STEPS_BACK"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].strip():
        sys.exit('say what the step does: make migration MESSAGE="plans know their author"')
    main(sys.argv[1].strip())
