"""The schema of a database: its current revision, and the upgrade to the one this program works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.schema import PrimaryKeyConstraint

from tapestry.service.store.migrations import FIRST, HEAD, REVISIONS
from tapestry.service.store.tables import Base

VERSIONS = Table(
    "alembic_version",  # Alembic's own table, exactly as it makes it
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
FIRST_RELEASE = "schema_version"  # the table by which databases made before there were migrations are known
OURS = "runs"
LOCK = 0x7461706573747279  # "tapestry": the number by which openers of a PostgreSQL database take turns


class UnusableTables(Exception):
    """Error raised if this program cannot work with the database's tables; the message continues after its name."""


def prepare_tables(engine: Engine) -> None:
    """Create the tables of an empty database, upgrade older ones, and leave current ones alone.

    Several processes may do so at once: one does the work, the others wait for it.
    """
    if _is_up_to_date(engine):
        return
    with turn(engine) as connection:
        found = revision_of(connection)
        if found is None:
            Base.metadata.create_all(connection)
            VERSIONS.create(connection)
            connection.execute(VERSIONS.insert().values(version_num=HEAD))
        elif found != HEAD:
            _upgrade(connection, found)


def _is_up_to_date(engine: Engine) -> bool:
    """Return whether the tables are up to date, without waiting for the lock; False during another's upgrade."""
    try:
        with engine.connect() as connection:
            return revision_of(connection) == HEAD
    except ProgrammingError:
        return False


def _upgrade(connection: Connection, found: str) -> None:
    """Apply the missing migrations. Alembic is loaded only here, since nearly always there are none."""
    try:
        import_module("tapestry.service.store.migrations.upgrade").upgrade(connection, found)
    except (
        Exception
    ) as error:  # whatever a step meets in the rows: the transaction ends, and nothing has changed
        raise UnusableTables(
            f"could not be brought up to date from version {found} to {HEAD} and is as it was: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error


def revision_of(connection: Connection) -> str | None:
    """Return the revision of our tables in this database; None if it is empty.

    Raises:
        UnusableTables: tables of another program, or of a newer release of this one.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if OURS not in tables or not tables & {VERSIONS.name, FIRST_RELEASE}:
        raise UnusableTables(
            f"holds tables of another program ({', '.join(sorted(tables)[:3])}); give one of its own"
        )
    if VERSIONS.name not in tables:
        found = [str(n) for n in connection.scalars(text(f"SELECT version FROM {FIRST_RELEASE}"))]
        known = {"1": FIRST}
    else:
        found = list(connection.scalars(select(VERSIONS.c.version_num)))
        known = {revision: revision for revision in REVISIONS}
    if len(found) != 1 or found[0] not in known:
        raise UnusableTables(
            f"has tables of version {', '.join(found) or 'none'}, this program knows versions up to {HEAD}; "
            "use the newer release of Tapestry that made them, "
            f"take them back by its `tapestry downgrade {HEAD}`, or use another database"
        )
    return known[found[0]]


@contextmanager
def turn(engine: Engine) -> Iterator[Connection]:
    """Run a transaction in which only this process changes tables; everything in it is kept, or nothing."""
    with engine.connect().execution_options(writes=True) as connection:
        if engine.dialect.name == "sqlite":
            _disable_foreign_keys(connection)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            yield connection
            if engine.dialect.name == "sqlite":
                _check_references(connection)


def _disable_foreign_keys(connection: Connection) -> None:
    """Disable foreign keys: SQLite replaces a changed table, and would delete all rows that refer to the old one.

    The setting can only be changed between transactions; the connection is not used again for anything else.
    """
    connection.detach()
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    cursor.close()


def _check_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    assert not broken, f"rows refer to rows that are not there: {broken[:3]}"
