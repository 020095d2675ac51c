"""Opening a database: what can be wrong is one line that names it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from service.settings import database_url, home_folder
from service.store import Store, StoreError
from service.store.migrations import HEAD
from service.store.tables import Base


def failure(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        Store(url)
    text = str(caught.value)
    assert "\n" not in text
    return text


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
    text = failure("postgresql+psycopg2cffi://user@localhost/name")
    assert "driver is not installed" in text


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


def test_tables_of_a_newer_release(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
    connection.close()
    assert f"has tables of version 0099, this program knows versions up to {HEAD}" in failure(
        f"sqlite:///{path}"
    )


def test_readers_do_not_wait_for_writers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert store.runs() == ()
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    writer.execute("ROLLBACK")
    writer.close()
    store.close()


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_the_tables_are_tables_of_postgresql_too(table: Table) -> None:
    text = str(CreateTable(table).compile(dialect=postgresql.dialect()))
    assert f"pk_{table.name}" in text
    assert all(index.name for index in table.indexes)
