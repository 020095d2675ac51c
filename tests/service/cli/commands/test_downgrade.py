"""Tests of `tapestry downgrade`: what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.service.store.downgrade import downgrade
from tapestry.service.store.migrations import HEAD
from tapestry.service.store.migrations.steps_back import OLDEST
from tests.service.conftest import Run, complaint
from tests.service.databases import file_with_tables
from tests.service.store.test_downgrade import filled, version


def test_the_command_says_what_it_did(tapestry: Run, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    at = ("--database-url", file_with_tables(path))
    with filled(at[1]):
        pass
    assert "no place for graphs.family (1 row); delete" in complaint(tapestry("downgrade", "0016", *at))
    done = tapestry("downgrade", "0016", *at, "--lose", "graphs.family")
    assert done.out.splitlines() == [
        f"{str(path)!r}: tables of version {HEAD} -> 0016",
        "lost: graphs.family (1 row)",
    ]
    assert tapestry("downgrade", "0016", *at).out == f"{str(path)!r}: tables of version 0016 already\n"
    answer = tapestry("downgrade", "0015", *at, "--json").json
    assert answer == {"database": repr(str(path)), "before": "0016", "after": "0015", "lost": []}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0099",), f"there are no tables of version '0099'; known are {OLDEST} to {HEAD}"),
        (("0008",), f"the way back ends at version {OLDEST}"),
        (("0030", "--lose", "aunts"), "nothing is called aunts that a way back could lose"),
        (("0030",), "has tables of version 0022, and 0030 is newer: a release upgrades what it opens"),
        (("0022", "--database-url", "sqlite:///nowhere.db"), "there is no database 'nowhere.db'"),
    ],
)
def test_what_is_no_way_back_is_refused(
    tapestry: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    url = file_with_tables(tmp_path / "store.db")
    downgrade(url, "0022", ())
    assert message in complaint(tapestry("downgrade", "--database-url", url, *arguments))
    assert version(url) == "0022" and not Path("nowhere.db").exists()
