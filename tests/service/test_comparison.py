"""Tests of two frontiers side by side: figures worked out by hand, and the command that prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.service.comparison import compare
from tapestry.teg.document import save
from tests.service.conftest import Run, complaint
from tests.teg.test_family import stack

pytestmark = pytest.mark.slow


def costs(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"time_s": time_s, "traffic_bytes": traffic} for time_s, traffic in points]


def test_figures_of_two_small_frontiers() -> None:
    first, second = costs((1.0, 4.0), (4.0, 1.0)), costs((1.0, 4.0), (2.0, 2.0), (3.0, 1.0))
    one, other = compare(first, second, ("time_s", "traffic_bytes"))

    reference = 4.4  # 1.1 times the worst of both, in either objective
    # two rectangles, 3.4 x 0.4 and 0.4 x 3.4, that overlap in 0.4 x 0.4
    first_area = 2 * (reference - 1) * (reference - 4) - (reference - 4) ** 2
    assert one.hypervolume == pytest.approx(first_area / reference**2)
    assert other.hypervolume > one.hypervolume
    assert (one.plans, other.plans) == (2, 3)
    assert one.best == other.best == {"time_s": 1.0, "traffic_bytes": 1.0}
    assert (one.covered, one.strictly_better) == (1.0, 0)
    assert (other.covered, other.strictly_better) == (pytest.approx(1 / 3), 2)


def test_equal_frontiers_cover_each_other() -> None:
    same = costs((1.0, 2.0), (2.0, 1.0))
    one, other = compare(same, same, ("time_s", "traffic_bytes"))
    assert one == other
    assert (one.covered, one.strictly_better) == (1.0, 0)


@pytest.mark.parametrize(
    ("first", "second", "objectives", "message"),
    [
        ([], costs((1.0, 1.0)), ("time_s",), "a run without plans"),
        (costs((1.0, 1.0)), costs((1.0, 1.0)), (), "no objective in common"),
    ],
)
def test_what_cannot_be_compared(
    first: list[dict[str, float]], second: list[dict[str, float]], objectives: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compare(first, second, objectives)


@pytest.fixture
def searched(tapestry: Run, document: Path) -> str:
    """Run a search of a small program that is stored, and return its id."""
    return optimized(tapestry, document, "--evaluations", "3000")


def optimized(tapestry: Run, document: Path, *options: str) -> str:
    answer = tapestry(
        *(
            "optimize",
            document,
            "--mesh",
            "dgx-h100",
            "--islands",
            1,
            "--verify",
            "none",
            "--json",
            "--quiet",
        ),
        *options,
    )
    assert answer.code == 0, answer.err
    return str(answer.json["run"])


def test_a_run_compared_with_another(tapestry: Run, document: Path, searched: str) -> None:
    other = optimized(tapestry, document, "--evaluations", "3000", "--objectives", "time_s,traffic_bytes")
    answer = tapestry("compare", searched, other[:8], "--json")
    assert answer.code == 0
    assert answer.json["objectives"] == ["time_s", "traffic_bytes"]
    assert [run["run"] for run in answer.json["runs"]] == [searched, other]
    assert [line.partition(":")[0] for line in answer.json["differences"]] == ["objectives"]
    assert all(0 < run["hypervolume"] <= 1 for run in answer.json["runs"])

    table = tapestry("compare", searched, other).out
    assert "not the same: objectives" in table
    assert "least traffic" in table


def test_every_option_that_differs_is_reported(
    tapestry: Run, document: Path, searched: str, tmp_path: Path
) -> None:
    mesh = tmp_path / "dgx-h100.toml"
    tapestry("mesh", "new", mesh)
    mesh.write_text(mesh.read_text().replace("latency_s = 7e-06", "latency_s = 8e-06"))
    options = ("--evaluations", "2000", "--seed", 3, "--compute-dtype", "bf16", "--mesh", mesh)
    other = optimized(tapestry, document, *options, "--rules", "fuse_cells", "--constraint", "time_s<=1s")
    assert tapestry("compare", searched, other, "--json").json["differences"] == [
        "constraints: the devices' memory and time_s<=1s",
        "evaluations: 3000 and 2000",
        "seed: 0 and 3",
        "rules: all and fuse_cells",
        "precision: the program's and bf16",
        "mesh axis gpu latency_s: 7e-06 and 8e-06",
    ]


def test_an_unknown_run_cannot_be_compared(tapestry: Run, searched: str) -> None:
    assert "there is no run and no plan 'zzz'" in complaint(tapestry("compare", searched, "zzz"))


def test_a_search_starts_from_a_stored_frontier(tapestry: Run, document: Path, searched: str) -> None:
    follower = optimized(tapestry, document, "--evaluations", "50", "--start-from", searched)
    runs = tapestry("compare", searched, follower, "--json").json["runs"]
    assert runs[1]["hypervolume"] >= 0.99 * runs[0]["hypervolume"]


def test_a_search_starts_from_no_unrelated_program(
    tapestry: Run, document: Path, searched: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    save(stack(1), other)
    message = complaint(tapestry("optimize", other, "--mesh", "dgx-h100", "--start-from", searched))
    assert "an unrelated program" in message
