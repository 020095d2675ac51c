"""Tests of epochs apart from the front: where they begin, what they minimize, and that they take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.goal import insert_plans_of
from tapestry.optimizer.run import diversification
from tapestry.optimizer.run.diversification import (
    KINDS,
    TURN_ROUNDS,
    Excursion,
    cap,
    excursion,
    extreme,
    restart,
)
from tapestry.optimizer.run.first_plans import insert_seeds
from tapestry.optimizer.run.state import STALE_ROUNDS
from tapestry.optimizer.run.variants import (
    Variant,
)
from tapestry.optimizer.run.workers import InlineExecutor
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.resumed import reported
from tests.optimizer.run.test_variants import submesh, variant_of
from tests.optimizer.searches import search

ENDLESS = 50_000_000


def seeded() -> Variant:
    variant = variant_of("attention", submesh())
    assert sum(insert_seeds(variant, None)) > 10
    return variant


def front(archive: Archive) -> np.ndarray:
    return archive.value[: int(archive.size[0])]


def digests(archive: Archive) -> set[int]:
    return set(archive.digest[: int(archive.size[0])].tolist())


def test_a_restart_begins_without_the_front_and_within_its_evaluations(rng: np.random.Generator) -> None:
    variant = seeded()
    found = excursion(KINDS.index(restart), variant, 10, rng)
    assert 1 < found.evaluations <= 10
    assert 0 < int(found.archive.size.sum()) <= found.evaluations
    assert found.goal.weights.tolist() == variant.submesh.goal.weights.tolist()
    seeds = excursion(KINDS.index(restart), variant, 1000, rng)
    assert 10 < seeds.evaluations <= diversification.RESTART_SEEDS
    assert not digests(seeds.archive) <= digests(variant.archive)


def test_an_extreme_keeps_the_least_of_every_objective_and_few_others(rng: np.random.Generator) -> None:
    variant = seeded()
    goal, archive, _ = extreme(variant, [0], 10, rng).goal, *extreme(variant, [0], 10, rng)[::2]
    assert goal.epsilon.tolist() == [variant.submesh.goal.epsilon[0], 1.0, 1.0]
    assert front(archive).min(axis=0).tolist() == front(variant.archive).min(axis=0).tolist()
    assert 0 < archive.size[0] <= variant.archive.size[0]


def test_a_cap_lies_between_two_neighbors_and_is_kept_by_its_front(rng: np.random.Generator) -> None:
    variant = seeded()
    values = front(variant.archive)
    for _ in range(10):
        found = cap(variant, [0, 1], 10, rng)
        limit, capped = found.goal.bounds[-1], front(found.archive)[:, 1]
        (column,) = (j for j in (0, 1) if values[:, j].min() == capped.min())
        assert values[:, column].min() < limit < values[:, column].max()
        assert not np.isin(limit, values[:, column])
        assert (capped <= limit).all()
        assert len(found.goal.bounds) == len(variant.submesh.goal.bounds) + 1
        assert found.archive.size[1] > 0, "plans above the cap are in the pool"


@pytest.mark.parametrize("turn", range(len(KINDS)))
def test_the_same_generator_gives_the_same_first_plans_and_the_front_stays(turn: int) -> None:
    variant = seeded()
    before = front(variant.archive).copy()
    one, other = (excursion(turn, variant, 100, np.random.default_rng(3)) for _ in range(2))
    assert digests(one.archive) == digests(other.archive)
    assert one.goal.bounds.tolist() == other.goal.bounds.tolist()
    assert front(variant.archive).tolist() == before.tolist()
    insert_plans_of(variant.archive, one.archive, variant.submesh.goal)
    assert (front(variant.archive).min(axis=0) <= before.min(axis=0)).all()


def test_without_a_choice_of_objectives_all_are_restarts(rng: np.random.Generator) -> None:
    variant = variant_of("attention", submesh())
    for turn in range(len(KINDS)):
        assert isinstance(found := excursion(turn, variant, 10, rng), Excursion)
        assert found.evaluations > 0


@pytest.fixture(scope="module")
def converged() -> tuple[Result, list[Snapshot]]:
    snapshots: list[Snapshot] = []
    return endless(on_checkpoint=snapshots.append, checkpoint_s=0), snapshots


def endless(**options: Any) -> Result:
    return search(
        GRAPHS["perceptron"](),
        evaluations=ENDLESS,
        rules=(),
        islands=1,
        devices="all",
        micro_batches=1,
        executor=InlineExecutor(),
        **options,
    )


@pytest.mark.slow
def test_a_search_has_converged_once_all_kinds_have_failed_in_turn(
    converged: tuple[Result, list[Snapshot]],
) -> None:
    result, snapshots = converged
    assert result.stopped == "converged"
    assert snapshots[-1].checkpoint().stale_rounds == STALE_ROUNDS + len(KINDS) * TURN_ROUNDS
    still = result.history[-1 - len(KINDS) * TURN_ROUNDS :]
    assert still[-1].hypervolume <= still[0].hypervolume * 1.0002


@pytest.mark.slow
def test_resumed_among_the_turns_a_search_gives_the_same(converged: tuple[Result, list[Snapshot]]) -> None:
    result, snapshots = converged
    for before in (TURN_ROUNDS + 1, len(KINDS) * TURN_ROUNDS - 2):
        saved = Checkpoint.from_bytes(snapshots[-2 - before].checkpoint().to_bytes())
        assert saved.stale_rounds > STALE_ROUNDS
        assert reported(endless(resume=saved)) == reported(result)


@pytest.mark.slow
def test_a_converged_search_stays_converged(converged: tuple[Result, list[Snapshot]]) -> None:
    result, snapshots = converged
    assert result.stopped == snapshots[-1].stopped == "converged"
    assert result.evaluations < ENDLESS
    saved = Checkpoint.from_bytes(snapshots[-1].checkpoint().to_bytes())
    assert reported(endless(resume=saved)) == reported(result)
