"""The promises of a rule, kept by every member of the catalogue, and broken by a wrong copy of each."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrites import RULES, Move, Rule, Sizes, apply_all, apply_move, find, find_near, saturate, update
from rewrites.cell_form import INPUT, dim_labels, pointwise
from rewrites.measure import measure
from rewrites.rule import NOTHING, Computed, Match, Nothing, computed, op
from teg.builder import define
from teg.dtypes import is_float
from teg.evaluate import evaluate, random_inputs
from teg.graph import Block, Graph, Tensor, attributes
from teg.operators.monoids import HALF
from teg.validate import check

EVERY = [pytest.param(r, id=r.name) for r in RULES]


def assert_same_values(before: Graph, after: Graph, rule: Rule, rng: np.random.Generator) -> None:
    """Equal outputs: every bit where the rule's domain is exact, up to rounding where it is real."""
    inputs = random_inputs(before, rng)
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    assert wanted.keys() == got.keys()
    for site, value in wanted.items():
        assert (got[site].shape, got[site].dtype) == (value.shape, value.dtype)
        if rule.domain == "exact" or not is_float(value.dtype.name):
            np.testing.assert_array_equal(got[site], value)
        else:
            tolerance = 0.06 if value.dtype.name in HALF else 1e-5
            finite = np.nan_to_num(value.astype(np.float64), posinf=0, neginf=0)
            np.testing.assert_allclose(
                got[site].astype(np.float64),
                value.astype(np.float64),
                rtol=tolerance,
                atol=tolerance * max(1.0, float(np.max(np.abs(finite), initial=0.0))),
            )


def assert_neighbourhood_only(before: Graph, after: Graph, rule: Rule, move: Move) -> None:
    """Matched blocks and what only they read may go; readers of a rebound result change; nothing else does."""
    kept = [b for b in before.blocks if after.by_site.get(b.site) is b]
    gone = [b for b in before.blocks if after.by_site.get(b.site) is not b]
    new = [b for b in after.blocks if before.by_site.get(b.site) is not b]
    roots = [before.by_site[s] for s in move.places[0].split("&")]
    results = {t for b in roots for t in b.outputs}
    for b in gone:
        other = after.by_site.get(b.site)
        rebound = other is not None and other.definition is b.definition and results & set(b.inputs)
        dead = other is None and not any(t in after.readers for t in b.outputs)
        assert b in roots or rebound or dead, f"{b.site} changed"
    assert all(after.tensors[t] is before.tensors[t] for b in kept for t in b.outputs)
    fresh = {b.site for b in new} - before.by_site.keys()
    assert not fresh & before.tensors.keys()
    order = [b.site for b in after.blocks if b in set(kept)]
    if len(roots) == 1:
        assert order == [b.site for b in kept]


def assert_keeps_promises(rule: Rule, graph: Graph, rng: np.random.Generator) -> int:
    """Every move of a rule on a graph keeps every promise; how many there are."""
    rules = {rule.name: rule}
    moves = find(graph, [rule])
    for move in moves:
        applied = apply_all(graph, [move], rules)
        after = applied.graph
        check(after)
        assert_same_values(graph, after, rule, rng)
        assert_neighbourhood_only(graph, after, rule, move)
        again = Move.from_json(json.loads(json.dumps(move.to_json())))
        assert again == move
        assert apply_move(graph, again, rules).structural_hash == after.structural_hash
        assert update(moves, after, [rule], applied.changes) == find(after, [rule])
        assert set(find_near(after, [rule], applied.changes)) <= set(find(after, [rule]))
        if rule.saturating:
            assert measure(after) < measure(graph)
    return len(moves)


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_fires_on_its_example_and_keeps_its_promises(rule: Rule, rng: np.random.Generator) -> None:
    graph = rule.example(Sizes())
    check(graph)
    assert assert_keeps_promises(rule, graph, rng) >= 1


@pytest.mark.parametrize("rule", EVERY)
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_a_rule_keeps_its_promises_on_random_shapes(rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_keeps_promises(rule, rule.example(Sizes(rng)), rng)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int32", "uint8"])
@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_keeps_its_promises_for_other_element_types(
    rule: Rule, dtype: str, rng: np.random.Generator
) -> None:
    graph = retyped(rule.example(Sizes()), dtype)
    if graph is not None:
        assert_keeps_promises(rule, graph, rng)


@pytest.mark.parametrize("rule", EVERY)
def test_a_wrong_copy_of_a_rule_is_caught(rule: Rule, rng: np.random.Generator) -> None:
    graph = rule.example(Sizes())
    with pytest.raises((AssertionError, ValueError)):
        assert_keeps_promises(wrong(rule), graph, rng)


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_explains_itself(rule: Rule) -> None:
    first, blank, form, *reasons = rule.doc.splitlines()
    assert first.endswith(".") and not blank
    assert "->" in form
    assert reasons
    assert rule.source


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


def wrong(rule: Rule) -> Rule:
    """The rule with each new result off by one, or, where nothing is new, without its guard."""
    if all(isinstance(r, Nothing) for r in rule.results):
        return replace_sides(rule, NOTHING, when=lambda _: True)
    if isinstance(rule.right, Computed):
        terms = rule.right.terms
        return replace_sides(rule, computed(lambda m: [_wrong_term(t, k) for k, t in enumerate(terms(m))]))
    results = []
    for k, result in enumerate(rule.results):
        results.append(_wrong_term(result, k))
    return replace_sides(rule, results[0] if len(results) == 1 else tuple(results))


def _wrong_term(result: Any, k: int) -> Any:
    assert not isinstance(result, Nothing)
    return op("cell", result, given=lambda m: _off_by_one(m, k)).named("wrong")


def replace_sides(rule: Rule, right: Any, **changes: Any) -> Rule:
    fields = (
        "name",
        "left",
        "doc",
        "source",
        "example",
        "where",
        "when",
        "choices",
        "kind",
        "domain",
        "saturating",
    )
    return Rule(**{**{f: getattr(rule, f) for f in fields}, "right": right, **changes})


def _off_by_one(m: Match, k: int) -> Mapping[str, Any]:
    shape, dtype = m.result(k)
    expr = ("not", INPUT) if dtype == "bool" else ("add", INPUT, ("const", 1))
    return pointwise(expr, (dim_labels(len(shape)),), shape, dtype)


def retyped(graph: Graph, dtype: str) -> Graph | None:
    """The graph with `dtype` for float32; None where an operator does not take it."""
    tensors: dict[str, Tensor] = {}
    blocks: list[Block] = []
    for b in graph.blocks:
        given = {k: dtype if (k, v) == ("dtype", "float32") else v for k, v in b.definition.attributes}
        try:
            definition, types = define(b.operator, attributes(**given), [tensors[t].type for t in b.inputs])
        except (ValueError, OverflowError):
            return None
        tensors.update({t: Tensor(t, *kind) for t, kind in zip(b.outputs, types, strict=True)})
        blocks.append(replace(b, definition=definition))
    data = {t: v.astype(dtype if v.dtype == np.float32 else v.dtype) for t, v in graph.data.items()}
    if any(v.dtype.name != tensors[t].dtype for t, v in data.items()):
        return None
    return Graph(graph.name, tuple(blocks), tensors, data)
