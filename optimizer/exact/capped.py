"""Pairwise problems under a limit: at every time, what the labels of live nodes take sums up to at most the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit


class NoChoice(ValueError):
    """The finding that no choice of labels is without forbidden costs and within the limit."""


class Capped(NamedTuple):
    """A pairwise problem with a limit. Forbidden costs are infinite.

    Node `i` has costs and usages `(labels,)` and lives at times `spans[i] = [first, last)`; `tables[i, j]`, `i < j`,
    holds the costs of an edge `(labels of i, labels of j)`.
    """

    costs: Sequence[np.ndarray]
    usages: Sequence[np.ndarray]
    spans: np.ndarray  # (nodes, 2) int64
    tables: dict[tuple[int, int], np.ndarray]
    limit: int


class Loads(NamedTuple):
    """The amounts that labels of nodes take of slots, in flat arrays.

    Node `i` has segments `start[i]` to `start[i + 1]`; label `x` takes `usage[at[s] + x]` of each slot of
    `[first[s], last[s])`. Slot `t` has room for `capacity[t]`.
    """

    start: np.ndarray  # (nodes + 1,)
    first: np.ndarray  # (segments,)
    last: np.ndarray
    at: np.ndarray
    usage: np.ndarray
    capacity: np.ndarray  # (slots,)

    @classmethod
    def of(cls, profiles: Sequence[tuple[np.ndarray, np.ndarray]], capacity: np.ndarray) -> Loads:
        """Flatten profiles: cuts of segments `(segments + 1,)`, and usage `(segments, labels)`."""
        start, first, last, at, usage = [0], [], [], [], []
        size = 0
        for cuts, taken in profiles:
            used = np.flatnonzero(taken.any(axis=1))
            first.append(cuts[used])
            last.append(cuts[used + 1])
            at.append(size + np.arange(len(used)) * taken.shape[1])
            usage.append(taken[used].ravel())
            size += usage[-1].size
            start.append(start[-1] + len(used))
        return cls(
            np.array(start, np.int64),
            _joined(first, np.int64),
            _joined(last, np.int64),
            _joined(at, np.int64),
            _joined(usage, np.float64),
            np.ascontiguousarray(capacity, np.float64),
        )

    def charged(self, label_start: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """Return what every label pays at prices per slot `(labels,)`."""
        total = np.concatenate([[0.0], np.cumsum(prices)])
        found = np.zeros(label_start[-1])
        charge(self, label_start, total, found)
        return found

    def of_labels(self, labels: np.ndarray) -> np.ndarray:
        """Return the load of every slot `(slots,)`."""
        steps = np.zeros(len(self.capacity) + 1)
        step(self, labels, steps)
        return np.asarray(np.cumsum(steps)[:-1])


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate(parts) if parts else np.zeros(0), kind)


@njit(_nrt=False)
def charge(loads, label_start, total, found):
    """Add what labels pay, given sums of prices up to each slot."""
    for i in range(label_start.shape[0] - 1):
        count = label_start[i + 1] - label_start[i]
        for s in range(loads.start[i], loads.start[i + 1]):
            price = total[loads.last[s]] - total[loads.first[s]]
            if price != 0.0:
                for x in range(count):
                    found[label_start[i] + x] += price * loads.usage[loads.at[s] + x]


@njit(_nrt=False)
def step(loads, labels, steps):
    """Add the changes of load at each slot of a choice of labels."""
    for i in range(labels.shape[0]):
        for s in range(loads.start[i], loads.start[i + 1]):
            taken = loads.usage[loads.at[s] + labels[i]]
            steps[loads.first[s]] += taken
            steps[loads.last[s]] -= taken
