"""Tests of temporary files of servers and workers: in a folder of their own, which is always removed in the end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tapestry.service.temporary import temporary_folder

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from tapestry.service.temporary import temporary_folder
with temporary_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def owner_in(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has a temporary folder; return the process and the folder."""
    command = [sys.executable, "-c", OWNER, str(place)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_temporary_files_lie_in_it_and_go_with_it(place: Path) -> None:
    with temporary_folder() as folder, tempfile.TemporaryDirectory() as inner:
        assert Path(inner).parent == folder
    assert list(place.iterdir()) == []
    assert tempfile.gettempdir() == str(place)


def test_the_folder_of_a_killed_worker_is_removed_and_that_of_a_living_one_is_not(place: Path) -> None:
    living, kept = owner_in(place)
    dead, left = owner_in(place)
    dead.kill()
    dead.wait()
    assert left.exists()
    with temporary_folder():
        assert kept.exists()
        assert not left.exists()
    living.communicate()
    assert list(place.iterdir()) == []
