"""Tests of the figures over instances and seeds."""

from typing import Any

import pytest

from benchmarks.contenders.summary import comparison, names_of, score_of, seconds_of


def contender(name: str, *scores: tuple[float, float | None], seed: int = 0) -> dict[str, Any]:
    checkpoints = [
        {"cpu_s": 10.0**k, "hypervolume": volume, "fastest_s": fastest}
        for k, (volume, fastest) in enumerate(scores)
    ]
    return {"name": name, "seed": seed, "checkpoints": checkpoints}


INSTANCES = [
    {
        "contenders": [
            contender("random", (0.1, 4.0), (0.2, 4.0)),
            contender("all", (0.0, None), (0.4, 1.0)),
            contender("all", (0.0, None), (0.6, 2.0), seed=1),
            contender("all", (0.2, 9.0), (0.5, 2.0), seed=2),
        ]
    },
    {
        "contenders": [
            contender("all", (0.0, None), (0.3, 1.0)),
            contender("random", (0.0, None), (0.0, None)),
        ]
    },
    {"contenders": [contender("all", (0.9, 1.0), (0.9, 1.0))]},
]


def test_the_whole_search_comes_first_and_seconds_ascend() -> None:
    assert names_of(INSTANCES) == ["all", "random"]
    assert seconds_of(INSTANCES) == [1.0, 10.0]


def test_a_score_is_the_median_over_seeds() -> None:
    score = score_of(INSTANCES[0], "all", 10.0)
    assert score is not None and (score.hypervolume, score.fastest_s) == (0.5, 2.0)
    assert score_of(INSTANCES[2], "random", 10.0) is None


def test_a_comparison_is_about_instances_that_have_both() -> None:
    found = comparison(INSTANCES, "random", 10.0)
    assert found is not None
    assert (found.instances, found.empty, found.whole_empty) == (2, 1, 0)
    assert (found.hypervolume, found.whole) == (pytest.approx(0.1), pytest.approx(0.4))
    assert found.gains == (pytest.approx(0.3),)
    assert (found.slower, found.behind) == (pytest.approx(2.0), pytest.approx(4.0))
    assert comparison(INSTANCES, "nobody", 10.0) is None
