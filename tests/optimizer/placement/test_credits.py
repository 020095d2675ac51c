"""Tests of credits of moves: what is counted for which class, and that odds follow without starving any move."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.view import default_view
from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.credits import (
    FLOOR,
    SHAPE,
    first_odds,
    new_statistics,
    odds_of,
    place_shares,
    yields,
)
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.search_space import PLACE_CLASSES, SearchSpace, search_space
from tapestry.optimizer.placement.variation import (
    CROSSOVER,
    EDGE_RULES,
    RELAYOUT,
    RULES,
    SLOT_RULES,
    class_at,
    draw_place,
)
from tapestry.optimizer.run.parts import SearchParts
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.operators.block_class import class_of_block
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES, OPERATOR_CLASSES, operator_class
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import search


@pytest.fixture(scope="module")
def space() -> PlanSpace:
    mesh = load_mesh("dgx-h100")
    return PlanSpace(GRAPHS["perceptron"](), mesh, default_view(MeshShape(mesh.axis_sizes)))


@pytest.fixture(scope="module")
def compiled(space: PlanSpace) -> SearchSpace:
    return search_space(space)


def test_every_kernel_belongs_to_one_class_of_operators() -> None:
    found = {kernel: operator_class(kernel) for kernel in KERNEL_CLASSES}
    assert set(found.values()) == set(OPERATOR_CLASSES)
    assert (found["attention"], found["softmax"], found["gather"], found["gated"]) == (
        *("product", "reduction", "copy"),
        "elementwise",
    )


def test_places_have_the_class_of_their_block(space: PlanSpace, compiled: SearchSpace) -> None:
    for g, block in enumerate(space.blocks):
        expected = class_of_block(space.graph, block) if g < len(space.slots) else "source"
        assert PLACE_CLASSES[compiled.place_class[g]] == expected


def test_drawn_places_have_the_stated_shares(compiled: SearchSpace) -> None:
    random_state, shares = new_rng(np.random.default_rng(5)), place_shares(compiled, False)
    draws = 4000
    for rule in (*SLOT_RULES, *EDGE_RULES, CROSSOVER):
        drawn = [draw_place(rule, random_state, compiled) for _ in range(draws)]
        counts = np.bincount([class_at(rule, place, compiled) for place in drawn], minlength=SHAPE[1])
        assert np.abs(counts / draws - shares[rule]).max() < 0.05
    assert not shares[RELAYOUT].any()
    assert np.allclose(np.delete(shares, RELAYOUT, axis=0).sum(axis=1), 1.0)


def test_odds_follow_credits_and_keep_a_floor(compiled: SearchSpace) -> None:
    shares, recent = place_shares(compiled, False), new_statistics(np.float64)
    before = odds_of(recent, first_odds(), shares)
    assert before.rule.argmax() == RULES.index("turn-axis")
    recent.applied[:] = 10_000
    lead, product = RULES.index("lead-maker"), PLACE_CLASSES.index("product")
    recent.credit[lead, product] = 100
    odds = odds_of(recent, first_odds(), shares)
    applies = shares.sum(axis=1) > 0
    assert odds.rule.argmax() == lead
    assert (odds.rule[applies] >= FLOOR / applies.sum()).all()
    assert not odds.rule[~applies].any()
    assert odds.rule.sum() == pytest.approx(1.0)
    assert odds.place[lead, product] == 1.0
    assert 0 < odds.place[lead].min() < 1.0


def test_without_learning_nothing_of_that_counts() -> None:
    options = {"seed": 3, "evaluations": 3000, "islands": 1, "executor": InlineExecutor()}
    fixed = search(GRAPHS["perceptron"](), parts=SearchParts(learning=False), **options)
    learned = search(GRAPHS["perceptron"](), **options)
    assert sum(rate.applied for rate in fixed.rates) > 0
    assert [rate.applied for rate in fixed.rates] != [rate.applied for rate in learned.rates]


def test_counts_of_a_search_agree_with_each_other() -> None:
    result = search(GRAPHS["observed"](), seed=3, evaluations=20_000, islands=2, executor=InlineExecutor())
    assert len({(rate.rule, rate.operator_class) for rate in result.rates}) == len(result.rates)
    for rate in result.rates:
        assert rate.applicable >= rate.applied >= rate.improved >= 0
        assert rate.credit >= 0 <= rate.volume
    placed = [rate for rate in result.rates if rate.rule in RULES]
    assert sum(rate.credit for rate in placed) <= sum(rate.improved for rate in placed)
    assert sum(rate.credit for rate in placed) > 0.5 * max(rate.improved for rate in placed)
    assert 0 < sum(rate.volume for rate in result.rates) <= 1.0
    by_rule = {name: sum(rate.applied for rate in placed if rate.rule == name) for name in RULES}
    assert by_rule == {name: result.rules[name][0] for name in RULES}


def test_variants_that_bring_more_have_better_odds_and_none_is_left_out() -> None:
    assert yields([0.0, 0.0], [0.0, 0.0]).tolist() == [1.0, 1.0]
    odds = yields([1e6, 1e6, 0.0], [1e3, 0.0, 0.0])
    assert odds.tolist() == pytest.approx([odds[0], 0.1, 1.0]) and odds[0] > 1.9
