"""Tests of opening a database: every error is one line that names it."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest
from sqlalchemy import Table, event, func, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tapestry.service.settings import database_url, home_folder
from tapestry.service.store import Store, StoreError
from tapestry.service.store.database import open_database
from tapestry.service.store.store import CHECKED_S
from tapestry.service.store.tables import Base, IdempotencyRow
from tests.service.databases import Postgres, file_with_tables
from tests.service.store.clocks import ManualClock


def failure(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        Store(url)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_default_is_a_file_in_the_home_folder(tmp_path: Path) -> None:
    assert database_url({"TAPESTRY_HOME": "/somewhere"}) == "sqlite:////somewhere/tapestry.db"
    assert home_folder({}) == Path.home() / ".local" / "share" / "tapestry"
    assert database_url({"TAPESTRY_DATABASE_URL": "sqlite:///a.db"}) == "sqlite:///a.db"
    assert database_url({"TAPESTRY_DATABASE_URL": "sqlite:///a.db"}, "sqlite:///b.db") == "sqlite:///b.db"


def test_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "store.db"
    Store(f"sqlite:///{path}").close()
    assert path.is_file()


@pytest.mark.parametrize(
    "url", ["", "store.db", "no such thing", "oracle://x", "mysql://x/y", "sqlite://", "://"]
)
def test_urls_of_other_forms(url: str) -> None:
    assert "database" in failure(url)


def test_a_missing_driver_is_named() -> None:
    message = failure("postgresql+psycopg2cffi://user@localhost/name")
    assert "driver is not installed" in message


def test_a_missing_driver_of_ours_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    message = failure("postgresql://user@localhost/name")
    assert message.endswith("its driver, psycopg, is not installed: pip install 'tapestry[postgres]'")


def test_a_place_that_may_not_be_written_to_is_reported_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapestry.service.store.database.os.access", lambda place, mode: mode != os.W_OK)
    assert "its folder cannot be written to" in failure(f"sqlite:///{tmp_path / 'store.db'}")
    assert not (tmp_path / "store.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_means_the_driver_that_comes_along(given: str, postgres: Postgres) -> None:
    url = postgres.create_with_tables()
    engine = open_database(url.replace("postgresql+psycopg", given))
    assert engine.url.drivername == "postgresql+psycopg"
    engine.dispose()
    postgres.drop(url)


def test_a_server_that_is_not_there_is_one_line_without_the_password() -> None:
    message = failure("postgresql://user:hunter2@127.0.0.1:1/name")
    assert "Connection refused" in message and "hunter2" not in message


def test_how_connections_are_set(store_url: str) -> None:
    engine = open_database(store_url)
    requested = {
        "sqlite": {
            "PRAGMA journal_mode": "wal",
            "PRAGMA synchronous": 1,
            "PRAGMA foreign_keys": 1,
            "PRAGMA busy_timeout": 30_000,
        },
        "postgresql": {
            "SHOW transaction_isolation": "read committed",
            "SHOW idle_in_transaction_session_timeout": "1min",
        },
    }[engine.dialect.name]
    with engine.connect() as connection:
        assert {question: connection.scalar(text(question)) for question in requested} == requested
    engine.dispose()


@pytest.mark.slow
def test_a_server_that_was_started_again_is_noticed(postgres: Postgres) -> None:
    url = postgres.create_with_tables()
    engine, other = open_database(url), open_database(url)
    ended = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    with other.connect() as connection:
        assert connection.scalars(ended).all() == [True]
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    engine.dispose()
    other.dispose()
    postgres.drop(url)


def test_passwords_are_not_repeated() -> None:
    assert "hunter2" not in failure("postgresql+psycopg2cffi://user:hunter2@localhost/name")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "it is a folder" in failure(f"sqlite:///{tmp_path}")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot make its folder" in failure(f"sqlite:///{tmp_path / 'file' / 'store.db'}")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("a letter to my aunt\n" * 100)
    assert "file is not a database" in failure(f"sqlite:///{path}")
    assert path.read_text().startswith("a letter")


def test_tables_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE aunts (name TEXT)")
    connection.close()
    assert "holds tables of another program (aunts)" in failure(f"sqlite:///{path}")


def test_readers_do_not_wait_for_writers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert store.runs.page() == ()
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    writer.execute("ROLLBACK")
    writer.close()
    store.close()


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_the_tables_are_tables_of_postgresql_too(table: Table) -> None:
    statement = str(CreateTable(table).compile(dialect=postgresql.dialect()))
    assert f"pk_{table.name}" in statement
    assert all(index.name for index in table.indexes)


def test_a_database_that_cannot_be_written_to_is_not_one_that_is_away(tmp_path: Path) -> None:
    """Check a file that may not grow any more, as on a full disk."""
    clock = ManualClock()
    store = Store(file_with_tables(tmp_path / "full.db"), clock)
    store.check_writes()

    def full(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    event.listen(store._database.engine, "checkout", full)
    store.ping()
    store.check_writes()  # it went well a moment ago
    clock.seconds += CHECKED_S
    with pytest.raises(StoreError, match="refused to write"):
        store.check_writes()
    store.close()


def test_checking_writes_leaves_nothing(store: Store) -> None:
    store.check_writes()
    with store._database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(IdempotencyRow)) == 0
