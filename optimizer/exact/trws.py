"""Sequential tree-reweighted message passing: labels of small cost, and a proven lower bound of every choice's cost.

Source: Kolmogorov, Convergent Tree-Reweighted Message Passing for Energy Minimization, TPAMI 2006.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.optimizer.exact.loops import pass_until_close
from tapestry.optimizer.exact.pairwise import Pairwise

CLOSE = 1e-5  # the relative gap at which a solution counts as exact
PASSES = 200
ROUNDING = 1e-9  # of sums in floating point, relatively


class Labeling(NamedTuple):
    """The best labels found `(nodes,)`, their cost, and a lower bound of the cost of all labels."""

    labels: np.ndarray
    energy: float
    bound: float
    passes: int

    @property
    def gap(self) -> float:
        """The relative distance of the labels' cost from the bound."""
        return (self.energy - self.bound) / max(abs(self.energy), 1e-300)


class Messages(NamedTuple):
    """The messages of a problem, kept to go on from: to the second node of each edge, and to the first."""

    forward: np.ndarray
    backward: np.ndarray
    forward_start: np.ndarray  # (edges,)
    backward_start: np.ndarray


def new_messages(problem: Pairwise) -> Messages:
    """Create messages that say nothing."""
    forward_start = np.concatenate([[0], np.cumsum(problem.columns)]).astype(np.int64)
    backward_start = np.concatenate([[0], np.cumsum(problem.rows)]).astype(np.int64)
    return Messages(
        np.zeros(forward_start[-1]), np.zeros(backward_start[-1]), forward_start[:-1], backward_start[:-1]
    )


def solve(
    problem: Pairwise, messages: Messages | None = None, *, passes: int = PASSES, close: float = CLOSE
) -> Labeling:
    """Minimize a problem: at most so many passes, until the gap is at most `close` or the bound stands still.

    Messages of an earlier problem with the same edges are a start as valid as any; they are changed.
    """
    messages = new_messages(problem) if messages is None else messages
    widest = int(max(np.diff(problem.label_start).max(initial=1), problem.rows.max(initial=1)))
    work = np.zeros((3, max(widest, int(problem.columns.max(initial=1)))))
    labels, best = np.zeros(problem.node_count, np.int64), np.zeros(problem.node_count, np.int64)
    least, bound, done = pass_until_close(problem, messages, work, labels, best, passes, close)
    return Labeling(best, least, bound - ROUNDING * abs(bound), done)
