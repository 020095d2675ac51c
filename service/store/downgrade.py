"""Taking the tables of a database back to those of an earlier release, unless that would lose something."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from tapestry.service.store.database import StoreError, connect, database_url_of, reason, shown
from tapestry.service.store.migrations import REVISIONS
from tapestry.service.store.migrations.steps_back import OLDEST, LostRows, losses, names_of_losses, step_back
from tapestry.service.store.schema import UnusableTables, revision_of, turn
from tapestry.teg.brief import counted

OTHERS_WAIT_S = 5.0  # connections of processes that were just stopped take a moment to end
LOOK_S = 0.1
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND usesysid IS NOT NULL AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Downgrade:
    """The versions of a database's tables before and after, and what was lost, as that was accepted."""

    database: str
    before: str
    after: str
    lost: tuple[LostRows, ...]


def downgrade(url_text: str, target: str, accepted: Collection[str]) -> Downgrade:
    """Take the tables back to a version, in one transaction, if no row loses anything but what is `accepted`.

    `accepted` are names of losses (`LostRows.name`).

    Raises:
        StoreError: no such version or database, rows that would lose something, others who use the database, or a
            failure; nothing has changed then.
    """
    url = database_url_of(url_text)
    _refuse_unknown(target, accepted)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise StoreError(f"there is no database {shown(url)}")
    engine = connect(url)
    try:
        # Before the others are waited for: who has not stopped the service learns what would be lost, too.
        with engine.connect() as connection:
            found, lost = _checked(connection, url, target, accepted)
        if found == target:
            return Downgrade(shown(url), found, target, ())
        _wait_for_others(engine, url)
        with turn(engine) as connection:
            found, lost = _checked(connection, url, target, accepted)
            step_back(connection, found, target)
    except UnusableTables as error:
        raise StoreError(f"database {shown(url)} {error}") from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        message = f"database {shown(url)} could not be taken back to version {target} and is as it was"
        raise StoreError(f"{message}: {reason(error)}") from error
    finally:
        engine.dispose()
    return Downgrade(shown(url), found, target, lost)


def _refuse_unknown(target: str, accepted: Collection[str]) -> None:
    if target not in REVISIONS:
        raise StoreError(f"there are no tables of version {target!r}; known are {OLDEST} to {REVISIONS[-1]}")
    if target < OLDEST:
        raise StoreError(
            f"the way back ends at version {OLDEST}: tables of before it have another form; restore a copy of then"
        )
    unknown = sorted(set(accepted) - names_of_losses())
    if unknown:
        raise StoreError(f"nothing is called {', '.join(unknown)} that a way back could lose")


def _checked(
    connection: Connection, url: URL, target: str, accepted: Collection[str]
) -> tuple[str, tuple[LostRows, ...]]:
    """Return the version of the tables, and what of the way back to `target` is lost and accepted; or refuse it."""
    found = revision_of(connection)
    if found is None or found < target:
        tables = "no tables" if found is None else f"tables of version {found}"
        raise StoreError(
            f"database {shown(url)} has {tables}, and {target} is newer: a release upgrades what it opens"
        )
    lost = losses(connection, found, target)
    refused = [loss for loss in lost if loss.name not in accepted or not loss.may_be_accepted]
    if refused:
        raise StoreError(_refusal(url, target, refused))
    return found, lost


def _refusal(url: URL, target: str, refused: list[LostRows]) -> str:
    rows = ", ".join(f"{loss.name} ({counted(loss.rows, 'row')})" for loss in refused)
    remedies = ["delete these rows", "restore a copy that was made before the upgrade"]
    if all(loss.may_be_accepted for loss in refused):
        options = " ".join(f"--lose {loss.name}" for loss in refused)
        remedies.append(f"lose this by {options}")
    return (
        f"database {shown(url)} is as it was: tables of version {target} have no place for {rows}; "
        f"{', '.join(remedies[:-1])} or {remedies[-1]}"
    )


def _wait_for_others(engine: Engine, url: URL) -> None:
    """Wait for a moment until nobody else has the database open; raises StoreError if somebody goes on."""
    until_s = time.monotonic() + OTHERS_WAIT_S
    while _is_used_by_others(engine):
        if time.monotonic() > until_s:
            raise StoreError(
                f"database {shown(url)} is as it was: others have it open; stop servers, workers and backups first"
            )
        time.sleep(LOOK_S)


def _is_used_by_others(engine: Engine) -> bool:
    """Return whether there are other connections: a server counts them, and a file can tell by its journal.

    SQLite gives the write-ahead log up for the last connection only. Whoever opens the file next waits for what this
    one writes, and brings the log back.
    """
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            return bool(connection.execute(text(OTHERS)).scalar_one())
    with closing(engine.raw_connection()) as connection:
        try:
            journal: tuple[str] = connection.cursor().execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return True
    return journal != ("delete",)
