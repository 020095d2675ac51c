"""Tests of the contest's sharding problems: the evaluation by hand, brute force over small instances, bad files."""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.iopddl import FORBIDDEN, BadInstance, evaluate, main, measure, read

SECONDS = 0.3
NEVER = 10**18


def small() -> dict[str, Any]:
    """Return two nodes that live together at time 2, and one that never lives."""
    return {
        "name": "small",
        "nodes": {
            "intervals": [[0, 3], [2, 4], [1, 1]],
            "costs": [[1, 5], [2, 0], [7]],
            "usages": [[6, 3], [5, 9], [100]],
        },
        "edges": {"nodes": [[0, 1], [1, 2]], "costs": [[10, 20, 30, NEVER], [1, 2]]},
        "usage_limit": 10,
    }


def random_problem(rng: np.random.Generator) -> dict[str, Any]:
    """Return a random instance of up to seven nodes, with forbidden costs, bijections and a limit that binds."""
    count = int(rng.integers(2, 8))
    widths = rng.integers(1, 5, count)
    spans = [
        [int(a), int(a + d)]
        for a, d in zip(rng.integers(0, 6, count), rng.integers(0, 6, count), strict=True)
    ]
    edges, tables = [], []
    for _ in range(int(rng.integers(0, 11))):
        i, j = (int(v) for v in rng.integers(0, count, 2))
        table = rng.integers(0, 50, (widths[i], widths[j])) * int(rng.integers(0, 2))
        if rng.random() < 0.4:
            table[rng.random(table.shape) < 0.3] = NEVER
        if widths[i] == widths[j] and rng.random() < 0.4:
            table = np.where(np.eye(widths[i])[rng.permutation(widths[i])] > 0, table % NEVER, NEVER)
        edges.append([i, j])
        tables.append(table.ravel().tolist())
    usages = [rng.integers(0, 20, w).tolist() for w in widths]
    return {
        "name": "random",
        "nodes": {
            "intervals": spans,
            "costs": [rng.integers(0, 30, w).tolist() for w in widths],
            "usages": usages,
        },
        "edges": {"nodes": edges, "costs": tables},
        "usage_limit": int(rng.uniform(0.3, 0.8) * sum(max(u) for u in usages)),
    }


def written(path: Path, problem: dict[str, Any]) -> Path:
    path.write_bytes(gzip.compress(json.dumps({"problem": problem}).encode()))
    return path


@pytest.mark.parametrize(
    ("choice", "cost", "feasible"),
    [
        ((0, 0, 0), 1 + 2 + 7 + 10 + 1, False),
        ((1, 0, 0), 5 + 2 + 7 + 30 + 1, True),
        ((0, 1, 0), 1 + 0 + 7 + 20 + 2, False),
        ((1, 1, 0), 5 + 0 + 7 + NEVER + 2, False),
    ],
)
def test_plain_evaluation(choice: tuple[int, ...], cost: int, feasible: bool) -> None:
    assert evaluate(small(), choice) == (cost, feasible)


def test_a_choice_may_fill_the_limit_to_the_last_byte() -> None:
    problem = small() | {"usage_limit": 8}
    assert evaluate(problem, (1, 0, 0))[1]
    assert not evaluate(problem | {"usage_limit": 7}, (1, 0, 0))[1]


@pytest.mark.parametrize("seed", range(40))
def test_brute_force_agrees(seed: int, tmp_path: Path) -> None:
    problem = random_problem(np.random.default_rng(seed))
    found = [evaluate(problem, c) for c in product(*(range(len(c)) for c in problem["nodes"]["costs"]))]
    allowed = [cost for cost, feasible in found if feasible and cost < FORBIDDEN]
    path = written(tmp_path / "random.json.gz", problem)
    if not allowed:
        try:
            row = measure(path, SECONDS, seed)
        except BadInstance as error:
            assert "no feasible choice" in str(error)
        else:
            assert not row["feasible"]
        return
    row = measure(path, SECONDS, seed)
    assert row["feasible"]
    assert row["bound"] <= min(allowed)
    assert row["cost"] == min(allowed)


def test_forty_instances_are_of_both_kinds() -> None:
    kinds = set()
    for seed in range(40):
        problem = random_problem(np.random.default_rng(seed))
        every = product(*(range(len(c)) for c in problem["nodes"]["costs"]))
        kinds.add(any(f and c < FORBIDDEN for c, f in (evaluate(problem, choice) for choice in every)))
    assert kinds == {True, False}


def broken(key: str, value: Any) -> dict[str, Any]:
    problem = small()
    *path, last = key.split(".")
    owner = problem
    for name in path:
        owner = owner[name]
    if value is None:
        del owner[last]
    else:
        owner[last] = value
    return problem


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nodes", None, "problem.nodes: missing"),
        ("usage_limit", None, "problem.usage_limit: expected a whole number"),
        ("usage_limit", -1, "problem.usage_limit: expected a whole number"),
        ("nodes.usages", None, "problem.nodes.usages: missing"),
        ("nodes.usages", [[6, 3], [5, 9]], "problem.nodes.usages: 2 entries for 3 nodes"),
        ("nodes.usages", [[6, 3], [5], [1]], r"problem.nodes.usages\[1\]: 1 usages for 2 strategies"),
        ("nodes.usages", [[6, -3], [5, 9], [1]], r"problem.nodes.usages\[0\]: a usage is negative"),
        ("nodes.costs", [[1, 5], [], [7]], r"problem.nodes.costs\[1\]: no strategy"),
        (
            "nodes.costs",
            [[1, 5], ["a", 0], [7]],
            r"problem.nodes.costs\[1\]: expected a list of whole numbers",
        ),
        ("nodes.intervals", [[0, 3], [2], [1, 1]], r"problem.nodes.intervals\[1\]: expected \[first, last\)"),
        ("edges.nodes", [[0, 3], [1, 2]], r"problem.edges.nodes\[0\]: \[0, 3\] is not within the 3 nodes"),
        ("edges.nodes", [[0, 1]], "problem.edges.costs: 2 entries for 1 edges"),
        ("edges.costs", [[1, 2, 3], [1, 2]], r"problem.edges.costs\[0\]: 3 costs for 4 pairs"),
        (
            "edges.costs",
            [[1, 2, [3], 4], [1, 2]],
            r"problem.edges.costs\[0\]: expected a list of whole numbers",
        ),
        ("usage_limit", 4, "no feasible choice"),
    ],
)
def test_bad_instances_are_named(key: str, value: Any, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "bad.json.gz", broken(key, value))
    with pytest.raises(BadInstance, match=f"bad.json.gz: .*{message}"):
        measure(path, SECONDS, 0)


@pytest.mark.parametrize("left", [3, 30, 100])
def test_truncated_and_damaged_files_are_named(left: int, tmp_path: Path) -> None:
    data = written(tmp_path / "whole.json.gz", small()).read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data[:left])
    with pytest.raises(BadInstance, match=r"cut\.json\.gz: damaged or truncated"):
        read(path)
    path.write_bytes(gzip.decompress(data)[:left])
    with pytest.raises(BadInstance, match=r"cut\.json\.gz: no valid JSON"):
        read(path)
    with pytest.raises(BadInstance, match=r"absent\.json: cannot be read"):
        read(tmp_path / "absent.json")


def test_good_files_are_solved_beside_bad_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, out = written(tmp_path / "good.json.gz", small()), tmp_path / "out.json"
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert main([str(bad), str(good), "--seconds", "0.5", "--json", str(out)]) == 2
    assert f"{bad}: problem: missing" in capsys.readouterr().err
    document = json.loads(out.read_text())
    assert not document["complete"]
    (row,) = document["instances"]
    assert (row["name"], row["cost"], row["bound"], row["feasible"]) == ("small", 45, 45, True)
    assert row["stopped"] == "bound met"
    assert main([str(good), "--seconds", "0.5", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["complete"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_must_be_above_zero(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["any.json", "--seconds", seconds])
    assert stopped.value.code == 2
    assert "is not a number of seconds above zero" in capsys.readouterr().err
