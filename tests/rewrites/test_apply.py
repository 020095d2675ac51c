"""Tests of applied moves: sites, program order, removed and kept blocks, and moves that do not fit."""

import re
from dataclasses import replace

import pytest

from tapestry.rewrites import (
    RULES,
    Move,
    Rule,
    RuleError,
    StaleMove,
    apply_all,
    apply_move,
    find,
    replay,
    replay_all,
)
from tapestry.rewrites.cell_form import ADD, INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import NOTHING, op, rest, tensor
from tapestry.teg.graph import Graph
from tapestry.teg.validate import check
from tapestry.teg.views import identity

X = tensor("x")


def only(graph: Graph, rule: str) -> Move:
    (move,) = find(graph, [r for r in RULES if r.name == rule])
    return move


def softmax() -> Graph:
    b = ExampleBuilder("softmax")
    x = b.tensor("x", 2, 3)
    y = b.op("softmax", b.cell(("neg", INPUT), {x: "rc"}, site="in"), site="y", axes=(1,))
    return b.result(b.cell(("exp", INPUT), {y: "rc"}, site="after"))


def test_the_replaced_result_keeps_its_site_and_its_readers() -> None:
    graph = softmax()
    after = apply_move(graph, only(graph, "expand_softmax"))
    assert after.producers["y"].operator == "cell"
    assert after.by_site["after"] is graph.by_site["after"]
    assert after.by_site["in"] is graph.by_site["in"]
    assert after.tensors["y"] is graph.tensors["y"]


def test_new_sites_say_where_they_come_from_and_never_differ() -> None:
    graph = softmax()
    move = only(graph, "expand_softmax")
    new = [b.site for b in apply_move(graph, move).blocks if b.site not in graph.by_site]
    roles = [re.fullmatch(r"y~(\w+)\.[0-9a-f]{8}", site) for site in new]
    assert [r.group(1) for r in roles if r] == ["max", "exp", "sum", "quotient"]
    assert apply_move(graph, move) == apply_move(graph, move)


def test_a_block_of_the_same_index_space_keeps_its_site() -> None:
    b = ExampleBuilder("fuse")
    x = b.tensor("x", 3)
    y = b.cell(("exp", INPUT), {x: "r"}, site="inner")
    graph = b.result(b.cell(("neg", INPUT), {y: "r"}, site="outer"))
    after = apply_move(graph, only(graph, "fuse_cells"))
    assert [b.site for b in after.blocks] == ["x", "outer", "outer.out"]
    assert after.by_site["outer"].definition["expr"] == ("neg", ("exp", INPUT))


def test_what_others_read_stays() -> None:
    b = ExampleBuilder("shared")
    x = b.tensor("x", 2, 3)
    inner = b.op("concat", x, x, axis=0, site="inner")
    rows = (("r", 4), ("c", 3))
    two = b.op("cell", inner, site="two", expr=INPUT, labels=(("r", "c"),), dims=rows, dtype="float32")
    graph = b.result(two, b.cell(("neg", INPUT), {inner: "rc"}))
    after = apply_move(graph, only(graph, "cell_to_view"))
    assert after.by_site["inner"] is graph.by_site["inner"]
    assert after.producers["two"].operator == "view"


def test_readers_of_a_result_that_disappears_read_what_it_was() -> None:
    b = ExampleBuilder("rebind")
    x = b.tensor("x", 3)
    one = b.op("concat", x, axis=0, site="one")
    graph = b.result(b.cell(("neg", INPUT), {one: "r"}, site="y"), one)
    after = apply_move(graph, only(graph, "concat_of_one"))
    assert after.by_site["y"].inputs == ("x",)
    assert after.by_site["one.out"].inputs == ("x",)
    assert "one" not in after.tensors
    assert "one" not in after.by_site


def test_the_last_reader_takes_its_inputs_along_but_not_the_program_s() -> None:
    b = ExampleBuilder("prune")
    x, w = b.tensor("x", 3), b.tensor("w", 3)
    deep = b.cell(("exp", INPUT), {b.cell(("neg", INPUT), {w: "r"}): "r"})
    expr = ("sub", ("add", ("input", 0), ("input", 1)), ("input", 1))
    graph = b.result(b.cell(expr, {x: "r", deep: "r"}, site="y"))
    after = apply_move(graph, only(graph, "add_sub"))
    assert [b.site for b in after.blocks] == ["x", "w", "y", "y.out"]


def test_program_order_holds_when_two_places_become_one() -> None:
    b = ExampleBuilder("order")
    x = b.tensor("x", 3, 4)
    one = b.contract("mk,kn->mn", x, b.tensor("w", 4, 5), site="one")
    early = b.cell(("neg", INPUT), {one: "mn"}, site="early")
    late = b.view(b.tensor("v", 4, 2), identity((4, 2)), site="late")
    two = b.contract("mk,kn->mn", x, late, site="two")
    graph = b.result(early, two)
    after = apply_move(graph, only(graph, "merge_contracts"))
    check(after)
    order = [b.site.partition("~")[0] for b in after.blocks]
    assert order.index("late") < order.index("early")


def test_a_move_that_does_not_fit_says_why() -> None:
    graph = softmax()
    with pytest.raises(StaleMove, match="there is no rule 'nonsense'"):
        apply_move(graph, Move("nonsense", "y"))
    with pytest.raises(StaleMove, match="expand_softmax at z: there is no block 'z'"):
        apply_move(graph, Move("expand_softmax", "z"))
    with pytest.raises(StaleMove, match="does not fit the 'cell' block there"):
        apply_move(graph, Move("expand_softmax", "in"))
    with pytest.raises(StaleMove, match="what there is: expand_softmax at y"):
        apply_move(graph, Move("expand_softmax", "y", "2"))
    move = only(graph, "expand_softmax")
    with pytest.raises(StaleMove):
        replay(graph, [move, move])


def test_several_moves_at_once_are_the_moves_one_by_one() -> None:
    b = ExampleBuilder("two")
    x = b.tensor("x", 2, 3)
    graph = b.result(*(b.op("softmax", x, axes=(k,), site=f"y{k}") for k in range(2)))
    moves = find(graph, [r for r in RULES if r.name == "expand_softmax"])
    one_by_one = graph
    for move in moves:
        one_by_one = apply_move(one_by_one, move)
    assert apply_all(graph, moves).graph == one_by_one
    tied = Move("expand_softmax", ("y0", "y1"))
    assert apply_move(graph, tied) == one_by_one


def test_histories_of_one_graph_share_the_moves_that_they_begin_with() -> None:
    b = ExampleBuilder("three")
    x = b.tensor("x", 2, 3)
    graph = b.result(*(b.op("softmax", x, axes=(k % 2,), site=f"y{k}") for k in range(3)))
    one, two, three = (Move("expand_softmax", f"y{k}") for k in range(3))
    histories = [(one, two), (), (one, three), (one,), (three, one), (one, two)]
    rule = next(rule for rule in RULES if rule.name == one.rule)
    applied = list[str]()
    counting = replace(rule, when=lambda match: applied.append(match.roots[0].site) is None)
    found = replay_all(graph, histories, {one.rule: counting})
    assert found == {history: replay(graph, history) for history in histories}
    assert found[()] is graph
    assert applied == ["y0", "y1", "y2", "y2", "y0"]


def test_a_graph_knows_its_maps_after_a_move() -> None:
    graph = softmax()
    after = apply_move(graph, only(graph, "expand_softmax"))
    fresh = Graph(after.name, after.blocks, dict(after.tensors), after.data)
    assert dict(after.producers) == dict(fresh.producers)
    assert dict(after.readers) == dict(fresh.readers)
    assert dict(after.by_site) == dict(fresh.by_site)
    assert list(after.tensors) == list(fresh.tensors)


def test_a_rule_whose_sides_differ_in_type_is_named() -> None:
    narrow = op("reduce", X, monoid="sum", labels=("a", "b"), output=("a",))
    rule = Rule("narrow", op("softmax", X), narrow, "", "", lambda size: softmax())
    with pytest.raises(RuleError, match=r"rule 'narrow': at 'y': the right side has type \(2,\) float32"):
        apply_move(softmax(), Move("narrow", "y"), {"narrow": rule})


def test_a_rule_whose_right_side_cannot_be_built_is_named() -> None:
    rule = Rule("broken", op("softmax", X), op("softmax", X, axes=(7,)), "", "", lambda size: softmax())
    with pytest.raises(RuleError, match="rule 'broken': at 'y': the right side's 'softmax' cannot be built"):
        apply_move(softmax(), Move("broken", "y"), {"broken": rule})


def test_a_value_that_is_read_cannot_be_dropped() -> None:
    rule = Rule("drop", op("cell", rest("x")), NOTHING, "", "", lambda size: softmax())
    with pytest.raises(RuleError, match="rule 'drop': drops 'in', which 'y' reads"):
        apply_move(softmax(), Move("drop", "in"), {"drop": rule})


def test_sums_and_their_order_survive_a_move_at_the_same_place_twice() -> None:
    b = ExampleBuilder("twice")
    x = b.tensor("x", 3)
    parts = [b.cell((f, INPUT), {x: "r"}) for f in ("exp", "neg")]
    graph = b.result(b.cell(ADD, dict.fromkeys(parts, "r"), site="y"))
    fuse = [r for r in RULES if r.name == "fuse_cells"]
    once = apply_move(graph, find(graph, fuse)[0])
    (again,) = find(once, fuse)
    assert [b.site for b in apply_move(once, again).blocks] == ["x", "y", "y.out"]
