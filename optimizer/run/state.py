"""The state of a search between two rounds: the one mutable object that outlives a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.optimizer.archive.goal import refilter
from tapestry.optimizer.placement.credits import Statistics, first_odds, new_statistics
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.variation import RULES as PLACEMENT_RULES
from tapestry.optimizer.run.clock import SearchClock
from tapestry.optimizer.run.diversification import KINDS, TURN_ROUNDS
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.plan import NOTHING_REPORTED, Budget, Progress, ReportBase
from tapestry.optimizer.run.variants import SubMesh, Variant
from tapestry.optimizer.run.workers import EpochResult
from tapestry.optimizer.structure.criteria import Criteria
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.rewrites import Move, replay
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements

STALE_ROUNDS = 24
LEAST_GAIN = 1e-4
# Reported hypervolumes are exact up to so many plans: for up to four objectives that takes less time than sampling.
EXACT_POINTS = 1024
# The name among the rules' statistics for plans made by a toolbox's own operators.
TOOLBOX = "toolbox"


class SearchStart(NamedTuple):
    """A part of the search that is still to begin.

    `kind` is "program", "view", "micro_batches", "recomputed", "offloaded", "reduced" or "stages", the program that
    `moves` make, on the submesh of this number; "relative", the one that such moves of a related program make, with
    `plans` of that; or what leads to plans and starts: "exact" plans of a variant, the best "views", a "presearch" for
    a submesh, "recomputation" instead of storage, "offloading" to the host, "reducing" gradients in rounds.
    """

    kind: str
    submesh: int = 0
    moves: tuple[Move, ...] = ()
    plans: tuple[Placements, ...] = ()


@dataclass
class SearchState:
    """The state that the next round depends on, and the figures that the search reports.

    `graph` is the program as it was given, `criteria` compare its rewritten forms. `statistics` are those of the
    compiled moves, `recent` those of late, `first_odds` the odds at first; `varied` counts the plans that a toolbox's
    own operators made, and those of them that entered the front. `timings` are in seconds; `base` is what reports are
    relative to. `reference` is the corner of the hypervolume by which the front stands still, `best_volume` what that
    was when the front last improved, `stale_rounds` ago; as long as no plan keeps all bounds, it is minus the least
    violation. `anchors` `(n, m)` are the values of plans the search was started
    from. `numbered` counts the numbers that variants were given. `starts` are what the search is still to begin, in
    this order. `proven` are bounds of the first objective by variant number, where a gap was asked for. `stopped` is
    the reason why the search has ended, a word of `plan.REASONS`; empty while it runs.
    """

    graph: Graph
    criteria: Criteria
    submeshes: tuple[SubMesh, ...]
    options: RunOptions
    structural: StructuralSearch
    islands: int
    seed: int
    rng: np.random.Generator
    clock: SearchClock = field(default_factory=SearchClock)
    parts: SearchParts = ALL_PARTS
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    variants: list[Variant] = field(default_factory=list)
    numbered: int = 0
    statistics: Statistics = field(default_factory=new_statistics)
    recent: Statistics = field(default_factory=lambda: new_statistics(np.float64))
    first_odds: np.ndarray = field(default_factory=first_odds)
    varied: tuple[int, int] = (0, 0)
    evaluations: int = 0
    rounds: int = 0
    timings: dict[str, float] = field(
        default_factory=lambda: {"compile_s": 0.0, "seeds_s": 0.0, "search_s": 0.0}
    )
    history: list[Progress] = field(default_factory=list)
    base: ReportBase = NOTHING_REPORTED
    reference: np.ndarray | None = None
    best_volume: float | None = None
    stale_rounds: int = 0
    started_from: int = 0
    anchors: np.ndarray | None = None
    starts: list[SearchStart] = field(default_factory=list)
    proven: dict[int, float] = field(default_factory=dict)
    stopped: str = ""

    def __post_init__(self) -> None:
        self.first_random_state = new_rng(
            self.rng
        )  # of the epochs that only load code; the rounds draw after it

    def new_number(self) -> int:
        """Return a number for a variant that none has had: files and candidate moves are kept by it."""
        self.numbered += 1
        return self.numbered - 1

    def graph_of(self, moves: tuple[Move, ...]) -> Graph:
        """Return the program that some moves make of the given one, from a variant whose history they begin with.

        Raises:
            StaleMove, RuleError: as for `replay`.
        """
        known = [v for v in self.variants if v.moves == moves[: len(v.moves)]]
        nearest = max(known, key=lambda v: len(v.moves), default=None)
        if nearest is None:
            return replay(self.graph, moves)
        rest = moves[len(nearest.moves) :]
        return replay(nearest.graph, rest) if rest else nearest.graph

    def insert_next(self, start: SearchStart, following: Sequence[SearchStart]) -> None:
        """Insert what follows from a start behind it."""
        at = self.starts.index(start) + 1
        self.starts[at:at] = following

    def all_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the objective values of all variants' fronts `(n, m)`, and the variant of each row."""
        parts = [v.archive.value[: int(v.archive.size[0])] for v in self.variants]
        owner = np.concatenate([np.full(len(p), k) for k, p in enumerate(parts)])
        return np.concatenate(parts), owner

    def shares(self) -> list[int]:
        """Count the plans of the common front that each variant holds.

        As long as no plan keeps all bounds, those that come nearest count.
        """
        values, owner = self.all_values()
        if not len(values):
            least = self.least_violation
            return [int(v.archive.size[1]) * (v.least_violation == least) for v in self.variants]
        mask = nondominated(values)
        return [int((mask & (owner == k)).sum()) for k in range(len(self.variants))]

    @property
    def least_violation(self) -> float:
        """The least by which a plan of any variant breaks the bounds; 0 where one keeps them all."""
        return min((variant.least_violation for variant in self.variants), default=np.inf)

    @property
    def counts_memory(self) -> bool:
        """True if memory is an objective or has a bound, or if no plan keeps all bounds."""
        wanted = (*self.options.objectives, *self.options.constraints)
        return any("memory" in text for text in wanted) or self.least_violation > 0.0

    def best_known(self) -> np.ndarray:
        """Return the least value found so far of each cost with a relative bound, infinite before any: `(bounds,)`."""
        return np.asarray(np.min([submesh.goal.best for submesh in self.submeshes], axis=0))

    def tighten(self, found: Sequence[tuple[Variant, EpochResult]] = ()) -> None:
        """Make relative bounds those of the best found anywhere, by variants or by the islands' epochs in `found`.

        Plans that break them leave the fronts of all variants and epochs.
        """
        if not len(self.submeshes[0].goal.shares):
            return
        best = np.min([self.best_known(), *(result.best for _, result in found)], axis=0)
        for submesh in self.submeshes:
            submesh.goal.best[:] = best
        for variant in self.variants:
            refilter(variant.archive, variant.submesh.goal)
        for variant, result in found:
            refilter(result.archive, variant.submesh.goal)

    @property
    def is_still(self) -> bool:
        """True if the front has not improved for long enough, and nothing is left to begin."""
        return self.stale_rounds >= STALE_ROUNDS and not self.starts

    @property
    def turn(self) -> int | None:
        """The number of the kind of diversification whose turn it is in this round; None in ordinary rounds.

        Every other round is ordinary. A mesh of one device has nothing to place, so no turns.
        """
        rounds = self.stale_rounds - STALE_ROUNDS
        return rounds // TURN_ROUNDS if self.is_still and self._takes_turns and rounds % 2 == 0 else None

    @property
    def is_converged(self) -> bool:
        """True if the front stands still, and no kind of diversification has found anything in its turn."""
        turns = len(KINDS) * TURN_ROUNDS if self._takes_turns else 0
        return self.is_still and self.stale_rounds >= STALE_ROUNDS + turns

    @property
    def _takes_turns(self) -> bool:
        return self.parts.diversification and any(variant.has_choice for variant in self.variants)

    def shorten_patience(self, rounds: int) -> None:
        """Set the front's count of rounds without improvement so that it is `rounds` short of converged."""
        values, _ = self.all_values()
        if len(values):
            self.reference = _corner(values)
            self.best_volume = hypervolume(values, self.reference)
            self.stale_rounds = STALE_ROUNDS - rounds

    def fix_corner(self, values: np.ndarray) -> None:
        """Let all reports measure the hypervolume from the corner of these values, the first that there are."""
        if self.base.corner is None and len(values):
            self.base = self.base._replace(corner=_corner(values))

    def note_round(self, budget: Budget) -> Progress:
        """Record a round: add a point to the history, and update whether the front still improves."""
        values, _ = self.all_values()
        report, volume = self.progress("searching", budget, values), -self.least_violation
        if len(values):
            self.reference = _corner(values) if self.reference is None else self.reference
            volume = hypervolume(values, self.reference)
        if self._has_gained(volume, report.best):
            self.best_volume, self.stale_rounds = volume, 0
        elif self.stale_rounds < STALE_ROUNDS or not self.starts:
            self.stale_rounds += 1
        self.history.append(report)
        return report

    def _has_gained(self, volume: float, best: Sequence[float]) -> bool:
        """Return whether the front has become better since the last round in which it did, however slowly.

        That is by its hypervolume, or the least value of any objective.
        """
        known = self.best_volume
        if known is None or volume - known > LEAST_GAIN * abs(known):
            return True
        before = self.history[-1 - self.stale_rounds].best if self.stale_rounds < len(self.history) else ()
        pairs = zip(best, before, strict=True) if before and best else ()
        return any(now < (1 - LEAST_GAIN) * then for now, then in pairs)

    def progress(self, phase: str, budget: Budget, values: np.ndarray) -> Progress:
        """Build a report on the front `values` `(n, m)`; without plans its hypervolume is zero."""
        self.fix_corner(values)
        corner = self.base.corner
        volume = 0.0 if corner is None else hypervolume(values, corner, EXACT_POINTS)
        best = tuple(float(v) for v in values.min(axis=0)) if len(values) else ()
        front = int(nondominated(values).sum())
        seconds, evaluations = (
            self.base.seconds + self.clock.spent_s,
            self.base.evaluations + self.evaluations,
        )
        return Progress(phase, seconds, evaluations, front, volume, best, self._fraction(budget))

    def _fraction(self, budget: Budget) -> float:
        evaluated = self.evaluations / budget.evaluations if budget.evaluations else 0.0
        return min(1.0, max(self.clock.fraction, evaluated))

    def rule_statistics(self) -> dict[str, tuple[int, int]]:
        """Return for each rule that was used: times applied, times a plan or variant entered the front."""
        counts = (self.statistics.applied.sum(axis=1), self.statistics.improved.sum(axis=1))
        placed = zip(PLACEMENT_RULES, *counts, strict=True)
        rules = {name: (int(a), int(b)) for name, a, b in placed}
        structural = self.structural.applied.items()
        rules |= {name: (a, self.structural.improved[name]) for name, a in structural if a}
        return rules | ({TOOLBOX: self.varied} if self.varied[0] else {})


def _corner(values: np.ndarray) -> np.ndarray:
    """Compute a corner of the hypervolume that all rows of `(n, m)` dominate."""
    corner: np.ndarray = values.max(axis=0) * 1.1 + 1e-9
    return corner
