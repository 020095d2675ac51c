"""Tests of `tapestry restore`, and of copies that are made again and again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tapestry.service.store import Store
from tapestry.service.store.backup import dated_file, prune
from tapestry.service.store.migrations import HEAD
from tapestry.service.store.migrations.upgrade import upgrade
from tests.service.conftest import Run, complaint
from tests.service.databases import file_with_tables
from tests.service.processes import eventually
from tests.service.programs import NOON, finished_run, two_layers


@pytest.fixture
def copy(tapestry: Run, tmp_path: Path) -> Path:
    """Return a copy of a database with a finished run, and an unfinished one that a worker had."""
    url = file_with_tables(tmp_path / "store.db")
    store = Store(url)
    run_id = store.runs.save_finished(finished_run(two_layers()))
    request = store.runs.request(run_id)
    store.runs.submit(request, NOON)
    assert store.jobs.claim("ada", NOON, 60.0) is not None
    store.workers.beat("ada", NOON, host="h", pid=1, status="busy", subject=None)
    store.close()
    assert tapestry("backup", tmp_path / "copy.db", "--database-url", url).code == 0
    return tmp_path / "copy.db"


def test_what_a_worker_had_is_free_at_once(tapestry: Run, copy: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'restored.db'}"
    answer = tapestry("restore", copy, "--database-url", url)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        f"{str(tmp_path / 'new' / 'restored.db')!r}: 2 runs, 2 plans, 1 program restored",
        "1 job had not ended; the next worker goes on with it",
    ]
    store = Store(url)
    job = store.jobs.claim("bob", NOON, 60.0)
    assert job is not None and (job.attempt, job.owner) == (2, "bob")
    assert store.workers.alive(60.0) == ()
    store.close()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["restored.db"]


def test_nothing_is_overwritten(tapestry: Run, copy: Path, tmp_path: Path) -> None:
    used = tmp_path / "used.db"
    url = file_with_tables(used)
    before = used.read_bytes()
    assert "is not empty, and nothing in it is overwritten" in complaint(
        tapestry("restore", copy, "--database-url", url)
    )
    assert used.read_bytes() == before
    letter = tmp_path / "letter.db"
    letter.write_text("a letter to my aunt\n" * 100)
    assert "not a database" in complaint(tapestry("restore", copy, "--database-url", f"sqlite:///{letter}"))
    log = Path(f"{tmp_path / 'gone.db'}-wal")
    log.write_bytes(b"pages")
    assert "is left of another database" in complaint(
        tapestry("restore", copy, "--database-url", f"sqlite:///{tmp_path / 'gone.db'}")
    )
    assert not (tmp_path / "gone.db").exists()


def test_an_empty_file_is_an_empty_database(tapestry: Run, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    answer = tapestry("restore", copy, "--database-url", f"sqlite:///{tmp_path / 'empty.db'}", "--json")
    assert (answer.json["runs"], answer.json["plans"], answer.json["unfinished"]) == (2, 2, 1)


def test_what_is_no_copy_is_refused(tapestry: Run, tmp_path: Path) -> None:
    letter, other = tmp_path / "letter", tmp_path / "other.db"
    letter.write_text("a letter to my aunt\n")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE aunts (name TEXT)")
        connection.commit()
    target = f"sqlite:///{tmp_path / 'new.db'}"
    for path, message in (
        (tmp_path / "missing", "cannot read the copy"),
        (letter, "no copy that `tapestry backup` made"),
        (other, "is not a database of Tapestry"),
    ):
        assert message in complaint(tapestry("restore", path, "--database-url", target))
    assert not (tmp_path / "new.db").exists()


def test_a_copy_of_a_newer_release_is_refused_and_leaves_nothing(
    tapestry: Run, copy: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
        connection.commit()
    answer = tapestry("restore", copy, "--database-url", f"sqlite:///{tmp_path / 'new.db'}")
    assert f"version 0099, this program knows versions up to {HEAD}" in complaint(answer)
    assert not (tmp_path / "new.db").exists()


def test_a_copy_of_an_older_release_is_upgraded(tapestry: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{old}")
    with engine.begin() as connection:
        upgrade(connection, None, "0022")
    engine.dispose()
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert tapestry("restore", old, "--database-url", url).code == 0
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == HEAD
    engine.dispose()


def test_a_copy_is_restored_into_its_own_kind(tapestry: Run, copy: Path, tmp_path: Path) -> None:
    dump = tmp_path / "copy.dump"
    dump.write_bytes(b"PGDMP\x01\x0e")
    url = "postgresql://anna:hunter2@localhost/tapestry"
    message = complaint(tapestry("restore", copy, "--database-url", url))
    assert "is a copy of a database of sqlite" in message and "hunter2" not in message
    message = complaint(tapestry("restore", dump, "--database-url", f"sqlite:///{tmp_path / 'new.db'}"))
    assert "is a copy of a database of postgresql" in message and "postgresql://user@host/name" in message


def test_the_newest_copies_are_kept_and_nothing_else_is_touched(tmp_path: Path) -> None:
    copies = [
        dated_file("sqlite:///x.db", tmp_path, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=k))
        for k in range(5)
    ]
    others = [
        tmp_path / name for name in ("notes.db", "tapestry-20200101.db", ".tapestry-20260101T000000Z.db.x")
    ]
    for path in (*copies, *others):
        path.touch()
    assert copies[0].name == "tapestry-20260101T000000Z.db"
    assert prune(tmp_path, 2) == tuple(copies[:3])
    assert sorted(tmp_path.iterdir()) == sorted([*copies[3:], *others])
    assert prune(tmp_path, 2) == ()


def test_a_folder_gets_dated_copies(tapestry: Run, tmp_path: Path) -> None:
    url, folder = file_with_tables(tmp_path / "store.db"), tmp_path / "copies"
    folder.mkdir()
    old = dated_file(url, folder, datetime(2020, 1, 1, tzinfo=UTC))
    old.touch()
    answer = tapestry("backup", folder, "--keep", 1, "--database-url", url, "--json")
    assert answer.json["deleted"] == [str(old)]
    assert [str(path) for path in folder.iterdir()] == [answer.json["file"]]
    for option in (("--keep", 3), ("--every", "1h")):
        message = complaint(tapestry("backup", tmp_path / "copy.db", *option, "--database-url", url))
        assert "need a folder" in message


def test_copies_are_repeated_until_the_end_also_after_a_failure(tmp_path: Path) -> None:
    database, folder = tmp_path / "store.db", tmp_path / "copies"
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "tapestry.service.cli",
        "backup",
        str(folder),
        "--every",
        "1s",
        "--keep",
        "2",
    ]
    environment = {**os.environ, "TAPESTRY_DATABASE_URL": f"sqlite:///{database}"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    try:
        assert process.stderr is not None
        assert b"there is no database" in process.stderr.readline()
        file_with_tables(database)
        made: set[str] = set()

        def copied() -> bool:
            made.update(path.name for path in folder.glob("tapestry-*.db"))
            return len(made) >= 3

        eventually(copied, 60, "three copies were made")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert len(list(folder.glob("tapestry-*.db"))) == 2
