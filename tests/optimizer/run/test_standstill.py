"""Tests of when a front stands still: what counts as a gain, starts that are left, and plans that break bounds."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.optimizer.run.diversification import KINDS, TURN_ROUNDS
from tapestry.optimizer.run.first_plans import insert_seeds
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.plan import Budget
from tapestry.optimizer.run.state import LEAST_GAIN, STALE_ROUNDS, SearchStart, SearchState
from tapestry.optimizer.structure.criteria import criteria_of
from tapestry.optimizer.structure.rules import choose_rules
from tapestry.optimizer.structure.search import StructuralSearch
from tests.optimizer.run.test_variants import OBJECTIVES, submesh, variant_of

ENDLESS = Budget(evaluations=50_000_000)


@pytest.fixture
def state() -> SearchState:
    on = submesh()
    structural = StructuralSearch(choose_rules(()))
    variant, known = variant_of("attention", on), KnownObjectives()
    criteria = criteria_of(known.require(OBJECTIVES, on.mesh.device), (), on.mesh, 0.005, known)
    rng = np.random.default_rng(0)
    state = SearchState(variant.graph, criteria, (on,), RunOptions(), structural, 1, 0, rng)
    state.variants.append(variant)
    list(insert_seeds(state.variants[0], None))
    return state


def stand(state: SearchState, rounds: int) -> list[int | None]:
    """Let so many rounds pass in which nothing is found; return the turn of each next round."""
    turns = []
    for _ in range(rounds):
        state.note_round(ENDLESS)
        turns.append(state.turn)
    return turns


def test_every_kind_has_every_other_round_before_a_search_has_converged(state: SearchState) -> None:
    assert stand(state, STALE_ROUNDS) == [None] * STALE_ROUNDS, "the first round is a gain"
    turns = stand(state, len(KINDS) * TURN_ROUNDS)
    assert turns == [k // TURN_ROUNDS if k % 2 == 0 else None for k in range(len(turns))]
    assert not state.is_converged
    stand(state, 1)
    assert state.is_converged


def test_a_lower_extreme_ends_a_standstill_even_if_the_volume_hardly_changes(state: SearchState) -> None:
    stand(state, STALE_ROUNDS + 3)
    archive = state.variants[0].archive
    least = int(archive.value[: int(archive.size[0]), 0].argmin())
    archive.value[least, 0] *= 1 - LEAST_GAIN / 2
    stand(state, 1)
    assert state.stale_rounds == STALE_ROUNDS + 3
    archive.value[least, 0] *= 1 - LEAST_GAIN
    stand(state, 1)
    assert state.stale_rounds == 0, "gains count from the last one, however slow"


def test_a_search_with_starts_left_neither_takes_turns_nor_skips_them_afterwards(state: SearchState) -> None:
    state.starts = [SearchStart("view")]
    assert set(stand(state, 100)) == {None}
    assert not state.is_converged
    state.starts = []
    assert not state.is_converged
    assert state.turn == 0


def test_plans_that_come_nearer_to_the_bounds_are_a_gain(state: SearchState) -> None:
    archive = state.variants[0].archive
    archive.pool_violation[0], archive.size[:] = 2.0, (0, 1)
    stand(state, STALE_ROUNDS)
    assert (state.best_volume, state.stale_rounds) == (-2.0, STALE_ROUNDS - 1)
    archive.pool_violation[0] = 1.9
    stand(state, 1)
    assert (state.best_volume, state.stale_rounds) == (-1.9, 0)
    archive.size[:] = (1, 1)
    stand(state, 1)
    assert state.stale_rounds == 0, "the first plan that keeps them"
