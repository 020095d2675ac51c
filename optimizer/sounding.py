"""Rewriting ahead of compilation: many graphs judged as they stand on one device, the best of them handed on.

Where a machine has one device there is nothing to place: a program's time is the sum of its blocks' times, its
memory that of its live tensors, and a rewritten graph is judged in about the time that rewriting it took. The
search is best first over whole graphs, as in TASO (Jia et al., SOSP 2019, section 5: what is worse by less than a
factor is followed too), here for two objectives: in turn by time, by both, and by memory. A rule that helps is
pursued by itself as long as it does, so that a law that pays after several applications (the third of three
products that are merged) is not lost beside another one that pays at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costmodel.unsharded import UnshardedCost, UnshardedCosts
from rewrites import Changes, Move, Offers, Rule, Saturated
from teg.graph import Definition, Graph

# How much slower than the best so far, for its memory, a graph may be to be rewritten further.
ALLOWANCE = 1.05

# Rewritten graphs that a sounding may judge: so many blocks in all, at least and at most so many graphs.
BLOCKS, FEWEST, MOST = 300_000, 64, 4096

# Expansions in a row that may add nothing to the front before a sounding ends.
QUIET = 9

Order = Callable[[UnshardedCost], float]
ORDERS: tuple[Order, ...] = (
    lambda cost: cost.time_ticks,
    lambda cost: math.log(cost.time_ticks + 1) + math.log(cost.peak_memory_bytes + 1),
    lambda cost: cost.peak_memory_bytes,
)

# What a move makes of a graph, with all that was done to it; None where it leads nowhere.
Rewrite = Callable[[Graph, Move], Saturated | None]


@dataclass(frozen=True, eq=False)
class Sounded:
    """A graph, the moves that lead to it, and what it costs on one device.

    `origin` are the offers of the graph that it was made of, which `changes` tells apart from its own.
    """

    graph: Graph
    moves: tuple[Move, ...]
    cost: UnshardedCost
    origin: Offers | None = None
    changes: Changes | None = None

    def offers(self, rules: Sequence[Rule]) -> Offers:
        """All moves of this graph."""
        if self.origin is None or self.changes is None:
            return Offers.of(self.graph, rules)
        return self.origin.after(self.graph, self.changes)


class Sounding:
    """A search over rewritten graphs; `front` holds those that none beats in time and memory, `judged` counts.

    `rewrite` carries a move out. At most `limit` graphs are judged, and no more than a share `effort` of what the
    program's size warrants.
    """

    def __init__(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        costs: UnshardedCosts,
        rules: Sequence[Rule],
        rewrite: Rewrite,
        limit: int | None = None,
        effort: float = 1.0,
    ) -> None:
        self.costs, self.rules, self.rewrite = costs, tuple(rules), rewrite
        most = min(MOST, max(FEWEST, int(effort * BLOCKS) // max(1, len(graph.blocks))))
        self.most = most if limit is None else min(most, limit)
        start = Sounded(graph, moves, costs.cost(graph))
        self.front = [start]
        self.waiting = [start]
        self.judged = 0
        self._seen = {_fingerprint(start)}

    def run(self) -> list[Sounded]:
        """The front, fastest first, once nothing promising is left, nothing new comes, or the limit is met."""
        quiet = turn = 0
        while self.waiting and self.judged < self.most and quiet < QUIET:
            order = ORDERS[turn % len(ORDERS)]
            best = min(self.waiting, key=lambda s: order(s.cost))
            self.waiting.remove(best)
            if _is_promising(best.cost, self.front):
                turn += 1
                quiet = 0 if self._expand(best, order) else quiet + 1
        return sorted(self.front, key=lambda s: s.cost)

    def _expand(self, parent: Sounded, order: Order) -> bool:
        """Judge all that one move makes of a graph, and pursue the rules that help; True if the front gained."""
        before = list(self.front)
        best: dict[str, Sounded] = {}
        offers = parent.offers(self.rules)
        for move in offers.tied():
            child = self._judge(parent, move, offers)
            if child is not None and (
                move.rule not in best or order(child.cost) < order(best[move.rule].cost)
            ):
                best[move.rule] = child
        for rule, child in best.items():
            if order(child.cost) < order(parent.cost):
                self._pursue(child, rule, order)
        return self.front != before

    def _pursue(self, start: Sounded, rule: str, order: Order) -> None:
        """Go on with one rule as long as it helps."""
        while True:
            offers = start.offers(self.rules)
            children = [self._judge(start, move, offers) for move in offers.tied() if move.rule == rule]
            best = min((c for c in children if c is not None), key=lambda c: order(c.cost), default=start)
            if order(best.cost) >= order(start.cost):
                return
            start = best

    def _judge(self, parent: Sounded, move: Move, offers: Offers) -> Sounded | None:
        """What a move makes of a graph, where it fits and is new; on the front and in the queue if it belongs there."""
        made = self.rewrite(parent.graph, move) if self.judged < self.most else None
        if made is None:
            return None
        self.judged += 1
        moves = (*parent.moves, *made.moves)
        child = Sounded(made.graph, moves, self.costs.cost(made.graph), offers, made.changes)
        key = _fingerprint(child)
        if key in self._seen:
            return None
        self._seen.add(key)
        if not any(_is_as_good(other.cost, child.cost) for other in self.front):
            self.front = [other for other in self.front if not _is_as_good(child.cost, other.cost)]
            self.front.append(child)
        if _is_promising(child.cost, self.front):
            self.waiting.append(child)
        return child


def _fingerprint(sounded: Sounded) -> tuple[UnshardedCost, int]:
    """Equal for graphs that cost the same and consist of the same definitions: one of them is enough."""
    counts: dict[Definition, int] = {}
    for block in sounded.graph.blocks:
        counts[block.definition] = counts.get(block.definition, 0) + 1
    return sounded.cost, hash(frozenset(counts.items()))


def _is_as_good(one: UnshardedCost, other: UnshardedCost) -> bool:
    return one.time_ticks <= other.time_ticks and one.peak_memory_bytes <= other.peak_memory_bytes


def _is_promising(cost: UnshardedCost, front: Sequence[Sounded]) -> bool:
    """Whether no graph of the front takes as little memory and is faster by more than the allowance."""
    return not any(
        other.cost.time_ticks * ALLOWANCE < cost.time_ticks
        and other.cost.peak_memory_bytes <= cost.peak_memory_bytes
        for other in front
    )
