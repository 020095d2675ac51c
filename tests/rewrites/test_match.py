"""Tests of patterns against graphs: sharing, order and number of operands, several roots, forbidden matches."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.rewrites import Changes, Move, Rule, RuleError, Worklist, find
from tapestry.rewrites.cell_form import ADD, INPUT
from tapestry.rewrites.duplication import duplicated
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.index import Index
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.neighborhood import near
from tapestry.rewrites.rule import Match, Op, attr, op, rest, tensor
from tapestry.rewrites.tracked_graph import EVERYTHING, TrackedGraph
from tapestry.teg.graph import Graph
from tapestry.teg.zspace import ZRange

X, W = tensor("x"), tensor("w")


def rule(left: Op | tuple[Op, ...], **changes: object) -> Rule:
    """Build a rule that only says where its left side matches."""
    right = tuple(X for _ in left) if isinstance(left, tuple) else X
    return Rule("here", left, right, "here", "a test", lambda size: ExampleBuilder("none").build(), **changes)  # type: ignore[arg-type]


def cell(name: str, *inputs: Op) -> Op:
    """Build a cell of one function of its inputs in order."""
    return op("cell", *inputs, expr=(name, *(("input", k) for k in range(len(inputs)))))


def chain() -> Graph:
    b = ExampleBuilder("chain")
    x = b.tensor("x", 3)
    one = b.cell(("exp", INPUT), {x: "r"}, site="one")
    two = b.cell(("neg", INPUT), {one: "r"}, site="two")
    return b.result(
        b.cell(("exp", INPUT), {two: "r"}, site="three"), b.cell(ADD, {one: "r", two: "r"}, site="sum")
    )


def test_a_pattern_is_found_by_operators_and_literal_attributes() -> None:
    assert find(chain(), [rule(cell("exp", X))]) == [Move("here", "one"), Move("here", "three")]
    assert find(chain(), [rule(cell("neg", cell("exp", X)))]) == [Move("here", "two")]
    assert find(chain(), [rule(cell("exp", cell("exp", X)))]) == []


def test_one_term_twice_asks_for_one_block_twice() -> None:
    inner = cell("exp", X)
    diamond = op("cell", inner, cell("neg", inner))
    assert find(chain(), [rule(diamond)]) == [Move("here", "sum")]
    two = op("cell", cell("exp", X), cell("exp", W))
    assert find(chain(), [rule(two)]) == []


def test_what_is_only_here_is_read_by_matched_blocks_only() -> None:
    assert find(chain(), [rule(cell("exp", cell("neg", X).only_here()))]) == []
    inner = cell("exp", X)
    both = op("cell", inner, cell("neg", inner)).named("y")
    assert len(find(chain(), [rule(both)])) == 1


def test_any_number_of_operands_fits_rest_in_every_way() -> None:
    b = ExampleBuilder("concat")
    x = [b.tensor(f"x{k}", 2) for k in range(3)]
    negative = b.cell(("neg", INPUT), {x[1]: "r"})
    graph = b.result(b.op("concat", x[0], negative, negative, axis=0))
    anywhere = op("concat", rest("before"), op("cell", X), rest("after"))
    assert find(graph, [rule(anywhere)]) == [Move("here", "concat"), Move("here", "concat", "@1")]
    last = op("concat", rest("before"), op("cell", X))
    assert find(graph, [rule(last)]) == [Move("here", "concat")]


def test_commutative_operands_take_their_labels_along() -> None:
    b = ExampleBuilder("contract")
    w, x = b.tensor("w", 4, 5), b.tensor("x", 3, 4)
    graph = b.result(b.contract("kn,mk->mn", w, b.cell(("neg", INPUT), {x: "mk"})))
    seen = []
    left = op("contract", op("cell", X), W, labels=attr("l"), output=attr("o"))
    guard = rule(left.commutative(), when=lambda m: seen.append((m["w"], m["l"])) is None)
    assert find(graph, [guard]) == [Move("here", "contract")]
    assert seen == [("w", (("m", "k"), ("k", "n")))]
    assert find(graph, [rule(left)]) == []


def test_operands_that_cannot_be_exchanged_are_refused() -> None:
    with pytest.raises(ValueError, match="'cell' cannot be exchanged"):
        op("cell", X, W).commutative()


def test_several_roots_are_found_through_what_they_share() -> None:
    b = ExampleBuilder("siblings")
    x = b.tensor("x", 3)
    names = [b.cell((f, INPUT), {x: "r"}, site=f) for f in ("exp", "neg", "tanh")]
    graph = b.result(*names)
    pair = (op("cell", X).named("a"), op("cell", X).named("b"))
    assert [m.place for m in find(graph, [rule(pair)])] == ["exp&neg", "exp&tanh", "neg&tanh"]


def test_several_roots_may_not_need_each_other() -> None:
    b = ExampleBuilder("cycle")
    x = b.tensor("x", 3)
    one = b.cell(ADD, {x: "r", b.tensor("w", 3): "r"}, site="one")
    two = b.cell(ADD, {x: "r", b.cell(("neg", INPUT), {one: "r"}): "r"}, site="two")
    graph = b.result(two)
    pair = (op("cell", X, W), op("cell", X, tensor("v")))
    assert find(graph, [rule(pair)]) == []


def test_parts_pinned_and_ordered_blocks_are_left_alone() -> None:
    graph = chain()
    pinned = {"one": {"device": 0}, "two": {"index": ZRange((0,), (3,))}, "three": {"after": ("sum",)}}
    for site, change in pinned.items():
        blocks = tuple(replace(b, **change) if b.site == site else b for b in graph.blocks)
        places = [m.place for m in find(graph.replace(blocks), [rule(op("cell", rest("x")))])]
        assert site not in places
        assert ("sum" in places) == (site != "three")


def test_a_failing_guard_is_named_with_its_rule() -> None:
    broken = rule(cell("exp", X), when=lambda m: m["nothing"])
    with pytest.raises(RuleError, match="rule 'here': its guard or choices fail at 'one': KeyError") as info:
        find(chain(), [broken])
    assert info.value.rule == "here"


def test_near_a_change_is_as_far_as_the_deepest_pattern_reaches() -> None:
    edited = MutableGraph(chain())
    pair, single = rule(cell("exp", cell("neg", X))), rule(cell("exp", X))
    changes = Changes(frozenset({"two"}), frozenset())
    assert near(edited, [pair], changes) == {"two", "three", "sum"}
    assert near(edited, [single], changes) == {"two"}, "patterns of one block look nowhere else"
    assert near(edited, [single], Changes(frozenset(), frozenset({"one"}))) == {"one"}


def test_tracked_graph_knows_what_was_read() -> None:
    tracked = TrackedGraph(chain())
    assert tracked.seen() == ()
    assert tracked.producers["one"].site == "one" and "two" in tracked.producers
    assert [b.site for b, _ in tracked.readers["one"]] == ["two", "sum"]
    assert tracked.seen() == ("one", "two", ("one",))
    tracked.clear_reads()
    assert tracked.data.get("x") is None
    assert tracked.seen() == ("x", ("x", "data")), "values belong to the block that gives them"
    assert len(list(tracked.producers)) == len(tracked.tensors) and EVERYTHING in tracked.seen()


def test_what_was_remembered_was_looked_at_too() -> None:
    tracked = TrackedGraph(chain())
    for _ in range(2):
        tracked.clear_reads()
        assert tracked.memoized("key", lambda: tracked.producers["two"].site) == "two"
        assert tracked.seen() == ("two",)


def test_a_rule_is_tried_again_only_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def guard(m: Match) -> bool:
        requested.append(m.roots[0].site)
        return all(r.operator == "cell" for r, _ in m.edited.readers[m.roots[0].outputs[0]])

    graph, rules = chain(), (rule(op("cell", rest("x")), when=guard),)
    candidates = Worklist.of(graph, rules)
    assert len(requested) == len([b for b in graph.blocks if b.operator == "cell"])
    requested.clear()
    monkeypatch.setattr(
        "tapestry.rewrites.worklist.index_of", Index
    )  # one that has not met these surroundings
    same = candidates.after(graph, Changes(frozenset(), frozenset({"one"})))
    assert requested == ["one"] and same.moves() == candidates.moves()


def test_a_rule_is_checked_when_it_is_written() -> None:
    with pytest.raises(RuleError, match=r"reads \['z'\], which the left side does not bind"):
        Rule("bad", cell("exp", X), tensor("z"), "", "", lambda size: ExampleBuilder("").build())
    with pytest.raises(RuleError, match="1 roots on the left, 2 results"):
        Rule("bad", cell("exp", X), (X, X), "", "", lambda size: ExampleBuilder("").build())
    with pytest.raises(RuleError, match="kind is one of"):
        Rule("bad", cell("exp", X), X, "", "", lambda size: ExampleBuilder("").build(), kind="nice")


def test_matching_does_not_change_the_graph() -> None:
    graph = chain()
    before = (graph.blocks, dict(graph.tensors), dict(graph.readers), graph.structural_hash)
    find(graph, [rule(op("cell", rest("x")))])
    assert before == (graph.blocks, dict(graph.tensors), dict(graph.readers), graph.structural_hash)
    assert np.all([b is c for b, c in zip(before[0], graph.blocks, strict=True)])


def test_a_right_side_that_computes_a_shared_value_again_says_so() -> None:
    inner = cell("exp", X)
    sides = (cell("neg", inner), op("cell", inner))
    with pytest.raises(RuleError, match="the right side computes 'cell' again, which others may read"):
        Rule("twice", *sides, "", "", lambda size: chain())
    twice = Rule("twice", *sides, "", "", lambda size: chain(), duplicates=True)
    assert [m.place for m in find(chain(), [twice])] == ["two"]
    again = op(
        "cell",
        op("cell", X, expr=("exp", INPUT), labels=(("r",),), dims=(("r", 3),), dtype="float32"),
        op("cell", X, expr=("neg", ("exp", INPUT)), labels=(("r",),), dims=(("r", 3),), dtype="float32"),
        expr=ADD,
        labels=(("r",), ("r",)),
        dims=(("r", 3),),
        dtype="float32",
    )
    hidden = Rule("hidden", cell("neg", cell("exp", X)), again, "", "", lambda size: chain())
    assert duplicated(hidden, chain()).startswith("hidden at two: ")
