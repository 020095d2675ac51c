"""Tests that a search ends once its best plan is proven to be good enough, at the same round whenever it is asked."""

from __future__ import annotations

import pytest

from tapestry.optimizer import Checkpoint, Snapshot
from tapestry.optimizer.run import proven_gap
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import search

pytestmark = pytest.mark.slow

ENDLESS = 50_000_000


@pytest.mark.parametrize("gap", [0.2, "20%"])
def test_a_search_ends_when_the_gap_is_proven(gap: float | str) -> None:
    result = search(GRAPHS["attention"](), evaluations=ENDLESS, gap=gap)
    assert result.stopped == "bound met"
    assert 0 <= result.bounds["time_s"].gap <= 0.2  # type: ignore[operator]


def test_bounds_that_are_out_of_reach_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = list[int]()
    monkeypatch.setattr(proven_gap, "first_bound", lambda variant: bounded.append(variant.number) or 0.0)
    result = search(GRAPHS["attention"](), evaluations=60_000, gap=0.2)
    assert result.stopped == "budget"
    assert bounded == [0] * len(bounded), "the first one settles it"
    assert 1 <= len(bounded) < len(result.history) / 4


def test_resumed_it_ends_at_the_same_round() -> None:
    snapshots: list[Snapshot] = []
    options = {"evaluations": ENDLESS, "gap": 1e-5, "seed": 1}
    program = GRAPHS["observed"]
    result = search(program(), on_checkpoint=snapshots.append, checkpoint_s=0, **options)
    saved = Checkpoint.from_bytes(snapshots[len(snapshots) // 2].checkpoint().to_bytes())
    assert saved.proven == dict(snapshots[len(snapshots) // 2].checkpoint().proven)
    assert reported(search(program(), resume=saved, **options)) == reported(result)
