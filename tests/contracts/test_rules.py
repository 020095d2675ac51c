"""The promises of a rule (`rewrites.testing`), kept by every member of the catalogue, and broken by a wrong copy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrites import RULES, Rule, Sizes, apply_move, find, saturate
from rewrites.duplication import duplicated
from rewrites.testing import (
    OTHER_DTYPES,
    explains_itself,
    fires_in_some_sizes,
    keep_on,
    keeps_promises,
    retyped,
    tells_right_from_wrong,
)

EVERY = [pytest.param(r, id=r.name) for r in RULES]


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_fires_on_its_example_and_keeps_its_promises(rule: Rule, rng: np.random.Generator) -> None:
    keeps_promises(rule, Sizes(), rng)


@pytest.mark.parametrize("rule", EVERY)
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_a_rule_keeps_its_promises_on_random_shapes(rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keeps_promises(rule, Sizes(rng), rng)


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_is_not_only_about_the_sizes_of_its_example(rule: Rule, rng: np.random.Generator) -> None:
    fires_in_some_sizes(rule, rng)


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_keeps_its_promises_for_other_element_types(
    rule: Rule, dtype: str, rng: np.random.Generator
) -> None:
    graph = retyped(rule.example(Sizes()), dtype)
    if graph is not None:
        keep_on(rule, graph, rng)


@pytest.mark.parametrize("rule", EVERY)
def test_a_wrong_copy_of_a_rule_is_caught(rule: Rule, rng: np.random.Generator) -> None:
    tells_right_from_wrong(rule, rng)


@pytest.mark.parametrize("rule", EVERY)
def test_shared_values_are_computed_again_only_where_a_rule_says_so(rule: Rule) -> None:
    assert bool(duplicated(rule, rule.example(Sizes()))) <= rule.duplicates


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_explains_itself(rule: Rule) -> None:
    explains_itself(rule)


@pytest.mark.parametrize("rule", [p for p in EVERY if not p.values[0].saturating])
def test_saturation_does_not_undo_what_a_search_chooses(rule: Rule) -> None:
    graph = rule.example(Sizes())
    saturating = [r for r in RULES if r.saturating]
    plain = saturate(graph, saturating).graph.structural_hash
    for move in find(graph, [rule]):
        assert saturate(apply_move(graph, move), saturating).graph.structural_hash != plain


def test_names_are_different() -> None:
    assert len({r.name for r in RULES}) == len(RULES)


def test_the_catalogue_has_what_a_compiler_expects() -> None:
    expansions = [r for r in RULES if r.kind == "semantic"]
    patterns = [r for r in RULES if r.kind == "optimization" and r.depth + len(r.roots) > 2]
    assert len(expansions) >= 4
    assert any(r.when for r in expansions)
    assert any(r.choices for r in expansions)
    assert len(patterns) >= 8
