"""Tests of searches that choose the number of micro-batches beside structure and placement."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.run.workers import InlineExecutor
from tests.cases import rotating
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import search
from tests.teg.sharding.looped import training

BATCH = 1 << 14
MESH = load_mesh("dgx-h100")
OBJECTIVES = ("time_s", "peak_memory_bytes")


def rounds_of(result: Result) -> list[int]:
    """Return in how many rounds each plan of the front runs."""
    chosen = [plan.placements.rounds for plan in result.frontier]
    return [1 if rounds is None else rounds.count for rounds in chosen]


def searched(evaluations: int = 60_000, **options: Any) -> tuple[Result, list[Snapshot]]:
    snapshots: list[Snapshot] = []
    result = search(
        training(BATCH, "float32"),
        mesh=MESH,
        seed=1,
        islands=2,
        evaluations=evaluations,
        executor=InlineExecutor(),
        on_checkpoint=snapshots.append,
        checkpoint_s=0,
        **({"objectives": OBJECTIVES} | options),
    )
    return result, snapshots


@pytest.fixture(scope="module")
def free() -> tuple[Result, list[Snapshot]]:
    return searched()


def test_micro_batches_extend_the_front_to_less_memory(free: tuple[Result, list[Snapshot]]) -> None:
    result, _ = free
    counts = rounds_of(result)
    assert 1 in counts and max(counts) > 1
    alone, _ = searched(micro_batches=1)
    assert set(rounds_of(alone)) == {1}

    def least(found: Result) -> float:
        return min(plan.cost["peak_memory_bytes"] for plan in found.frontier)

    assert least(result) < least(alone)


@pytest.mark.slow
def test_a_number_that_is_fixed_is_that_of_all_plans() -> None:
    result, _ = searched(20_000, micro_batches=8)
    assert set(rounds_of(result)) == {8}
    assert {bound.scope.micro_batches for bound in result.bounds.values()} == {(8,)}


@pytest.mark.slow
def test_a_search_without_memory_among_its_objectives_keeps_to_whole_batches() -> None:
    result, _ = searched(20_000, objectives=("time_s", "traffic_bytes"))
    assert set(rounds_of(result)) == {1}


@pytest.mark.parametrize("at", rotating(3, (0, 3, -2)))
def test_resumed_anywhere_it_finds_the_same(free: tuple[Result, list[Snapshot]], at: int) -> None:
    result, snapshots = free
    saved = Checkpoint.from_bytes(snapshots[at].checkpoint().to_bytes())
    again, _ = searched(resume=saved)
    assert reported(again) == reported(result)
