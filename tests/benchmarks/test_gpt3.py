"""Tests of the benchmark of GPT-3, on a small model and few nodes."""

from __future__ import annotations

import pytest

from benchmarks import gpt3
from benchmarks.measurements.training_step import Degrees

SMALL = {
    "gpus": 16,
    "layers": 4,
    "hidden": 512,
    "heads": 8,
    "seq_len": 128,
    "vocab": 1024,
    "global_batch": 16,
}
WAY = Degrees(tensor=8, pipeline=2, data=1)


def test_a_configuration_is_simulated_as_it_is_costed() -> None:
    run = gpt3.simulated(gpt3.iteration(**SMALL), WAY)
    assert all(run["equal"].values())
    assert run["time_ratio"] == pytest.approx(1, rel=0.01)


@pytest.mark.slow
def test_a_search_is_compared_with_a_configuration() -> None:
    known = gpt3.iteration(**SMALL)
    found, stated = gpt3.searched(known, 6.0), gpt3.by_hand(known, WAY)
    assert 0 < found["time_s"] < stated["time_s"]
    assert found["plans"] > 1 and found["most_memory_bytes"] > 1e8
