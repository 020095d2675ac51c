"""Credits of structural moves, by rule and class of the operator that they act on, and the odds that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.operators.block_class import class_of_block

# A rule and a class of operators.
Arm = tuple[str, str]
# The share of an improvement that is due to the moves before the last one.
HISTORY = 0.5
# A rule that has helped counts so much more for each improvement, and less for each time it was tried.
GAIN, COST = 3.0, 0.5
# No applicable rule has lower odds; those of an untried rule of which nothing is known are 1.
FLOOR = 0.05


@dataclass
class MoveCounts:
    """Counts of moves: `applied` were tried, `improved` led to a better front at once.

    `applicable` counts the times when one could have been tried. `credit` shares the plans that entered the front later
    among the moves of their history.
    """

    applicable: int = 0
    applied: int = 0
    improved: int = 0
    credit: float = 0.0


@dataclass
class StructuralCredits:
    """The counts of structural moves in one search; `first` are odds by arm at first.

    A rule has there, with no class, the odds for classes that it was not tried on. Those in neither are 1, those of the
    `floored` rules the floor. `classes` has the class of operator of every move that was tried.
    """

    first: Mapping[Arm, float] = field(default_factory=dict)
    floored: frozenset[str] = frozenset()
    counts: defaultdict[Arm, MoveCounts] = field(default_factory=lambda: defaultdict(MoveCounts))
    classes: dict[Move, str] = field(default_factory=dict)

    def note_untried(self, arms: Iterable[Arm]) -> None:
        """Count what could have been tried in place of a move that is."""
        for arm in arms:
            self.counts[arm].applicable += 1

    def note(self, graph: Graph, move: Move) -> None:
        """Count a move that is tried on a graph."""
        arm = arm_of(graph, move)
        self.classes[move] = arm[1]
        self.counts[arm].applicable += 1
        self.counts[arm].applied += 1

    def improve(self, moves: Sequence[Move]) -> None:
        """Count an improvement by a program as it was made, which is due to the last of its moves that was tried."""
        if tried := self.arms_of(moves):
            self.counts[tried[-1]].improved += 1

    def credit(self, moves: Sequence[Move], share: float) -> None:
        """Credit the moves that made a program with its share of what entered the front in a round: the last most."""
        for arm in reversed(self.arms_of(moves)):
            share *= HISTORY
            self.counts[arm].credit += share

    def odds(self, arm: Arm) -> float:
        """Return the odds of a rule on operators of a class: above a floor, more where it helped on any."""
        tried = [counts for (rule, _), counts in self.counts.items() if rule == arm[0]]
        gained = sum(counts.improved + counts.credit for counts in tried)
        applied = sum(counts.applied for counts in tried)
        unknown = FLOOR if arm[0] in self.floored else 1.0
        first = self.first.get(arm, self.first.get((arm[0], ""), unknown))
        return max(FLOOR, (first + GAIN * gained) / (1.0 + COST * applied))

    def arms_of(self, moves: Sequence[Move]) -> list[Arm]:
        """Return the arms of those of the moves that were tried, not those that simplified the result."""
        return [(move.rule, self.classes[move]) for move in moves if move in self.classes]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON; `from_json` reads it back."""
        counts = [[*arm, c.applicable, c.applied, c.improved, c.credit] for arm, c in self.counts.items()]
        return {"counts": counts, "classes": [[move.to_json(), name] for move, name in self.classes.items()]}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Set what `to_json` gave."""
        self.counts.clear()
        for rule, name, applicable, applied, improved, credit in document["counts"]:
            self.counts[rule, name] = MoveCounts(int(applicable), int(applied), int(improved), float(credit))
        self.classes = {Move.from_json(move): str(name) for move, name in document["classes"]}


def arm_of(graph: Graph, move: Move) -> Arm:
    """Return the rule of a move and the class of the operator at its first place."""
    return move.rule, class_of_block(graph, graph.by_site[move.places[0].partition("&")[0]])
