"""Tests of the context cache: equal contexts are recognized, and cached matches equal those found from scratch."""

import gc
from weakref import ref

import numpy as np
import pytest

from tapestry.rewrites import RULES, Move, Rule, Worklist, apply_all
from tapestry.rewrites.cell_form import ADD, INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.index import Index
from tapestry.rewrites.rule import Match, op, rest
from tapestry.teg.graph import Graph
from tests.rewrites.test_models import TWINS, model


def layers(count: int, last: str = "exp", sizes: int = 3) -> Graph:
    """Build cells one after the other, two in each layer; the last one may be another function."""
    b = ExampleBuilder("layers")
    x = b.tensor("x", sizes)
    for k in range(count):
        y = b.cell(("neg", INPUT), {x: "r"}, site=f"neg{k}")
        x = b.cell(ADD, {x: "r", y: "r"}, site=f"add{k}")
    return b.result(b.cell((last, INPUT), {x: "r"}, site="last"))


def counting(requested: list[str]) -> Rule:
    """Build a rule that records where it is checked, and matches where a cell with two inputs produces the operand."""

    def guard(m: Match) -> bool:
        requested.append(m.roots[0].site)
        producer = m.edited.producers[m["xs"][0]]
        return producer.operator == "cell" and len(producer.inputs) == 2

    left = op("cell", rest("xs"))
    return Rule("counting", left, left, "counts", "a test", lambda size: layers(1), when=guard)


def test_equal_layers_are_matched_once() -> None:
    requested: list[str] = []
    rule = counting(requested)
    moves = Worklist.of(layers(40), [rule]).moves()
    assert len(requested) < 10, "the first two layers, the last, and none between"
    assert moves == [Move("counting", f"{kind}{k}") for k in range(1, 40) for kind in ("neg", "add")] + [
        Move("counting", "last")
    ]


def test_what_is_recognized_in_another_program_has_its_own_names() -> None:
    requested: list[str] = []
    rule = counting(requested)
    Worklist.of(layers(5), [rule])
    requested.clear()
    assert Worklist.of(layers(7), [rule]).moves()[-2:] == [Move("counting", "add6"), Move("counting", "last")]
    assert requested == []
    Worklist.of(layers(7, sizes=4), [rule])
    assert requested, "of other sizes nothing is known"


@pytest.mark.parametrize("look", ["readers", "data", "blocks"])
def test_what_differs_where_a_rule_looks_is_not_taken_for_the_same(look: str) -> None:
    def guard(m: Match) -> bool:
        (t,) = m.roots[0].outputs
        if look == "readers":
            return any(r.definition["expr"][0] == "tanh" for r, _ in m.edited.readers[t])
        if look == "data":
            return all(t in m.edited.data for t in m["xs"])
        return "other" in m.edited.blocks

    left = op("cell", rest("xs"), expr=("exp", INPUT))
    rule = Rule("looking", left, left, "looks", "a test", lambda size: layers(1), when=guard)

    def graph(other: bool) -> Graph:
        b = ExampleBuilder("two")
        x = b.tensor("x", 3, role="constant")
        if other and look == "data":
            b.data["x"] = np.ones(3, np.float32)
        y = b.cell(("exp", INPUT), {x: "r"}, site="y")
        site = "other" if other and look == "blocks" else "z"
        return b.result(b.cell(("tanh" if other or look != "readers" else "neg", INPUT), {y: "r"}, site=site))

    for _ in range(2):
        assert Worklist.of(graph(False), [rule]).moves() == []
        assert Worklist.of(graph(True), [rule]).moves() == [Move("looking", "y")]


@pytest.mark.parametrize("name", TWINS)
def test_recognized_or_found_from_nothing_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    candidates = Worklist.of(model(name), RULES)
    for _ in range(8):
        moves = candidates.moves()
        applied = apply_all(candidates.graph, [moves[rng.integers(len(moves))]])
        candidates = candidates.after(applied.graph, applied.changes)
        with monkeypatch.context() as patched:
            patched.setattr("tapestry.rewrites.worklist.index_of", Index)
            anew = Worklist.of(applied.graph, RULES)
        assert candidates.moves() == anew.moves()
        assert candidates.tied() == anew.tied()


def test_what_is_remembered_keeps_no_program_alive() -> None:
    requested: list[str] = []
    graph = layers(9)
    alive = ref(graph)
    Worklist.of(graph, [counting(requested)])
    assert requested
    del graph
    gc.collect()
    assert alive() is None
