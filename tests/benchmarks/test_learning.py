"""Tests of the benchmark of learning: when a search has another's hypervolume, and a small measurement."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import learning
from benchmarks.learning import SearchRecord


def record(*fronts: tuple[float, int, list[list[float]]]) -> SearchRecord:
    return SearchRecord([(s, n, np.array(front)) for s, n, front in fronts], (), ())


def test_a_hypervolume_is_reached_by_the_first_front_that_has_it() -> None:
    cold = record((1.0, 10, [[4.0, 4.0]]), (5.0, 50, [[1.0, 2.0], [2.0, 1.0]]))
    warm = record((2.0, 20, [[1.0, 2.0], [2.0, 1.0]]), (5.0, 60, [[1.0, 1.0]]))
    volume = learning.common_box(cold, warm)
    target = volume(cold.fronts[-1][2])
    assert 0 < target < volume(warm.fronts[-1][2]) == pytest.approx(1.0)
    assert learning.reached(cold, target, volume, 0) == 5.0
    assert learning.reached(warm, target, volume, 0) == 2.0
    assert learning.reached(warm, target, volume, 1) == 20
    assert learning.reached(cold, 0.99, volume, 0) is None
    assert learning.at(cold, 3.0).tolist() == [[4.0, 4.0]] and len(learning.at(cold, 0.5)) == 0


def test_a_search_that_never_has_it_counts_as_infinite() -> None:
    pairs = [{"related": True, "warm_s": s} for s in (2.0, None, 4.0)] + [{"related": False, "warm_s": 1.0}]
    odds = [{"constant_evaluations": 100, "learned_evaluations": n} for n in (50, None, 80)]
    assert learning.summary(pairs, odds) == {"related_warm_s": 4.0, "fewer_evaluations": 1.25}


@pytest.mark.slow
def test_a_pair_and_odds_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "warm_up", lambda contenders: None)
    file, name = tmp_path / "learning.json", "tiny_gpt2_small_b1_s1024"
    pair = f"{name}@dgx-h100:{name}@2x-dgx-h100"
    options = {"pairs": pair, "seconds": 6, "graphs": name, "evaluations": 3000, "seeds": 1, "json": file}
    learning.main([text for option, value in options.items() for text in (f"--{option}", str(value))])
    document = json.loads(file.read_text())
    assert document["pairs"][0]["related"] and document["pairs"][0]["warm_hypervolume"] > 0
    assert document["odds"][0]["constant_evaluations"] > 0
