"""Tests of programs before and after rewriting: which blocks are the same, what changed, and by which rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tapestry.rewrites import RULES, Move, Provenance, catalog, find, saturate
from tapestry.rewrites.correspondence import correspondence
from tapestry.rewrites.rule import ExampleSizes
from tapestry.service.program_changes import attribute_text, changes_document
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.drawn_groups import NO_GROUP
from tapestry.teg.graph import Graph

SATURATING = [rule for rule in RULES if rule.saturating]
LABELS = (("m", "n"),)


def activations(layers: int) -> Graph:
    """Build layers of a product, a bias and a relu, whose cells can be fused."""
    b = GraphBuilder("activations")
    x = b.source("x", (16, 16), "float32")
    for k in range(layers):
        w = b.source(f"h.{k}.w", (16, 16), "float32", "parameter")
        (x,) = b.apply(
            "contract", (x, w), site=f"h.{k}.p", labels=(("m", "k"), ("k", "n")), output=("m", "n")
        )
        for step, function in (("neg", "neg"), ("act", "relu"), ("exp", "exp")):
            (x,) = b.apply(
                "cell",
                (x,),
                site=f"h.{k}.{step}",
                expr=(function, ("input", 0)),
                labels=LABELS,
                dims=(("m", 16), ("n", 16)),
                dtype="float32",
            )
    b.sink(x, site="result")
    return b.build()


def changed(graph: Graph, moves: tuple[Move, ...]) -> dict[str, Any]:
    reported = Provenance(graph, moves)
    return changes_document(graph, reported.graph, reported)


def sites(document: dict[str, Any], side: str, change: str) -> set[str]:
    blocks = document["blocks"]
    names = document[side]["blocks"]["site"]
    return {
        names[k] for k, kind in zip(blocks[side], blocks["change"], strict=True) if kind == change and k >= 0
    }


def assert_rows_are_both_programs(document: dict[str, Any]) -> None:
    """Check that every block is in one row of its side, and that rows say what happened to it."""
    blocks = document["blocks"]
    for side in ("before", "after"):
        count = len(document[side]["blocks"]["site"])
        assert sorted(k for k in blocks[side] if k >= 0) == list(range(count))
    for old, new, kind, what in zip(
        blocks["before"], blocks["after"], blocks["change"], blocks["what"], strict=True
    ):
        assert (old < 0) == (kind == "made") and (new < 0) == (kind == "removed")
        assert bool(what) == (kind == "changed")
    assert document["counts"] == {
        kind: blocks["change"].count(kind) for kind in ("kept", "changed", "removed", "made")
    }
    assert len(set(map(len, blocks.values()))) == 1
    assert max(blocks["group"], default=NO_GROUP) < len(document["groups"]["name"])


@pytest.mark.parametrize("name", catalog())
def test_the_rows_of_every_rule_are_the_blocks_of_both_sides(name: str) -> None:
    rule = catalog()[name]
    graph = rule.example(ExampleSizes())
    move = min(find(graph, [rule]), key=lambda move: (move.places, move.choice))
    reported = Provenance(graph, [move], {name: rule})
    document = changes_document(graph, reported.graph, reported)
    assert_rows_are_both_programs(document)
    blocks = document["blocks"]
    kept = [k for k, kind in enumerate(blocks["change"]) if kind == "kept"]
    for k in kept:
        old, new = (
            graph.by_site[document[side]["blocks"]["site"][blocks[side][k]]]
            if side == "before"
            else reported.graph.by_site[document[side]["blocks"]["site"][blocks[side][k]]]
            for side in ("before", "after")
        )
        assert (old.site, old.definition, old.repetition) == (new.site, new.definition, new.repetition)
    if any(event.effect != "rebound" for event in reported.events):
        assert document["rules"] == [name]


def test_what_makes_the_tensor_of_a_fused_chain_is_its_last_block_and_the_rest_goes() -> None:
    graph = activations(3)
    document = changed(graph, saturate(graph, SATURATING).moves)
    assert_rows_are_both_programs(document)
    assert document["counts"] == {"kept": 8, "changed": 3, "removed": 6, "made": 0}
    assert sites(document, "before", "removed") == {
        f"h.{k}.{step}" for k in range(3) for step in ("neg", "act")
    }
    assert sites(document, "before", "changed") == {f"h.{k}.exp" for k in range(3)}
    row = document["blocks"]["before"].index(document["before"]["blocks"]["site"].index("h.1.exp"))
    assert set(document["blocks"]["what"][row]) >= {"attributes", "inputs"}
    expressions = "exp(x0)", "exp(relu(neg(x0)))"
    assert document["blocks"]["attributes"][row] == [["expr", *expressions]]
    assert [document["rules"][k] for k in document["blocks"]["rules"][row]] == ["fuse_cells"]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (("add", ("mul", ("input", 0), ("const", 0.0010000000474974513)), ("input", 1)), "(x0 * 0.001) + x1"),
        (("where", ("ge", ("index", "row"), ("const", 1)), ("cast", "int32", ("input", 0)), ("const", True)),
         "where(row >= 1, int32(x0), True)"),
        (("bitcast", "int32", ("cast", "float32", ("input", 0))), "bitcast(float32(x0), int32)"),
    ],
)  # fmt: skip
def test_expressions_are_written_as_readers_write_them(expr: Any, text: str) -> None:
    assert attribute_text("expr", expr) == text
    assert attribute_text("labels", (("m", "k"), ("k",))) == "[m, k], [k]"


def attentive(layers: int) -> Graph:
    """Build layers of a product, a softmax and three more products."""
    b = GraphBuilder("attentive")
    x = b.source("x", (16, 16), "float32")
    for k in range(layers):
        for n in range(4):
            w = b.source(f"h.{k}.w{n}", (16, 16), "float32", "parameter")
            (x,) = b.apply(
                "contract", (x, w), site=f"p{k}of{n}", labels=(("m", "k"), ("k", "n")), output=("m", "n")
            )
            if not n:
                (x,) = b.apply("softmax", (x,), site=f"s{k}", axes=(1,))
    b.sink(x, site="result")
    return b.build()


def test_blocks_that_moves_made_are_in_the_group_of_those_they_stem_from() -> None:
    graph = attentive(5)
    moves = [m for m in find(graph, RULES) if m.rule == "expand_softmax" and m.place in ("s1", "s3")]
    document = changed(graph, tuple({m.place: m for m in moves}.values()))
    assert_rows_are_both_programs(document)
    assert document["rules"] == ["expand_softmax"] and document["counts"]["made"] > 2
    blocks, names = document["blocks"], document["groups"]["name"]
    for row, kind in enumerate(blocks["change"]):
        if kind == "made":
            site = document["after"]["blocks"]["site"][blocks["after"][row]]
            assert blocks["rules"][row] == [0]
            if document["after"]["blocks"]["kind"][blocks["after"][row]] == "block":
                assert names[blocks["group"][row]] == f"h.{site[1]}", site


def test_no_moves_change_nothing() -> None:
    graph = activations(2)
    document = changed(graph, ())
    assert Counter(document["blocks"]["change"]) == {"kept": len(graph.blocks)}
    assert document["blocks"]["before"] == document["blocks"]["after"] == list(range(len(graph.blocks)))
    assert (document["rules"], document["moves"]) == ([], 0)


def test_removed_blocks_stand_where_they_were() -> None:
    graph = activations(4)
    document = changed(graph, saturate(graph, SATURATING).moves)
    order = [k for k in document["blocks"]["before"] if k >= 0]
    assert order == sorted(order)


@pytest.mark.parametrize("layers", [10, 40])
def test_looking_for_the_same_blocks_walks_only_the_histories_of_those_that_moves_made(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = activations(layers)
    reported = Provenance(graph, saturate(graph, SATURATING).moves)
    walked = []
    origins = Provenance.origins
    monkeypatch.setattr(
        Provenance, "origins", lambda self, site: (walked.append(site), origins(self, site))[1]
    )
    found = correspondence(graph, reported.graph, reported)
    assert len(found.before) == len(reported.graph.blocks)
    assert len(walked) <= 2 * layers
