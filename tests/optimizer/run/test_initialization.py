"""Tests that a search begins with the program as an expert would have written it."""

from collections import Counter
from typing import Any

import tapestry
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.rewrites import RECOMPOSITION, RULES, replay
from tapestry.teg.graph import Graph


def expanded_steps(layers: int) -> Graph:
    """Build layer norms and softmaxes written out, one after the other."""
    p = tapestry.program()
    x: Any = p.input("x", row=6, column=8)
    for k in range(layers):
        s, t = p.parameter(f"s{k}", column=8), p.parameter(f"t{k}", column=8)
        c = x - x.mean("column", keep=True)
        x = c * ((c * c).mean("column", keep=True) + 1e-5).rsqrt() * s + t
        e = (x - x.max("column", keep=True)).exp()
        x = e / e.sum("column", keep=True)
    p.output("y", x)
    return p.graph


def test_spelled_out_operators_are_found_before_the_search() -> None:
    graph = expanded_steps(layers=3)
    simple, moves = StructuralSearch(RULES).simplified(graph)
    work = Counter(b.operator for b in simple.blocks if b.operator not in ("source", "sink"))
    assert work == {"layer_norm": 3, "softmax": 3}
    assert replay(graph, moves) == simple


def test_a_search_with_rules_of_its_own_uses_these_only() -> None:
    rules = [r for r in RULES if r not in RECOMPOSITION]
    simple, _ = StructuralSearch(rules).simplified(expanded_steps(layers=1))
    assert {b.operator for b in simple.blocks} == {"source", "reduce", "cell", "sink"}
