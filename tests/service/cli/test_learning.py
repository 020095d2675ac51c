"""Tests of runs that learn from earlier ones: on the command line, recorded, and repeated exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.conftest import Run, complaint

BUDGET = (
    "--mesh",
    "dgx-h100",
    "--evaluations",
    2000,
    "--islands",
    1,
    "--quiet",
    "--verify",
    "none",
    "--json",
)


def test_a_run_records_its_prior_and_repeats_with_it(tapestry: Run, document: Path) -> None:
    assert (
        tapestry("rules", "--learned").out
        == "nothing has been learned yet: no run of this release is stored\n"
    )
    first = tapestry("optimize", document, *BUDGET, "--seed", 1).json
    assert tapestry("show", first["run"], "--json").json["prior"] == "none"
    learned = tapestry("rules", "--learned", "--json").json
    assert learned["prior"] == 1
    assert {row["snapshot"] for row in learned["snapshots"]} == {1}
    assert {row["mesh_kind"] for row in learned["rules"]} == {"1 axis"}
    assert sum(row["credit"] for row in learned["rules"]) > 0
    assert 0 <= sum(row["volume"] for row in learned["rules"]) <= 1

    second = tapestry("optimize", document, *BUDGET, "--prior", "latest").json
    assert tapestry("show", second["run"], "--json").json["prior"] == "1"
    assert tapestry("rules", "--learned", "--json").json["prior"] == 2
    again = tapestry("optimize", document, *BUDGET, "--prior", 1, "--fresh").json
    assert again["run"] != second["run"]
    for member in ("id", "cost"):
        assert [plan[member] for plan in again["frontier"]] == [plan[member] for plan in second["frontier"]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--prior", "newest"), "--prior: expected latest, none or the number of a snapshot, not 'newest'"),
        (("--prior", "0"), "--prior: expected latest, none or the number of a snapshot, not '0'"),
        (("--prior", "3"), "there is no prior 3; `tapestry rules --learned` names the newest"),
        (
            ("--prior", "latest", "--no-store"),
            "--no-store reads no prior; leave out --no-store or --prior latest",
        ),
    ],
)
def test_a_prior_that_cannot_be_read_is_refused(
    tapestry: Run, document: Path, options: tuple[str, ...], text: str
) -> None:
    answer = tapestry("optimize", document, *BUDGET, *options)
    assert answer.code == 2
    assert text in complaint(answer)
