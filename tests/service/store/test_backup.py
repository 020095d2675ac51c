"""Tests of `tapestry backup`: one file that holds a moment of the database, made while others write."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, insert, select

from tapestry.service.store import Store
from tapestry.service.store.database import open_database, writing
from tapestry.service.store.tables import GraphRow
from tests.service.conftest import Run, complaint
from tests.service.databases import Postgres
from tests.service.programs import NOON, finished_run, two_layers


def add_graphs(engine: Engine, first: int, count: int) -> None:
    """Add some rows in one transaction: a copy holds all of them or none."""
    with writing(engine).begin() as connection:
        for number in range(first, first + count):
            connection.execute(
                insert(GraphRow).values(
                    id=f"{number:032x}",
                    tenant="default",
                    name=f"graph {number}",
                    structural_hash="0" * 64,
                    blocks=1,
                    document=os.urandom(2000),
                    lacks_values=False,
                    is_given=True,
                    created_at=NOON,
                )
            )


def graphs_in(url: str) -> int:
    engine = open_database(url)
    with engine.connect() as connection:
        found = connection.scalar(select(func.count()).select_from(GraphRow)) or 0
    engine.dispose()
    return found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    engine = open_database(f"sqlite:///{path}")
    add_graphs(engine, 0, 5)
    engine.dispose()
    return path


def test_a_copy_is_a_database_by_itself(tapestry: Run, database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    answer = tapestry("backup", copy, "--database-url", f"sqlite:///{database}")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[1].startswith("restore: ")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy.db"]
    assert graphs_in(f"sqlite:///{copy}") == 5


def test_a_copy_holds_the_runs(tapestry: Run, database: Path, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{database}")
    run_id = store.runs.save_finished(finished_run(two_layers()))
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    assert tapestry("backup", tmp_path / "copy.db", "--database-url", f"sqlite:///{database}").code == 0
    other = Store(copy)
    assert other.runs.find(run_id) == store.runs.find(run_id)
    assert other.runs.frontier(run_id) == store.runs.frontier(run_id) != ()
    other.close()
    store.close()


def test_the_default_database_and_json(tapestry: Run, home: Path, tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{home / 'tapestry.db'}")
    add_graphs(engine, 0, 1)
    answer = tapestry("backup", tmp_path / "copy.db", "--json")
    assert answer.json["file"] == str(tmp_path / "copy.db")
    assert (answer.json["kind"], answer.json["size_bytes"]) == (
        "sqlite",
        (tmp_path / "copy.db").stat().st_size,
    )
    assert set(answer.json) == {"file", "kind", "size_bytes", "restore", "deleted"}
    engine.dispose()


def test_a_copy_made_while_others_write_holds_whole_transactions(
    tapestry: Run, database: Path, tmp_path: Path
) -> None:
    engine = open_database(f"sqlite:///{database}")
    written, enough = threading.Event(), threading.Event()

    def write() -> None:
        for batch in range(100_000):
            add_graphs(engine, 1000 + 3 * batch, 3)
            written.set()
            if enough.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(30)
        copies = [tmp_path / f"copy{number}.db" for number in range(4)]
        for copy in copies:
            answer = tapestry("backup", copy, "--database-url", f"sqlite:///{database}")
            assert answer.code == 0, answer.err
    finally:
        enough.set()
        writer.join()
        engine.dispose()
    counts = [graphs_in(f"sqlite:///{copy}") for copy in copies]
    assert [count % 3 for count in counts] == [5 % 3] * 4
    assert 5 < counts[0] <= counts[1] <= counts[2] <= counts[3] <= graphs_in(f"sqlite:///{database}")


def test_nothing_is_replaced_unless_requested(tapestry: Run, database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("a letter")
    url = f"sqlite:///{database}"
    assert "exists already" in complaint(tapestry("backup", copy, "--database-url", url))
    assert copy.read_text() == "a letter"
    assert tapestry("backup", copy, "--force", "--database-url", url).code == 0
    assert graphs_in(f"sqlite:///{copy}") == 5


def test_the_database_never_replaces_itself(tapestry: Run, database: Path) -> None:
    answer = tapestry("backup", database, "--force", "--database-url", f"sqlite:///{database}")
    assert "is the database itself" in complaint(answer)
    assert graphs_in(f"sqlite:///{database}") == 5


def test_what_is_no_database_of_ours_is_reported_and_leaves_no_file(tapestry: Run, tmp_path: Path) -> None:
    missing, letter, other = (tmp_path / name for name in ("missing.db", "letter.db", "other.db"))
    letter.write_text("a letter to my aunt\n" * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE aunts (name TEXT)")
        connection.commit()
    expected = (
        (missing, "there is no database"),
        (letter, "not a database"),
        (other, "database of Tapestry"),
    )
    for path, message in expected:
        answer = tapestry("backup", tmp_path / "copy.db", "--database-url", f"sqlite:///{path}")
        assert message in complaint(answer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.db", "other.db"]


def test_a_damaged_database_is_not_copied(tapestry: Run, database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'graphs'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(database.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    database.write_bytes(content)
    answer = tapestry("backup", tmp_path / "copy.db", "--database-url", f"sqlite:///{database}")
    assert "database" in complaint(answer)
    assert not (tmp_path / "copy.db").exists()


def test_a_folder_that_is_not_there(tapestry: Run, database: Path, tmp_path: Path) -> None:
    answer = tapestry("backup", tmp_path / "none" / "copy.db", "--database-url", f"sqlite:///{database}")
    assert "No such file or directory" in complaint(answer)


@pytest.mark.slow
def test_postgresql_is_dumped_and_restored(
    tapestry: Run, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{postgres.programs}:{os.environ['PATH']}")
    url, archive = postgres.create_with_tables(), tmp_path / "copy.dump"
    engine = open_database(url)
    add_graphs(engine, 0, 7)
    engine.dispose()
    with_password = url.replace("postgres@", "postgres:hunter2@")
    answer = tapestry("backup", archive, "--database-url", with_password)
    assert answer.code == 0, answer.err
    assert "tapestry restore" in answer.out and "hunter2" not in answer.out
    restored = postgres.create()
    answer = tapestry("restore", archive, "--database-url", restored)
    assert answer.code == 0 and "0 runs, 0 plans, 7 programs restored" in answer.out, answer.err
    assert graphs_in(restored) == 7
    assert "is not empty" in complaint(tapestry("restore", archive, "--database-url", restored))


def test_the_password_is_on_no_command_line(
    tapestry: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/message\necho "$PGPASSWORD" > {tmp_path}/known\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    url = "postgresql://anna:hunter2@db.example:5433/tapestry?sslmode=require"
    assert tapestry("backup", tmp_path / "copy.dump", "--database-url", url).code == 0
    message = (tmp_path / "message").read_text()
    assert "hunter2" not in message
    for part in ("host=db.example", "port=5433", "user=anna", "dbname=tapestry", "sslmode=require"):
        assert part in message
    assert (tmp_path / "known").read_text() == "hunter2\n"


def test_without_pg_dump_the_hint_is_named(
    tapestry: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    url = "postgresql://anna:hunter2@localhost/tapestry"
    text = complaint(tapestry("backup", tmp_path / "copy.dump", "--database-url", url))
    assert "postgresql-client" in text and "hunter2" not in text


@pytest.mark.slow
def test_what_pg_dump_says_is_passed_on(
    tapestry: Run, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{postgres.programs}:{os.environ['PATH']}")
    answer = tapestry("backup", tmp_path / "copy.dump", "--database-url", postgres.url("nonesuch"))
    assert 'database "nonesuch" does not exist' in complaint(answer)
    assert list(tmp_path.glob("*copy*")) == []
