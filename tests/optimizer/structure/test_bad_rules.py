"""Tests that misbehaving rules of third parties are refused by name, and the search goes on with the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.optimizer import Checkpoint
from tapestry.optimizer.run.variants import Variant
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.rewrites import Rule, catalog, rule_named
from tapestry.rewrites.cell_form import INPUT, CellForm, any_cell, bound_cell, cell, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import NOTHING, Match, op, rest, tensor
from tapestry.teg.graph import Graph
from tests.optimizer.searches import search

X = tensor("x")


def program() -> Graph:
    """Build exp of softmax: something to expand, something to fuse."""
    b = ExampleBuilder("program")
    x = b.tensor("x", 8, 16)
    return b.result(b.cell(("exp", INPUT), {b.op("softmax", x, axes=(1,)): "rc"}))


def bad(name: str, right: Any = X, **changes: Any) -> Rule:
    """Build a rule about softmax that does not keep a promise."""
    return Rule(name, op("softmax", X), right, "Bad.", "a test", lambda size: program(), **changes)


def twice_as_wide(m: Match) -> dict[str, Any]:
    rows, columns = m.shape("x")
    return dict(pointwise(INPUT, (dim_labels(2),), (rows, columns), "float64"))


def raises(m: Match) -> Any:
    return m["nothing"]


def negated_twice(m: Match) -> CellForm:
    form = bound_cell(m, m["xs"])
    return replace(form, expr=("neg", ("neg", form.expr)))


def least_of(depth: int) -> Any:
    """Build the repeated minimum of the operand and itself: 2 ** depth - 1 blocks."""
    if depth == 0:
        return X
    labels = (dim_labels(2),) * 2
    return op(
        "cell",
        least_of(depth - 1),
        least_of(depth - 1),
        given=lambda m: pointwise(("min", INPUT, ("input", 1)), labels, m.shape("x"), m.dtype("x")),
    )


BAD = {
    "another type": (bad("bad", op("cell", X, given=twice_as_wide)), "the right side has type"),
    "a guard that raises": (bad("bad", when=raises), "its guard or choices fail at 'softmax': KeyError"),
    "choices that raise": (bad("bad", choices=raises), "its guard or choices fail"),
    "attributes that raise": (
        bad("bad", op("cell", X, given=raises)),
        "the right side's 'cell' cannot be built",
    ),
    "a result that is dropped": (bad("bad", NOTHING), "drops 'softmax', which 'cell' reads"),
    "an end that never comes": (
        Rule(
            "bad", any_cell(rest("xs")), cell(negated_twice), "", "", lambda size: program(), saturating=True
        ),
        "does not end",
    ),
    "more blocks of fewer": (bad("bad", least_of(2), saturating=True), "does not end"),
    "growth without bound": (bad("bad", least_of(9)), "grows the program without bound"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_rule_is_refused_by_name_and_others_are_proposed_all_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapestry.optimizer.structure.search.MOST_BLOCKS_MORE", 100)
    rule, reason = BAD[name]
    structural = StructuralSearch((rule_named("expand_softmax"), rule_named("equal_blocks"), rule))
    given = program()
    structural.start(given)
    graph, _ = structural.simplified(given)
    parent = Variant(0, None, graph, (), None, None, None)  # type: ignore[arg-type]
    proposed = [structural.propose(parent, 1, np.random.default_rng(k)) for k in range(3)]
    assert [found[2] for found in proposed if found] == ["expand_softmax"]
    assert set(structural.refused) == {"bad"}
    assert reason in structural.refused["bad"]


def test_a_search_reports_which_rules_it_refused_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog(), "endless", replace(BAD["an end that never comes"][0], name="endless"))
    result = search(program(), rules=("expand_softmax", "endless"))
    assert result.refused.keys() == {"endless"}
    assert result.frontier and result.rules.keys() >= {"reshard"}


def test_refusals_survive_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog(), "endless", replace(BAD["an end that never comes"][0], name="endless"))
    saved: list[bytes] = []
    search(program(), rules=("endless",), on_checkpoint=lambda s: saved.append(s.checkpoint().to_bytes()))
    again = Checkpoint.from_bytes(saved[-1])
    assert again.refused["endless"].startswith("does not end")
