"""Tests that saturation ends, is the same each time, and stops rules that do not end."""

from dataclasses import replace

import pytest

from tapestry.rewrites import RULES, Move, Rule, RuleError, apply_all, find, replay, saturate
from tapestry.rewrites.cell_form import INPUT, CellForm, any_cell, bound_cell, cell
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.measure import measure
from tapestry.rewrites.rule import rest
from tapestry.rewrites.saturation import repeat
from tapestry.teg.graph import Graph

SATURATING = [r for r in RULES if r.saturating]


def messy() -> Graph:
    """Build -(-x) as a chain over copies, twice, beside a block without readers."""
    b = ExampleBuilder("messy")
    x = b.tensor("x", 3, 4)
    for site in ("a", "b"):
        minus = b.cell(("neg", INPUT), {x: "rc"}, site=f"{site}1")
        copied = b.op("concat", minus, axis=0, site=f"{site}2")
        again = b.cell(("neg", INPUT), {copied: "rc"}, site=f"{site}3")
        b.sink(b.cell(("exp", INPUT), {again: "rc"}, site=f"{site}4"))
    b.cell(("tanh", INPUT), {x: "rc"}, site="unseen")
    return b.build()


def test_saturation_leaves_nothing_to_do() -> None:
    graph = messy()
    done = saturate(graph, SATURATING)
    assert find(done.graph, SATURATING) == []
    assert [b.operator for b in done.graph.blocks] == ["source", "cell", "sink", "sink"]
    assert done.graph.blocks[1].definition["expr"] == ("exp", INPUT)


def test_saturation_is_a_history_that_replays() -> None:
    graph = messy()
    done = saturate(graph, SATURATING)
    assert saturate(graph, SATURATING) == done
    assert replay(graph, done.moves) == done.graph
    for move in done.moves:
        smaller = replay(graph, [move])
        assert measure(smaller) < measure(graph)
        graph = smaller


def test_rules_that_need_not_end_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\['expand_softmax'\] are not saturating"):
        saturate(messy(), [r for r in RULES if r.name == "expand_softmax"])


def test_a_rule_that_wrongly_says_it_ends_is_stopped_by_name() -> None:
    def negated_twice(m):  # type: ignore[no-untyped-def]
        form = bound_cell(m, m["xs"])
        return CellForm(form.reads, ("neg", ("neg", form.expr)), form.dims, form.dtype)

    endless = Rule(
        "endless", any_cell(rest("xs")), cell(negated_twice), "", "", lambda size: messy(), saturating=True
    )
    with pytest.raises(
        RuleError, match=r"rule 'endless': does not end: .* makes 1 block \(cell\) out of 1 block"
    ):
        saturate(messy(), [endless])


def test_a_rule_that_goes_back_and_forth_is_stopped_by_name() -> None:
    def exchanged(m):  # type: ignore[no-untyped-def]
        form = bound_cell(m, m["xs"])
        return CellForm(form.reads, (form.expr[0], form.expr[2], form.expr[1]), form.dims, form.dtype)

    b = ExampleBuilder("sum")
    graph = b.result(b.cell(("sub", INPUT, ("input", 1)), {b.tensor("x", 3): "r", b.tensor("y", 3): "r"}))
    swap = Rule("swap", any_cell(rest("xs")), cell(exchanged), "", "", lambda size: graph, saturating=True)
    with pytest.raises(
        RuleError, match="rule 'swap': does not end: it fired 21 times and nothing became smaller"
    ):
        saturate(graph, [swap], limit=20)


@pytest.mark.slow
def test_a_rule_that_grows_a_cell_without_bound_is_stopped_by_name() -> None:
    def doubled(form: CellForm) -> CellForm:
        return replace(form, expr=("add", ("sub", form.expr, form.expr), form.expr))

    grows = Rule(
        name="grows",
        left=any_cell(rest("xs")),
        right=cell(lambda m: doubled(bound_cell(m, m["xs"]))),
        doc="It grows.\n\ne -> (e - e) + e\nAlways.",
        source="a test",
        example=lambda _: messy(),
    )
    with pytest.raises(RuleError, match="'grows': grows a cell without bound"):
        repeat(messy(), [grows])


def test_choices_are_texts() -> None:
    silent = Rule(
        name="silent",
        left=any_cell(rest("xs")),
        right=cell(lambda m: bound_cell(m, m["xs"])),
        doc="It chooses.\n\ne -> e\nAlways.",
        source="a test",
        example=lambda _: messy(),
        choices=lambda _: [1, 2],  # type: ignore[list-item]
    )
    with pytest.raises(RuleError, match=r"'silent'.*choices are texts, not 1"):
        find(messy(), [silent])


def test_what_a_rule_does_in_one_pass_is_one_move_of_many_places() -> None:
    done = saturate(messy(), [r for r in RULES if r.name in ("concat_of_one", "fuse_cells")])
    assert done.moves == [
        Move("concat_of_one", ("a2", "b2")),
        Move("fuse_cells", ("a3", "a4", "b3", "b4")),
    ]


def test_after_a_move_only_its_neighborhood_is_saturated_again() -> None:
    b = ExampleBuilder("again")
    x = b.tensor("x", 3, 4)
    for site in ("a", "b"):
        b.sink(b.cell(("exp", INPUT), {b.op("softmax", x, axes=(1,), site=site): "rc"}, site=f"{site}2"))
    graph = b.build()
    expansion = next(m for m in find(graph, RULES) if m.rule == "expand_softmax")
    applied = apply_all(graph, [expansion])
    near = saturate(applied.graph, SATURATING, changes=applied.changes)
    assert near == saturate(applied.graph, SATURATING)
    assert [m.rule for m in near.moves] == ["fuse_cells"]
    assert replay(graph, [expansion, *near.moves]) == near.graph
