"""Credits of placement moves, by kind of move and class of operator, and the odds of moves that follow from them.

An improvement is due to the moves that made it and, in part, to those that led to its parent. Between `variation` and
`island`; `optimizer.run` keeps the credits of a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.placement.search_space import PLACE_CLASSES, SearchSpace
from tapestry.optimizer.placement.variation import (
    EDGE_RULES,
    RELAYOUT,
    RULES,
    SLOT_RULES,
    SOURCE_RULES,
)

SHAPE = (len(RULES), len(PLACE_CLASSES))
# The share of an improvement that is due to the way to its parent.
HISTORY = 0.5
# What is known of moves at first counts as so many evaluations; what epochs tell counts less by this factor per round.
PRIOR_EVALUATIONS, FADING = 200.0, 0.9
# So many evaluations tell as much of one structure or view as what is known of all together; the range of their odds.
YIELD_EVALUATIONS, LEAST_YIELD, MOST_YIELD = 3000.0, 0.1, 10.0
# Odds grow with the square of the rate of credits. A kind of move that applies is drawn at least so often, over their
# number; a place of any class is taken at least so often where it is drawn.
FLOOR, LEAST_PLACE = 0.1, 0.1
# The relative odds of kinds of moves of which nothing is known, in the order of `RULES`.
FIRST_ODDS = (2.0, 3.0, 1.5, 2.0, 2.0, 1.0, 1.0, 1.0, 0.4, 2.0, 1.5)


class Statistics(NamedTuple):
    """Counts by kind of move and class of the operator that it acts on, arrays of `SHAPE`.

    `applicable` are moves that changed a plan, `applied` those whose plan was new and therefore evaluated, `improved`
    those whose plan entered an archive; `credit` shares each such plan among the moves of its history.
    """

    applicable: np.ndarray
    applied: np.ndarray
    improved: np.ndarray
    credit: np.ndarray

    def add(self, other: Statistics) -> None:
        """Add the counts of another one."""
        for mine, theirs in zip(self, other, strict=True):
            mine[:] += theirs

    def fade(self) -> None:
        """Let what is counted so far count less, beside what comes."""
        for mine in self:
            mine[:] *= FADING


def new_statistics(dtype: type = np.int64) -> Statistics:
    """Create statistics with all counts zero, of this type; credits are always fractions."""
    return Statistics(np.zeros(SHAPE, dtype), np.zeros(SHAPE, dtype), np.zeros(SHAPE, dtype), np.zeros(SHAPE))


class Odds(NamedTuple):
    """The weights of kinds of moves `(kinds,)`, and how often a place of each class is taken where it is drawn."""

    rule: np.ndarray
    place: np.ndarray


def first_odds() -> np.ndarray:
    """Return relative odds of moves before anything is known, of `SHAPE`."""
    return np.repeat(np.array(FIRST_ODDS)[:, None], SHAPE[1], axis=1)


def odds_of(recent: Statistics, first: np.ndarray, shares: np.ndarray) -> Odds:
    """Compute the odds of moves from what they brought lately, and relative odds at `first`, of `SHAPE`.

    `shares` `(kinds, classes)` are those of the places of each class, as `place_shares` gives them; a kind of move
    without any place does not apply.
    """
    applies = shares.sum(axis=1) > 0
    tried, credit = recent.applied.sum(), recent.credit.sum()
    mean = credit / tried if credit > 0 else 1.0
    expected = first / first[applies].mean() * mean if applies.any() else first
    rate = (recent.credit + PRIOR_EVALUATIONS * expected) / (recent.applied + PRIOR_EVALUATIONS)
    squares = np.where(shares > 0, rate, 0.0) ** 2
    weight = (shares * squares).sum(axis=1)
    total = weight.sum()
    floor = FLOOR / max(1, int(applies.sum()))
    rule = np.where(applies, (1.0 - FLOOR) * weight / total + floor, 0.0) if total > 0 else weight
    most = squares.max(axis=1, keepdims=True)
    place = np.divide(squares, most, out=np.ones(SHAPE), where=most > 0)
    return Odds(rule, np.maximum(place, LEAST_PLACE))


def place_shares(search: SearchSpace, has_dimension_orders: bool) -> np.ndarray:
    """Compute for each kind of move which share of its places is of each class, of `SHAPE`.

    Moves of the whole program have one place.
    """
    shares = np.zeros(SHAPE)
    shares[:, PLACE_CLASSES.index("program")] = 1.0
    genes, edges = search.gene_members[search.gene_start[:-1]], search.edge_members[search.edge_start[:-1]]
    for rules, classes in (
        (SLOT_RULES, search.place_class[genes[search.slot_classes]]),
        (SOURCE_RULES, search.place_class[genes[search.source_classes]]),
        (EDGE_RULES, search.place_class[search.edge_slot[edges]]),
    ):
        counts = np.bincount(classes, minlength=len(PLACE_CLASSES))
        shares[list(rules)] = counts / max(1, len(classes))
    if not has_dimension_orders:
        shares[RELAYOUT] = 0.0
    return shares


def yields(spent: Sequence[float], gained: Sequence[float]) -> np.ndarray:
    """Return the odds of variants by what their evaluations have brought, relative to all of them: `(variants,)`."""
    evaluations, entered = np.array(spent), np.array(gained)
    if not entered.sum():
        return np.ones(len(evaluations))
    mean = entered.sum() / evaluations.sum()
    rate = (entered + YIELD_EVALUATIONS * mean) / (evaluations + YIELD_EVALUATIONS)
    return np.asarray(np.clip(rate / mean, LEAST_YIELD, MOST_YIELD))
