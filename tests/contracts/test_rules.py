"""Tests of the rule contract (`rewrites.testing`): kept by every member of the catalog, broken by a wrong copy."""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.rewrites import RULES, ExampleSizes, Rule, apply_move, find, saturate
from tapestry.rewrites.repetition.recomputation import POSTPONE
from tapestry.rewrites.testing import (
    OTHER_DTYPES,
    distinguishes_wrong_copy,
    fires_in_some_sizes,
    is_documented,
    keeps_contract,
    keeps_contract_on,
    retyped,
    states_that_it_recomputes,
)
from tapestry.teg.dtypes import is_float
from tapestry.teg.evaluate import evaluate, random_inputs
from tests.cases import examples, one_in

EVERY = [pytest.param(r, id=r.name) for r in RULES]


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_fires_on_its_example_and_keeps_its_promises(rule: Rule, rng: np.random.Generator) -> None:
    keeps_contract(rule, ExampleSizes(), rng)


@pytest.mark.slow
@pytest.mark.parametrize("rule", EVERY)
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10_000))
def test_a_rule_keeps_its_promises_on_random_shapes(rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keeps_contract(rule, ExampleSizes(rng), rng)


@pytest.mark.parametrize("rule", one_in(4, EVERY))
def test_a_rule_is_not_only_about_the_sizes_of_its_example(rule: Rule, rng: np.random.Generator) -> None:
    fires_in_some_sizes(rule, rng)


@pytest.mark.parametrize("rule", one_in(4, EVERY))
def test_a_rule_keeps_its_promises_for_other_element_types(rule: Rule, rng: np.random.Generator) -> None:
    for dtype in OTHER_DTYPES:
        graph = retyped(rule.example(ExampleSizes()), dtype)
        if graph is not None:
            keeps_contract_on(rule, graph, rng)


@pytest.mark.parametrize("rule", one_in(4, EVERY))
def test_a_wrong_copy_of_a_rule_is_caught(rule: Rule, rng: np.random.Generator) -> None:
    distinguishes_wrong_copy(rule, rng)


@pytest.mark.parametrize("rule", EVERY)
def test_shared_values_are_computed_again_only_where_a_rule_says_so(rule: Rule) -> None:
    states_that_it_recomputes(rule)


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_explains_itself(rule: Rule) -> None:
    is_documented(rule)


@pytest.mark.parametrize("rule", [p for p in EVERY if not p.values[0].saturating and p.id != POSTPONE])
def test_saturation_does_not_undo_what_a_search_chooses(rule: Rule) -> None:
    graph = rule.example(ExampleSizes())
    saturating = [r for r in RULES if r.saturating]
    plain = saturate(graph, saturating).graph.structural_hash
    for move in find(graph, [rule]):
        assert saturate(apply_move(graph, move), saturating).graph.structural_hash != plain


@pytest.mark.slow
@pytest.mark.parametrize("rule", EVERY)
def test_one_infinity_spoils_no_result_that_was_finite_unless_a_rule_says_so(
    rule: Rule, rng: np.random.Generator
) -> None:
    """Check that an infinity (common in masks) spoils no finite result unless the rule says so, never by saturation."""
    spoiled = _spoiled(rule, rng)
    assert spoiled == 0 or "finite" in rule.doc
    assert spoiled <= 1 or not rule.saturating


def _spoiled(rule: Rule, rng: np.random.Generator) -> int:
    """Return the largest number of result elements spoiled by one infinite, NaN or zero element of a source."""
    graph = rule.example(ExampleSizes())
    usual = random_inputs(graph, rng)
    worst = 0
    for after in [apply_move(graph, move) for move in find(graph, [rule])]:
        for inputs in _with_one_odd_element(usual):
            with np.errstate(all="ignore"):
                wanted, got = evaluate(graph, inputs), evaluate(after, inputs)
            for site, value in wanted.items():
                if is_float(value.dtype.name):
                    same = np.isclose(got[site], value, rtol=1e-4, atol=1e-4)
                    worst = max(worst, int(np.sum(np.isfinite(value) & ~same)))
    return worst


def _with_one_odd_element(usual: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yield the inputs with the first or the last element of a float made zero, infinite or NaN."""
    for site, value in usual.items():
        if is_float(value.dtype.name) and value.size:
            for odd, place in product((np.inf, -np.inf, np.nan, 0.0), (0, -1)):
                changed = value.copy()
                changed.flat[place] = odd
                yield {**usual, site: changed}


def test_names_are_different() -> None:
    assert len({r.name for r in RULES}) == len(RULES)


def test_the_catalog_has_what_a_compiler_expects() -> None:
    expansions = [r for r in RULES if r.kind == "semantic"]
    patterns = [r for r in RULES if r.kind == "optimization" and r.depth + len(r.roots) > 2]
    assert len(expansions) >= 4
    assert any(r.when for r in expansions)
    assert any(r.choices for r in expansions)
    assert len(patterns) >= 8
