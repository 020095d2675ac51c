"""Upgrading the tables of a database, in a transaction that the caller opened."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect

_ONE_AT_A_TIME = Lock()  # Alembic keeps what it works on in globals


def upgrade(connection: Connection, found: str | None, target: str = "head") -> None:
    """Apply the migrations after `found`, the revision of the existing tables (None: no tables), up to `target`."""
    config = configuration(connection)
    with _ONE_AT_A_TIME:
        if found is not None and not inspect(connection).has_table("alembic_version"):
            command.stamp(config, found)
        command.upgrade(config, target)


def configuration(connection: Connection) -> Config:
    """Build Alembic's settings, without a file: the folder of migrations, and the connection to apply them on."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
