"""Application of many moves: a pass per rule, bounded passes, and saturation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import NamedTuple

from tapestry.rewrites.finding import find
from tapestry.rewrites.index import Index, index_of, may_begin
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.measure import rises
from tapestry.rewrites.move import Move
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.neighborhood import Changes, changes_of, near
from tapestry.rewrites.patterns import tree_size
from tapestry.rewrites.replacement import apply_match
from tapestry.rewrites.rule import Rule, RuleError
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Graph
from tapestry.teg.stopping import CheckStop, never_stop


class Saturated(NamedTuple):
    """The graph in which no rule matches any more, the moves that lead there, and their changes."""

    graph: Graph
    moves: list[Move]
    changes: Changes


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    limit: int | None = None,
    changes: Changes | None = None,
    check_stop: CheckStop = never_stop,
) -> Saturated:
    """Apply the rules wherever they match, rule by rule, each in program order, until none does.

    The rewrites of one rule in one pass are one move of many places. `changes` are those of the moves made since the
    graph was last saturated: then only their neighborhood is searched. `check_stop` is called before each rule and
    after each move.

    It ends because the measure (`rewrites.measure`) falls: every move is checked for that as far as its
    neighborhood decides it, and there may be `limit` moves (by default 20 per block) for which it does not.

    Raises:
        ValueError: a rule is not declared to end.
        RuleError: a move raises the measure, or there are more than `limit` that do not lower it visibly; the
            rule is named, in the second case the one with most of these.
    """
    endless = [r.name for r in rules if not r.saturating]
    if endless:
        raise ValueError(
            f"rules {endless} are not saturating: applying them may never end; let a search choose"
        )
    edited, fired, index = MutableGraph(graph), list[Move](), index_of(tuple(rules))
    ending = _Ending(1000 + 20 * len(graph.blocks) if limit is None else limit)
    places: Collection[str] = edited.blocks.keys() if changes is None else near(edited, rules, changes)
    blocks, tensors = set[str](), set[str]()
    while places:
        tracked = TrackedGraph(edited)
        for rule, sites in _by_rule(edited, index, places).items():
            check_stop()
            for site in sites:
                while (move := _first(edited, tracked, index, rule, site)) is not None:
                    tracked = TrackedGraph(edited)
                    fired.append(move)
                    ending.check(edited, move)
                    check_stop()
        new = changes_of(edited)
        blocks |= new.blocks
        tensors |= new.tensors
        edited.changed, edited.reread = set(), set()
        places = near(edited, rules, new)
    index.check()
    return Saturated(edited.graph(), _in_runs(fired), Changes(frozenset(blocks), frozenset(tensors)))


# How much larger than the given program a rewritten one may be, and how many parts an expression may have.
MOST_BLOCKS_TIMES, MOST_BLOCKS_MORE, LARGEST_EXPRESSION = 32, 4096, 20_000


class Repeated(NamedTuple):
    """A graph after passes that were stopped; `unfinished` are the rules that still match there."""

    graph: Graph
    moves: list[Move]
    unfinished: tuple[str, ...]


def apply_once(graph: Graph, rules: Sequence[Rule]) -> Saturated:
    """Run one pass per rule, in turn: at each block, in program order, make the first move that matches.

    Blocks that a rule adds are not visited again by the same rule, so this ends.

    Raises:
        RuleError: a rule fails; the message names it.
    """
    edited, fired, room = MutableGraph(graph), list[Move](), _Room(graph)
    for rule in rules:
        fired += _pass(edited, rule, room)
    return Saturated(edited.graph(), _in_runs(fired), changes_of(edited))


def repeat(graph: Graph, rules: Sequence[Rule], most: int | None = None) -> Repeated:
    """Repeat passes while a rule matches, up to `most` moves (by default four for each block and 100 more).

    Saturating rules among them are applied until none fits, before and after each pass.

    Raises:
        RuleError: a rule fails, or grows the program without bound; it says which.
    """
    room = _Room(graph)
    bound = 100 + 4 * len(graph.blocks) if most is None else most
    ending, others = [r for r in rules if r.saturating], [r for r in rules if not r.saturating]
    fired, count = list[Move](), 0
    while True:
        simple = saturate(graph, ending)
        fired += simple.moves
        edited, done = MutableGraph(simple.graph), list[Move]()
        for rule in others:
            done += _pass(edited, rule, room, bound - count - len(done))
        graph = edited.graph()
        fired += _in_runs(done)
        count += len(done)
        if not done or count >= bound:
            return Repeated(graph, fired, tuple(dict.fromkeys(m.rule for m in find(graph, others))))


def _pass(edited: MutableGraph, rule: Rule, room: _Room, most: int | None = None) -> list[Move]:
    """Run one pass of a rule over the present blocks, of at most `most` moves."""
    fired: list[Move] = []
    index = index_of((rule,))
    for block in edited.ordered(edited.blocks):
        if most is not None and len(fired) >= most:
            break
        if edited.blocks.get(block.site) is block and index.rules_for(edited, block):
            move = _first(edited, TrackedGraph(edited), index, rule, block.site)
            if move is not None:
                fired.append(move)
                room.check(edited, move)
    return fired


class _Room:
    """The size limits of a program under rules that need not end: growth beyond them counts as unbounded."""

    def __init__(self, graph: Graph) -> None:
        self.blocks = MOST_BLOCKS_MORE + MOST_BLOCKS_TIMES * len(graph.blocks)
        cells = (tree_size(b.definition["expr"]) for b in graph.blocks if b.operator == "cell")
        self.parts = max([LARGEST_EXPRESSION, *(2 * size for size in cells)])

    def check(self, edited: MutableGraph, move: Move) -> None:
        """Check the blocks that the last move added.

        Raises:
            RuleError: the program or an expression has grown too large.
        """
        if len(edited.blocks) > self.blocks:
            raise RuleError(
                move.rule, f"grows the program without bound: {len(edited.blocks)} blocks after {move}"
            )
        for block in edited.put_in:
            size = tree_size(block.definition["expr"]) if block.operator == "cell" else 0
            if size > self.parts:
                raise RuleError(
                    move.rule, f"grows a cell without bound: an expression of {size} parts after {move}"
                )
        edited.put_in.clear()
        edited.taken_out.clear()


class _Ending:
    """The termination argument of saturation, checked move by move."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.unclear: Counter[str] = Counter()

    def check(self, edited: MutableGraph, move: Move) -> None:
        """Check the blocks that the last move added and removed.

        Raises:
            RuleError: it does not end.
        """
        rising = rises(edited.taken_out, edited.put_in)
        if rising:
            raise RuleError(
                move.rule,
                f"does not end: it is declared to be saturating, but {move} makes {_sizes_of(edited.put_in)} out of "
                f"{_sizes_of(edited.taken_out)}",
            )
        if rising is None:
            self.unclear[move.rule] += 1
            if self.unclear.total() > self.limit:
                name, count = self.unclear.most_common(1)[0]
                raise RuleError(name, f"does not end: it fired {count} times and nothing became smaller")
        edited.put_in.clear()
        edited.taken_out.clear()


def _sizes_of(blocks: Sequence[Block]) -> str:
    plural = "" if len(blocks) == 1 else "s"
    return f"{len(blocks)} block{plural} ({', '.join(b.operator for b in blocks[:4])}{', ...' * (len(blocks) > 4)})"


def _by_rule(edited: MutableGraph, index: Index, places: Collection[str]) -> dict[Rule, list[str]]:
    """Map each rule to the places at which it may match, in program order."""
    found: dict[Rule, list[str]] = {rule: [] for rule in index.rules}
    for block in edited.ordered(places):
        unmatched = index.unmatched(edited, block)
        for rule in index.rules_for(edited, block):
            if rule not in unmatched:
                found[rule].append(block.site)
    return found


def _first(edited: MutableGraph, tracked: TrackedGraph, index: Index, rule: Rule, place: str) -> Move | None:
    """Carry out a rule's first move at a place, and return it; None if there is none."""
    block = edited.blocks.get(place)
    if block is None or not may_begin(rule, edited, block):
        return None
    tracked.clear_reads()
    found = alternatives(tracked, rule, place)
    if not found:
        if not tracked.log:
            index.unmatched(edited, block).add(rule)
        return None
    move, match = found[0]
    apply_match(edited, rule, match, move)
    return move


def _in_runs(moves: Sequence[Move]) -> list[Move]:
    """Merge consecutive moves of one rule and choice into one move of many places."""
    runs = groupby(moves, key=lambda m: (m.rule, m.choice))
    tied = ((rule, tuple(p for m in run for p in m.places), choice) for (rule, choice), run in runs)
    return [Move(rule, places if len(places) > 1 else places[0], choice) for rule, places, choice in tied]
