"""Tests of the script by which containers copy the database: PostgreSQL's own programs, and a folder of copies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tapestry.service.store import Store
from tests.project.source import ROOT
from tests.service.conftest import Run
from tests.service.databases import Postgres
from tests.service.programs import finished_run, two_layers

SCRIPT = ROOT / "deploy" / "compose" / "backup.sh"


def copied(folder: Path, programs: Path | str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the script once."""
    own = {"BACKUP_FOLDER": str(folder), "BACKUP_EVERY_S": "0", "BACKUP_KEEP": "2", **settings}
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", **own}
    return subprocess.run(["sh", SCRIPT], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_the_script_makes_copies_that_can_be_restored_and_keeps_the_newest(
    tapestry: Run, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_with_tables()
    store = Store(url)
    run_id = store.runs.save_finished(finished_run(two_layers()))
    store.close()
    for name in ("tapestry-20200101T000000Z.dump", "tapestry-20210101T000000Z.dump", "notes.dump"):
        (tmp_path / name).touch()
    place, _, host = url.partition("?host=")
    server = {"PGHOST": host, "PGUSER": "postgres", "PGDATABASE": place.rpartition("/")[2]}
    answer = copied(tmp_path, postgres.programs, **server)
    assert answer.returncode == 0, answer.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["notes.dump", "tapestry-20210101T000000Z.dump"] and len(names) == 3

    monkeypatch.setenv("PATH", f"{postgres.programs}:{os.environ['PATH']}")
    target = postgres.create()
    assert tapestry("restore", tmp_path / names[2], "--database-url", target).code == 0
    restored = Store(target)
    assert restored.runs.get(run_id).status == "succeeded"
    restored.close()


def test_a_copy_that_fails_leaves_the_old_ones(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pg_dump"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    for year in (2020, 2021, 2022):
        (tmp_path / f"tapestry-{year}0101T000000Z.dump").touch()
    answer = copied(tmp_path, tmp_path / "bin")
    assert (answer.returncode, answer.stderr) == (1, "no copy was made\n")
    assert len(list(tmp_path.glob("tapestry-*"))) == 3
