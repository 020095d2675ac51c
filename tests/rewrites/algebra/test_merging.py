"""Tests that any number of contractions that share an operand merge at once; also through the search's lists."""

import numpy as np
import pytest

from tapestry.rewrites import Move, apply_all, apply_move, find, replay
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rules import rule_named
from tapestry.rewrites.worklist import Worklist
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph

TOGETHER = rule_named("merge_all_contracts")
PAIRS = rule_named("merge_contracts")


def gates(count: int, shared: str = "state") -> Graph:
    """Build so many products of one tensor; with "weight" it is the weights that all share."""
    b = ExampleBuilder("gates")
    common = b.tensor("common", 4, 5)
    others = [
        b.tensor(f"w{k}", 5, 2 + k) if shared == "state" else b.tensor(f"w{k}", 2 + k, 4)
        for k in range(count)
    ]
    text = "bi,ih->bh" if shared == "state" else "ih,bi->bh"
    return b.result(*(b.contract(text, common, w, site=f"y{k}") for k, w in enumerate(others)))


def contractions(graph: Graph) -> int:
    return sum(b.operator == "contract" for b in graph.blocks)


@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("shared", ["state", "weight"])
def test_all_become_one(count: int, shared: str, rng: np.random.Generator) -> None:
    graph = gates(count, shared)
    moves = find(graph, [TOGETHER])
    assert [len(m.places[0].split("&")) for m in moves] == list(range(count, 2, -1))
    merged = apply_move(graph, Move.from_json(moves[0].to_json()))
    assert contractions(merged) == 1
    inputs = random_inputs(graph, rng)
    wanted, got = evaluate(graph, inputs), evaluate(merged, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=1e-5, atol=1e-5)


def test_what_needs_another_one_stays_apart() -> None:
    b = ExampleBuilder("chain")
    x, w, v, u = b.tensor("x", 4, 4), b.tensor("w", 4, 4), b.tensor("v", 4, 4), b.tensor("u", 4, 4)
    first = b.contract("bi,ih->bh", x, w, site="first")
    after = b.contract("bi,ih->bh", x, first, site="after")
    others = [b.contract("bi,ih->bh", x, t) for t in (v, u)]
    (move, _) = find(b.result(after, *others), [TOGETHER])
    assert "after" not in move.places[0].split("&")
    assert len(move.places[0].split("&")) == 3


@pytest.mark.parametrize("seed", range(4))
def test_lists_stay_current_while_pairs_are_merged(seed: int) -> None:
    rng, rules = np.random.default_rng(seed), (PAIRS, TOGETHER)
    graph = gates(6)
    candidates, history = Worklist.of(graph, rules), list[Move]()
    while moves := candidates.moves():
        history.append(moves[rng.integers(len(moves))])
        applied = apply_all(candidates.graph, history[-1:])
        candidates = candidates.after(applied.graph, applied.changes)
        assert candidates.moves() == find(applied.graph, rules)
        assert candidates.tied() == Worklist.of(applied.graph, rules).tied()
    assert contractions(candidates.graph) == 1
    assert replay(graph, history) == candidates.graph


@pytest.mark.parametrize("seed", range(3))
def test_lists_stay_current_while_nested_contractions_change(seed: int) -> None:
    rng, b = np.random.default_rng(seed), ExampleBuilder("nested")
    product = b.tensor("m0", 4, 3)
    for k, size in enumerate((5, 2, 6, 3), start=1):
        product = b.contract("ij,jk->ik", product, b.tensor(f"m{k}", b.shape(product)[1], size))
    names = ("associate_contract", "flatten_contract", "best_order_of_contracts", "order_contract")
    rules = tuple(rule_named(name) for name in names)
    candidates = Worklist.of(b.result(product), rules)
    for _ in range(12):
        moves = candidates.moves()
        if not moves:
            break
        applied = apply_all(candidates.graph, [moves[rng.integers(len(moves))]])
        candidates = candidates.after(applied.graph, applied.changes)
        assert candidates.moves() == find(applied.graph, rules)
