"""Tests of `tapestry delete` and `tapestry gc`: what they print, delete and refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tapestry.service.store import ImportRequest, Store
from tests.service.conftest import Run, complaint
from tests.service.programs import NOON


@pytest.fixture
def runs(tapestry: Run, document: Path) -> list[str]:
    """Store two runs of one program, and return their ids."""
    limits = ("--evaluations", 200, "--islands", 1, "--quiet", "--verify", "none", "--fresh", "--json")
    return [
        tapestry("optimize", document, "--mesh", "dgx-h100", "--seed", seed, *limits).json["run"]
        for seed in (0, 1)
    ]


def stored(tapestry: Run) -> list[str]:
    return [run["run"] for run in tapestry("show", "--json").json["runs"]]


def test_runs_are_deleted_by_their_ids(tapestry: Run, runs: list[str]) -> None:
    assert tapestry("delete", "run", runs[0], "--json").json == {"kind": "run", "deleted": [runs[0]]}
    assert stored(tapestry) == [runs[1]]
    reported = complaint(tapestry("delete", "run", runs[1], runs[0]))
    assert reported == f"there is no run '{runs[0]}'; deleted before: {runs[1]}"
    assert stored(tapestry) == []


def test_what_is_needed_is_refused(tapestry: Run, runs: list[str]) -> None:
    graph = tapestry("show", runs[0], "--json").json["graph_id"]
    assert complaint(tapestry("delete", "graph", graph)).startswith(f"graph {graph} is needed by run")


def test_what_is_collected_is_shown_before(tapestry: Run, runs: list[str]) -> None:
    dry = tapestry("gc", "--keep-size", "0B", "--dry-run", "--json").json
    assert sorted(dry["runs"]) == sorted(runs) and dry["dry_run"] and dry["size_bytes"] > 0
    assert (
        "2 runs, 0 programs, 0 imports would be deleted: "
        in tapestry("gc", "--keep-size", "0B", "--dry-run").out
    )
    assert tapestry("gc", "--older-than", "1d", "--json").json["runs"] == []
    assert len(stored(tapestry)) == 2
    found = tapestry("gc", "--older-than", "0s", "--compact", "--json").json
    assert sorted(found["runs"]) == sorted(runs) and len(found["graphs"]) == 1 and found["left_bytes"] == 0
    assert stored(tapestry) == []


def test_imports_go_by_their_age_or_by_their_ids_once_they_have_ended(tapestry: Run, home: Path) -> None:
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    how = ImportRequest(True, "", "", {}, (), 2**20, 100, {})
    ended, by_id, waiting = (
        store.imports.submit(store.imports.begin(str(k) * 64, "", how, NOON), NOON) for k in range(3)
    )
    for cancelled in (ended, by_id):
        store.imports.request_cancel(cancelled, NOON)
    assert tapestry("delete", "import", by_id, "--json").json["deleted"] == [by_id]
    assert f"import {waiting} is queued" in complaint(tapestry("delete", "import", waiting))
    assert tapestry("gc", "--older-than", "0s", "--dry-run", "--json").json["imports"] == [ended]
    assert tapestry("gc", "--older-than", "0s", "--json").json["imports"] == [ended]
    assert [found.id for found in store.imports.page()] == [waiting]
    store.close()


def test_what_is_old_is_collected_again_and_again(tapestry: Run, runs: list[str], home: Path) -> None:
    command = [sys.executable, "-m", "tapestry.service.cli", "gc", "--older-than", "0s", "--every", "1s"]
    environment = {**os.environ, "TAPESTRY_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            assert "2 runs, 1 program, 0 imports deleted" in process.stdout.readline()
            assert "0 runs, 0 programs, 0 imports deleted" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert stored(tapestry) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gc",), "say what is to be kept"),
        (("gc", "--older-than", "30"), "expected an age such as 30d, 12h or 15m, not '30'"),
        (("gc", "--keep-size", "much"), "expected a size such as 10GB or 500MiB, not 'much'"),
        (("delete", "mesh", "x"), "there is no kind 'mesh'; known are run, batch, graph, execution, import"),
        (("delete", "run"), "the following arguments are required: ID"),
    ],
)
def test_what_is_not_understood_says_what_would_be(
    tapestry: Run, arguments: tuple[str, ...], message: str
) -> None:
    assert message in complaint(tapestry(*arguments))


def test_what_commands_delete_is_in_the_audit_log(tapestry: Run, home: Path, runs: list[str]) -> None:
    def lines() -> list[tuple[str, str]]:
        found = tapestry("audit", "--json").json["items"]
        assert {(line["actor"], line["tenant"], line["outcome"]) for line in found} <= {
            ("command line", "default", "done")
        }
        return [(line["action"], line["subject"]) for line in found]

    complaint(tapestry("delete", "run", runs[0], "0" * 12))
    assert lines() == [("delete run", runs[0])]
    tapestry("gc", "--older-than", "1d")
    tapestry("gc", "--older-than", "0s", "--dry-run")
    assert len(lines()) == 1
    tapestry("gc", "--older-than", "0s")
    subject = "0 batches, 1 run, 1 program, 0 imports, 0 lines of the audit log"
    assert lines() == [("gc", subject), ("delete run", runs[0])]
    tapestry("gc", "--audit-older-than", "0s")
    assert lines() == [("gc", "0 batches, 0 runs, 0 programs, 0 imports, 2 lines of the audit log")]
