"""Tests of priors: searches begin with what earlier ones know, and new rules gain weight from the floor."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.search_space import PLACE_CLASSES
from tapestry.optimizer.placement.variation import RULES
from tapestry.optimizer.run.learning import Learned, Prior, focus_of, merged, mesh_kind
from tapestry.optimizer.run.plan import Rate
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.optimizer.structure.credits import FLOOR, StructuralCredits
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import frontier, search


def credits_with(prior: Prior) -> StructuralCredits:
    return StructuralCredits(first=prior.structural_odds(), floored=frozenset({"plugin_rule"}))


def test_kinds_of_meshes_and_focus() -> None:
    kinds = {name: mesh_kind(load_mesh(name)) for name in ("dgx-h100", "8x-dgx-h100", "tpu-v4-4x4x4")}
    assert kinds == {
        "dgx-h100": "1 axis",
        "8x-dgx-h100": "2 axes",
        "tpu-v4-4x4x4": "3 axes, tiled",
    }
    assert mesh_kind(load_mesh("dgx-h100").part((("gpu", 1),))) == "1 device"
    assert focus_of(("time_s", "energy_j")) == focus_of(("energy_j", "time_s")) == "energy_j+time_s"


def test_placement_odds_follow_what_was_learned_where_much_is_known() -> None:
    arms = {(rule, name): Learned(1e6, 1e3) for rule in RULES for name in PLACE_CLASSES}
    arms["lead-maker", "product"] = Learned(1e6, 1e5)
    odds = Prior(1, arms).placement_odds()
    best = RULES.index("lead-maker"), PLACE_CLASSES.index("product")
    assert np.unravel_index(odds.argmax(), odds.shape) == best
    assert odds[best] / np.median(odds) == pytest.approx(100, rel=0.05)
    little = Prior(
        1, {arm: Learned(1.0, learned.credit / 1e6) for arm, learned in arms.items()}
    ).placement_odds()
    assert little[RULES.index("turn-axis"), 0] > little[RULES.index("regather"), 0]
    assert (odds > 0).all() and (little > 0).all()


def test_a_rule_of_ours_that_was_not_tried_begins_with_what_is_known_of_it_elsewhere() -> None:
    known = {("chunk", "product"): Learned(100, 10.0), ("waypoint", "product"): Learned(100, 2.0)}
    first = credits_with(Prior(1, known))
    assert first.odds(("chunk", "reduction")) == pytest.approx(first.odds(("chunk", "product")), rel=0.2)
    assert first.odds(("fuse_cells", "elementwise")) == 1.0


def test_a_rule_of_a_plug_in_that_no_run_has_tried_begins_at_the_floor_and_gains_weight() -> None:
    known = {("chunk", "product"): Learned(100, 10.0), ("waypoint", "product"): Learned(100, 2.0)}
    first = credits_with(Prior(1, known))
    new = ("plugin_rule", "product")
    assert first.odds(new) == FLOOR < first.odds(("waypoint", "product")) < first.odds(("chunk", "product"))
    weights = []
    for runs in range(1, 5):
        learned_there = [(Rate(*new, 10, 10, 2, 1.5, 0.1), 1.0)] * runs
        later = credits_with(Prior(1 + runs, {**known, **merged(learned_there)}))
        weights.append(later.odds(new) / later.odds(("waypoint", "product")))
    assert (
        first.odds(new) / first.odds(("waypoint", "product"))
        < 1
        < weights[0]
        < weights[1]
        < weights[2]
        < weights[3]
    )


@pytest.mark.slow
def test_a_search_repeats_with_its_prior() -> None:
    options = {"evaluations": 6000, "islands": 1, "executor": InlineExecutor()}
    learned_there = search(GRAPHS["perceptron"](), seed=3, **options)
    prior = Prior(1, merged((rate, 1.0) for rate in learned_there.rates))
    with_it, again = (search(GRAPHS["perceptron"](), seed=4, prior=prior, **options) for _ in range(2))
    without = search(GRAPHS["perceptron"](), seed=4, **options)
    assert frontier(with_it) == frontier(again)
    assert with_it.rates == again.rates != without.rates
