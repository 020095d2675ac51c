"""Structural moves: proposing rewritten graphs, whole classes of equal places at a time.

A rule that fails, produces a result of another type, does not end or grows the program without bound is
disabled from then on, with its reason; the search continues with the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

import numpy as np

from tapestry.costmodel.block_cost import base_flops
from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.run.first_plans import insert_exact
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.variants import (
    Variant,
    inherit,
    keeps_pins,
    new_variant,
)
from tapestry.optimizer.structure.credits import StructuralCredits, arm_of
from tapestry.optimizer.structure.criteria import Criteria
from tapestry.optimizer.structure.presearch import Presearch
from tapestry.rewrites import (
    RECOMPOSITION,
    Changes,
    Move,
    Rule,
    RuleError,
    Saturated,
    StaleMove,
    Worklist,
    apply_all,
    find_tied,
    saturate,
)
from tapestry.rewrites.repetition.offloading import OFFLOAD
from tapestry.rewrites.repetition.recomputation import POSTPONE, RECOMPUTE
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tapestry.teg.sharding.rounds import RoundsError
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop, never_stop

# How much larger than the given program a rewritten one may be: more is growth without bound, not a detour.
# A contraction of many operands in the worst order takes easily a hundred thousand times the flops of the best.
MOST_BLOCKS_TIMES, MOST_BLOCKS_MORE, MOST_FLOPS_TIMES = 32, 4096, 1e7

# Rules that pay in many places at once, which `recomputation.py` and `offloading.py` choose.
PLANNED = (POSTPONE, OFFLOAD)

# Exact plans of a child, beside those that it inherits.
EXACT_PLANS = 16

# Kinds of spelled out operators in one program, a generous bound: each is found in all equal layers at once.
MOST_RECOMPOSITIONS = 200


class StructuralSearch:
    """The candidate structural moves left to try, and the number of times each rule led to a better front.

    `taken` holds per variant's number the candidate moves already used, each as its place in the list at that time:
    with them the remaining list can be rebuilt. `refused` gives the reason why a rule is not used any more.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.saturating = tuple(r for r in self.rules if r.saturating)
        self.endless = tuple(r for r in self.rules if not r.saturating and r.name not in PLANNED)
        self.recompositions = tuple(r for r in self.rules if r in RECOMPOSITION)
        self.known: set[str] = set()
        self.applied = {r.name: 0 for r in self.rules}
        self.improved = {r.name: 0 for r in self.rules}
        self.credits = StructuralCredits()
        self.refused: dict[str, str] = {}
        self.taken: dict[int, list[int]] = {}
        self._candidates: dict[int, Worklist] = {}
        self._left: dict[int, list[Move]] = {}
        self._origins: dict[int, tuple[Graph, int, Changes]] = {}
        self._most = (inf, inf)

    def simplified(self, graph: Graph, check_stop: CheckStop = never_stop) -> tuple[Graph, tuple[Move, ...]]:
        """Saturate the graph by the terminating rules and recompose expanded operators; return it and the moves to
        it.

        This happens only here: the search may keep its own later expansions. `check_stop` is called between moves.
        """
        result = self._saturated(graph, None, check_stop)
        moves, graph = list(result.moves), result.graph
        for _ in range(MOST_RECOMPOSITIONS):
            check_stop()
            try:
                usable = [r for r in self.recompositions if r.name not in self.refused]
                again = find_tied(graph, usable)[:1]
                if not again:
                    break
                applied = apply_all(graph, again, {r.name: r for r in self.rules})
            except RuleError as error:
                self.refuse(error.rule, error.reason)
                continue
            result = self._saturated(applied.graph, applied.changes, check_stop)
            moves, graph = [*moves, *again, *result.moves], result.graph
        for move in moves:
            self.applied[move.rule] += 1
        return graph, tuple(moves)

    def presearch(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        criteria: Criteria,
        options: RunOptions,
        limit: int | None,
        effort: float = 1.0,
        schedule_orders: Sequence[str] = SCHEDULE_ORDERS[:1],
    ) -> Presearch:
        """Build a presearch over the graphs that rewriting alone derives on one device; pinned blocks stay.

        They are compared by `criteria`. `effort` is the share of the evaluations that the program's size warrants,
        `schedule_orders` are the schedule orders to choose from.
        """

        def rewrite(before: Graph, move: Move) -> Saturated | None:
            after = self.rewritten(before, move)
            return after if after is not None and keeps_pins(after.graph, options.pins) else None

        dtype = options.compute_dtype
        rules = [r for r in self.endless if r.name != RECOMPUTE]  # `recomputation.py` applies it in one go
        return Presearch(graph, moves, criteria, rules, rewrite, limit, effort, schedule_orders, dtype)

    def propose(
        self, parent: Variant, number: int, rng: np.random.Generator
    ) -> tuple[Graph, tuple[Move, ...], str] | None:
        """Propose a rewritten graph not seen before, with its history and the rule; None when there is none to try.

        `number` is the future number of the variant of this graph. How many candidate moves a rule has does not count.
        """
        candidates = self._candidates_of(parent)
        count = Counter(move.rule for move in candidates)
        arms = [arm_of(parent.graph, move) for move in candidates]
        odds = {arm: 0.0 if arm[0] in self.refused else self.credits.odds(arm) for arm in set(arms)}
        weight = np.array([odds[arm] / count[arm[0]] for arm in arms])
        if not weight.any():
            return None
        place = int(rng.choice(len(candidates), p=weight / weight.sum()))
        self.credits.note_untried(odds.keys() - {arms[place]})
        move = candidates.pop(place)
        self.taken.setdefault(parent.number, []).append(place)
        made = self.rewritten(parent.graph, move)
        if made is None or made.graph.structural_hash in self.known:
            return None
        self.known.add(made.graph.structural_hash)
        self._origins[number] = (made.graph, parent.number, made.changes)
        return made.graph, (*parent.moves, *made.moves), move.rule

    def rewritten(self, graph: Graph, move: Move, *others: Move) -> Saturated | None:
        """Apply one or more moves and simplify; return the graph, all moves and changes, or None if one fails."""
        moves = (move, *others)
        if any(each.rule in self.refused for each in moves):
            return None
        try:
            applied = apply_all(graph, moves, {r.name: r for r in self.rules})
            self._check_size(graph, applied.graph, moves[-1])
        except StaleMove:
            return None
        except RuleError as error:
            self.refuse(error.rule, error.reason)
            return None
        cleaned = self._saturated(applied.graph, applied.changes)
        for each in moves:
            self.applied[each.rule] += 1
            self.credits.note(graph, each)
        return Saturated(cleaned.graph, [*moves, *cleaned.moves], applied.changes | cleaned.changes)

    def rule_behind(self, moves: Sequence[Move]) -> str:
        """Return the rule of the last move that was tried, and did not only simplify what others made."""
        tried = self.credits.arms_of(moves)
        return tried[-1][0] if tried else moves[-1].rule

    def improve(self, rule: str, moves: Sequence[Move]) -> None:
        """Count a better front by the program that these moves made, the last of them by `rule`."""
        self.improved[rule] += 1
        self.credits.improve(moves)

    def refuse(self, rule: str, reason: str) -> None:
        """Disable a rule, and remember the reason."""
        self.refused.setdefault(rule, reason)

    def _saturated(
        self, graph: Graph, changes: Changes | None, check_stop: CheckStop = never_stop
    ) -> Saturated:
        while True:
            try:
                usable = [r for r in self.saturating if r.name not in self.refused]
                return saturate(graph, usable, changes=changes, check_stop=check_stop)
            except RuleError as error:
                self.refuse(error.rule, error.reason)

    def _candidates_of(self, parent: Variant) -> list[Move]:
        """Return the candidate moves not yet tried on a variant."""
        if parent.number not in self._left:
            known = self._known_worklist(parent)
            for failure in known.failures:
                self.refuse(*failure)
            candidates = known.tied()
            for place in self.taken.get(parent.number, ()):
                del candidates[place]
            self._candidates[parent.number], self._left[parent.number] = known, candidates
        return self._left[parent.number]

    def _known_worklist(self, parent: Variant) -> Worklist:
        """Return the candidate moves of a variant, updated from those of its parent where they are known."""
        graph, origin, changes = self._origins.pop(parent.number, (None, 0, None))
        if graph is parent.graph and changes is not None and origin in self._candidates:
            return self._candidates[origin].after(graph, changes)
        return Worklist.of(parent.graph, self.endless)

    def start(self, given: Graph) -> None:
        """Set the limits on the size of a rewritten program, before the first move."""
        flops = max(base_flops(given), 1)
        self._most = (MOST_BLOCKS_TIMES * len(given.blocks) + MOST_BLOCKS_MORE, MOST_FLOPS_TIMES * flops)

    def _check_size(self, before: Graph, after: Graph, move: Move) -> None:
        """Raise `RuleError` for a graph larger than any that could lead to a better program."""
        for unit, measure, most in zip(("blocks", "flops"), (_blocks, base_flops), self._most, strict=True):
            size = measure(after)
            if size > most and size > measure(before):
                raise RuleError(
                    move.rule,
                    f"grows the program without bound: {size:.4g} {unit} after {move}, more than {most:.4g}",
                )


def _blocks(graph: Graph) -> int:
    return len(graph.blocks)


def try_child(
    structural: StructuralSearch,
    parent: Variant,
    number: int,
    options: RunOptions,
    rng: np.random.Generator,
    limit: int | None,
    exact: bool = True,
    check_stop: CheckStop = never_stop,
) -> tuple[Variant | None, str, int]:
    """Propose, compile and polish one child; return it (or None), its rule and the evaluations spent.

    `limit` bounds the evaluations spent on the plans it inherits; `exact` adds exact plans to them. `check_stop` is
    called between units of work.
    """
    proposal = structural.propose(parent, number, rng)
    if proposal is None:
        return None, "", 0
    graph, moves, rule = proposal
    if not keeps_pins(graph, options.pins):
        return None, "", 0
    try:
        child = new_variant(number, parent.submesh, graph, moves, options, check_stop)
    except (
        OutOfRange,
        RoundsError,
        ScheduleError,
    ):  # it cannot be counted, or cannot run in the parent's rounds
        return None, "", 0
    spent = inherit(child, parent, limit)
    left = EXACT_PLANS if limit is None else min(EXACT_PLANS, limit - spent)
    if exact and child.has_choice:
        spent += sum(insert_exact(child, left))
    return child, rule, spent
