"""Tests that every block of a rewritten program knows its moves, back to the blocks of the original program."""

from itertools import pairwise

import numpy as np
import pytest

from tapestry.rewrites import RULES, Move, Provenance, RuleError, StaleMove, apply_move, find, saturate
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.provenance import MADE, REBOUND, REMADE, REMOVED, TOOK_OVER
from tapestry.rewrites.rule import ExampleSizes, Rule
from tapestry.teg.graph import Graph
from tests.cases import one_in


def two_softmaxes() -> Graph:
    """Build two equal layers: exp of a softmax over a copy of an input."""
    b = ExampleBuilder("two_softmaxes")
    for site in ("a", "b"):
        copied = b.op("concat", b.tensor(f"{site}x", 3, 4), axis=0, site=f"{site}0")
        y = b.op("softmax", copied, axes=(1,), site=f"{site}1")
        b.sink(b.cell(("exp", INPUT), {y: "rc"}, site=f"{site}2"))
    return b.build()


def names(events):  # type: ignore[no-untyped-def]
    return [(e.number, e.move.rule, e.effect, e.site) for e in events]


def test_a_block_that_no_move_met_stems_from_itself() -> None:
    block_history = Provenance(two_softmaxes(), []).block_history("a2")
    assert (block_history.events, block_history.origins, block_history.is_there) == ((), ("a2",), True)


def test_a_tied_move_is_reported_at_the_place_concerned() -> None:
    reported = Provenance(two_softmaxes(), [Move("concat_of_one", ("a0", "b0"))])
    assert names(reported.block_history("b1").events) == [(0, "concat_of_one", REBOUND, "b1")]
    assert reported.block_history("b1").events[0].move == Move("concat_of_one", "b0")
    assert reported.block_history("ax").origins == ("ax", "a0")
    gone = reported.block_history("a0")
    assert (gone.is_there, gone.became) == (False, ("ax",))


def test_what_was_made_from_what_was_made_is_traced_back_to_the_start() -> None:
    graph = two_softmaxes()
    choice = next(m.choice for m in find(graph, RULES) if m.rule == "expand_softmax")
    moves = [Move("expand_softmax", ("a1", "b1"), choice)]
    expanded = Provenance(graph, moves)
    after = saturate(expanded.graph, [r for r in RULES if r.saturating])
    reported = Provenance(graph, [*moves, *after.moves])
    assert reported.graph == after.graph
    last = reported.graph.producers[reported.graph.sinks[0].inputs[0]].site
    assert reported.block_history(last).origins == ("a1", "a2")
    assert reported.block_history(last).numbers[0] == 0


def histories(rule: Rule, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Draw a few random moves from the rule's own example on; return the programs between them and the moves."""
    graphs, moves = [rule.example(ExampleSizes(rng))], list[Move]()
    for _ in range(6):
        found = find(graphs[-1], RULES)
        if not found:
            break
        move = found[int(rng.integers(len(found)))]
        try:
            graphs.append(apply_move(graphs[-1], move))
        except RuleError:
            break
        moves.append(move)
    return graphs, moves


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_history_reports_exactly_what_the_programs_before_and_after_each_move_differ_in(rule: Rule) -> None:
    graphs, moves = histories(rule, np.random.default_rng(7))
    reported = Provenance(graphs[0], moves)
    assert reported.graph == graphs[-1]
    for k, (before, after) in enumerate(pairwise(graphs)):
        old, new = before.by_site, after.by_site
        effects = {
            e: {v.site for v in reported.events if (v.number, v.effect) == (k, e)}
            for e in (MADE, REMADE, REBOUND, REMOVED)
        }
        assert effects[MADE] == new.keys() - old.keys()
        assert effects[REMOVED] == old.keys() - new.keys()
        assert effects[REMADE] | effects[REBOUND] >= {s for s in old.keys() & new.keys() if old[s] != new[s]}
        assert effects[REBOUND] <= {s for s in old.keys() & new.keys() if old[s].inputs != new[s].inputs}


@pytest.mark.parametrize("rule", one_in(5, RULES), ids=lambda r: r.name)
def test_every_block_of_the_result_stems_from_given_ones_and_its_events_lie_on_the_way(rule: Rule) -> None:
    graphs, moves = histories(rule, np.random.default_rng(11))
    reported = Provenance(graphs[0], moves)
    for block in reported.graph.blocks:
        block_history = reported.block_history(block.site)
        assert set(block_history.origins) <= graphs[0].by_site.keys()
        assert [e.number for e in block_history.events] == sorted(e.number for e in block_history.events)
        assert block_history.origins or any(e.effect == MADE for e in block_history.events)
        if not block_history.events:
            assert graphs[0].by_site[block.site] == block
        for tensor in block.outputs:
            assert reported.block_history(tensor).numbers == block_history.numbers


def test_of_equal_blocks_that_are_merged_one_stands_for_both() -> None:
    b = ExampleBuilder("equal")
    x = b.tensor("x", 3, 4)
    for site in ("a", "b"):
        b.sink(b.op("softmax", x, axes=(1,), site=site), site=f"{site}!")
    graph = b.build()
    move = next(m for m in find(graph, RULES) if "&" in m.place)
    reported = Provenance(graph, [move])
    assert reported.block_history("a").origins == ("a", "b")
    assert names(reported.block_history("a").events)[-1] == (0, move.rule, TOOK_OVER, "a")
    assert reported.block_history("b").became == ("a",)


def test_stale_moves_and_unknown_sites_are_refused_by_name() -> None:
    graph = two_softmaxes()
    with pytest.raises(StaleMove, match=r"reshard at gone \[\(\)\]: there is no block 'gone'"):
        Provenance(graph, [Move("reshard", "gone", "()")])
    with pytest.raises(StaleMove, match="there is no rule 'nonesuch'"):
        Provenance(graph, [Move("nonesuch", "a1")])
    with pytest.raises(ValueError, match=r"no block or tensor 'a9' in this history; known are ax, a0"):
        Provenance(graph, []).block_history("a9")
