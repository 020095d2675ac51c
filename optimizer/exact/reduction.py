"""Reduction of a capped pairwise problem to a smaller one with the same least cost.

What is removed: labels that no choice without forbidden costs can have, that do not fit under the limit whatever the
others are, or that another label beats whatever the others are (Goldstein, Efficient rotamer elimination, 1994);
nodes whose label another's decides; nodes without influence on loads that have at most two neighbors; slots at
which every choice fits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.exact.capped import Capped, Loads, NoChoice
from tapestry.optimizer.exact.pairwise import Edge, Pairwise, pairwise

LARGEST_ELIMINATION = 20_000_000  # labels of a node times those of its two neighbors
LARGEST_PRICE = 1e15
LARGEST_COMPARISON = 8_000_000  # labels of a node, squared, times those of a neighbor


class Profile(NamedTuple):
    """The loads of a node over slots: in `[cuts[s], cuts[s + 1])`, label `x` takes `usage[s, x]`."""

    cuts: np.ndarray  # (segments + 1,) int64
    usage: np.ndarray  # (segments, labels)


class Decided(NamedTuple):
    """A node whose label follows from those of others: `labels`, indexed by the labels of `by`."""

    node: int
    by: tuple[int, ...]
    labels: np.ndarray


class Reduced(NamedTuple):
    """A smaller problem, and how its choices become choices of the problem it was made from."""

    problem: Pairwise
    loads: Loads
    constant: float  # of all costs, beside those of `problem`
    nodes: list[int]
    names: list[np.ndarray]  # of each node's labels, in the problem it was made from
    decided: list[Decided]
    node_count: int

    def expand(self, labels: np.ndarray) -> list[int]:
        """Return the label of every node of the problem that this was made from."""
        found = [-1] * self.node_count
        for node, names, x in zip(self.nodes, self.names, labels, strict=True):
            found[node] = int(names[x])
        for node, by, table in reversed(self.decided):
            found[node] = int(table[tuple(found[n] for n in by)])
        return found


def reduce(problem: Capped) -> Reduced:
    """Reduce a problem as far as the rules above go.

    Raises:
        NoChoice: no choice of labels is without forbidden costs and within the limit.
    """
    costs, tables = consistent(problem)
    work = _Work(len(costs))
    slots = _slots(problem)
    groups, maps = _equalities(costs, tables)
    for root, members in groups.items():
        work.costs[root] = sum((costs[v][maps[v]] for v in members), start=np.zeros(len(maps[root])))
        work.names[root] = np.arange(len(maps[root]))
        work.profiles[root] = _profile(problem, slots, members, maps)
        work.decided.extend(Decided(v, (root,), maps[v]) for v in members if v != root)
    root_of = {v: root for root, members in groups.items() for v in members}
    for (i, j), table in tables.items():
        work.add(root_of[i], root_of[j], maps[i], maps[j], table)
    work.capacity = np.full(len(slots), float(problem.limit))
    work.run()
    return work.result(len(costs))


def consistent(problem: Capped) -> tuple[list[np.ndarray], dict[tuple[int, int], np.ndarray]]:
    """Return costs and tables, infinite for labels that have no finite partner across some edge."""
    costs = [c.copy() for c in problem.costs]
    tables = dict(problem.tables)
    touching: list[list[tuple[int, int]]] = [[] for _ in costs]
    finite = {}
    for pair, table in tables.items():
        allowed = np.isfinite(table)
        if not allowed.all():
            finite[pair] = allowed
            touching[pair[0]].append(pair)
            touching[pair[1]].append(pair)
    alive = [np.isfinite(c) for c in costs]
    waiting = deque(finite)
    queued = set(finite)
    while waiting:
        pair = waiting.popleft()
        queued.discard(pair)
        i, j = pair
        both = finite[pair] & alive[i][:, None] & alive[j]
        for v, left in ((i, both.any(axis=1)), (j, both.any(axis=0))):
            if left.sum() < alive[v].sum():
                alive[v] = left
                for other in touching[v]:
                    if other not in queued:
                        queued.add(other)
                        waiting.append(other)
    for v, left in enumerate(alive):
        if not left.any():
            raise NoChoice(f"every label of node {v} is forbidden")
        costs[v][~left] = np.inf
    return costs, tables


def _slots(problem: Capped) -> np.ndarray:
    """Return the first times at which sets of live nodes are that no other time's set contains."""
    spans = problem.spans[problem.spans[:, 1] > problem.spans[:, 0]]
    starts, ends = np.unique(spans[:, 0]), np.unique(spans[:, 1])
    following = np.searchsorted(starts, starts, side="right")
    next_start = np.append(starts, np.iinfo(np.int64).max)[following]
    next_end = ends[np.searchsorted(ends, starts, side="right")] if len(starts) else starts
    return starts[next_end <= next_start]


def _equalities(
    costs: Sequence[np.ndarray], tables: dict[tuple[int, int], np.ndarray]
) -> tuple[dict[int, list[int]], dict[int, np.ndarray]]:
    """Return groups of nodes whose labels decide each other, by a root, and their labels for each of the root's."""
    joined: list[list[tuple[int, np.ndarray]]] = [[] for _ in costs]
    alive = [np.isfinite(c) for c in costs]
    for (i, j), table in tables.items():
        allowed = np.isfinite(table)
        if allowed.all():
            continue
        allowed &= alive[i][:, None] & alive[j]
        if (allowed.sum(axis=1)[alive[i]] == 1).all() and (allowed.sum(axis=0)[alive[j]] == 1).all():
            joined[i].append((j, np.where(alive[i], allowed.argmax(axis=1), -1)))
            joined[j].append((i, np.where(alive[j], allowed.argmax(axis=0), -1)))
    groups: dict[int, list[int]] = {}
    maps: dict[int, np.ndarray] = {}
    for root in range(len(costs)):
        if root in maps:
            continue
        # A forbidden label of the root stands for label zero of others; its own infinite cost keeps it forbidden.
        maps[root] = np.arange(len(costs[root]))
        members = [root]
        for v in members:
            for other, partner in joined[v]:
                if other not in maps:
                    maps[other] = np.maximum(partner[maps[v]], 0)
                    members.append(other)
        groups[root] = members
    return groups, maps


def _profile(problem: Capped, slots: np.ndarray, members: list[int], maps: dict[int, np.ndarray]) -> Profile:
    spans = np.searchsorted(slots, problem.spans[members])
    live = np.flatnonzero(spans[:, 1] > spans[:, 0])
    cuts = np.unique(spans[live])
    labels = len(maps[members[0]])
    if not len(cuts):
        return Profile(np.zeros(1, np.int64), np.zeros((0, labels)))
    steps = np.zeros((len(cuts), labels))
    at = np.searchsorted(cuts, spans)
    for m in live:
        usage = problem.usages[members[m]][maps[members[m]]]
        steps[at[m, 0]] += usage
        steps[at[m, 1]] -= usage
    return Profile(cuts.astype(np.int64), np.cumsum(steps, axis=0)[:-1])


def priced(unary: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Return tables with a finite price for what is forbidden: more than any choice can gain, within limits."""
    finite = tables[np.isfinite(tables)]
    price = 2 * float(np.abs(unary).sum() + np.abs(finite).max(initial=1.0) * len(unary))
    return np.where(np.isfinite(tables), tables, min(price, LARGEST_PRICE))


class _Work:
    """A problem in the course of its reduction."""

    def __init__(self, node_count: int) -> None:
        self.costs: dict[int, np.ndarray] = {}
        self.names: dict[int, np.ndarray] = {}
        self.profiles: dict[int, Profile] = {}
        self.edges: dict[int, dict[int, np.ndarray]] = {v: {} for v in range(node_count)}
        self.label_counts: dict[int, int] = {}
        self.decided: list[Decided] = []
        self.constant = 0.0
        self.capacity = np.zeros(0)
        self.dirty: deque[int] = deque()  # nodes to look at again
        self.queued: set[int] = set()

    def add(self, a: int, b: int, rows: np.ndarray, columns: np.ndarray, table: np.ndarray) -> None:
        """Add an edge's costs, whose rows and columns are given for each label of nodes `a` and `b`."""
        if a == b:
            self.costs[a] = self.costs[a] + table[rows, columns]
        else:
            self._join(a, b, table[rows][:, columns])

    def _join(self, a: int, b: int, table: np.ndarray) -> None:
        if b in self.edges[a]:
            table = self.edges[a][b] + table
        self.edges[a][b], self.edges[b][a] = table, table.T

    def run(self) -> None:
        """Apply all rules until none finds anything."""
        self.label_counts = {v: len(c) for v, c in self.costs.items()}
        for v in list(self.costs):
            self._queue(v)
            self._keep(v, np.isfinite(self.costs[v]))
        while self.dirty:
            while self.dirty:
                v = self.dirty.popleft()
                self.queued.discard(v)
                if v in self.costs:
                    self._visit(v)
            self._fit()

    def _queue(self, v: int) -> None:
        if v not in self.queued:
            self.queued.add(v)
            self.dirty.append(v)

    def _visit(self, v: int) -> None:
        self._simplify(v)
        self._dominate(v)
        count, degree = len(self.costs[v]), len(self.edges[v])
        if count == 1:
            self._fix(v)
        elif not len(self.profiles[v].usage) and degree <= 2:
            sizes = [len(self.costs[n]) for n in self.edges[v]]
            if count * int(np.prod(sizes)) <= LARGEST_ELIMINATION:
                self._eliminate(v)

    def _keep(self, v: int, left: np.ndarray) -> None:
        if left.all():
            return
        if not left.any():
            raise NoChoice(f"no label of node {v} is without forbidden costs and within the limit")
        self.costs[v], self.names[v] = self.costs[v][left], self.names[v][left]
        cuts, usage = self.profiles[v]
        self.profiles[v] = Profile(cuts, usage[:, left])
        for n, table in self.edges[v].items():
            kept = table[left]
            self.edges[v][n], self.edges[n][v] = kept, kept.T
            self._queue(n)
        self._queue(v)

    def _simplify(self, v: int) -> None:
        """Move what does not depend on the label into constants, and sums of a row and a column into nodes."""
        cuts, usage = self.profiles[v]
        least = usage.min(axis=1)
        for s in np.flatnonzero(least):
            self.capacity[cuts[s] : cuts[s + 1]] -= least[s]
        usage = usage - least[:, None]
        if usage.any():
            begins = np.append(True, (usage[1:] != usage[:-1]).any(axis=1))
            self.profiles[v] = Profile(np.append(cuts[:-1][begins], cuts[-1]), usage[begins])
        else:
            self.profiles[v] = Profile(np.zeros(1, np.int64), usage[:0])
        for n, table in list(self.edges[v].items()):
            finite = np.isfinite(table)
            if not finite.all():
                self._keep(n, finite.any(axis=0))
                self._keep(v, np.isfinite(self.edges[v][n]).any(axis=1))
                continue
            row, column = table[:, 0] - table[0, 0], table[0]
            if np.array_equal(table, row[:, None] + column):
                self.costs[v] = self.costs[v] + row
                self.costs[n] = self.costs[n] + column
                del self.edges[v][n], self.edges[n][v]
                self._queue(n)

    def _dominate(self, v: int) -> None:
        """Remove labels that never cost less than another, nor take less of any slot."""
        costs, count = self.costs[v], len(self.costs[v])
        if count == 1:
            return
        tables = list(self.edges[v].values())
        if count * count * max((t.shape[1] for t in tables), default=1) > LARGEST_COMPARISON:
            return
        least = costs[:, None] - costs
        for t in tables:
            if np.isfinite(t).all():
                least = least + (t[:, None, :] - t).min(axis=2)
            else:  # a partner forbidden to both does not count; one forbidden to the other alone is a reason to stay
                with np.errstate(invalid="ignore"):
                    step = t[:, None, :] - t
                    least = least + np.where(np.isnan(step), np.inf, step).min(axis=2)
                    least[np.isnan(least)] = -np.inf
        usage = self.profiles[v].usage
        beaten = least >= 0
        for s in range(len(usage)):
            if not beaten.any():
                return
            beaten &= usage[s][:, None] >= usage[s]
        np.fill_diagonal(beaten, False)
        if not beaten.any():
            return
        left = np.ones(count, bool)
        for x in range(count):
            if (beaten[x] & left).any():
                left[x] = False
        self._keep(v, left)

    def _fix(self, v: int) -> None:
        self.constant += float(self.costs[v][0])
        for n, table in self.edges[v].items():
            self.costs[n] = self.costs[n] + table[0]
            del self.edges[n][v]
            self._keep(n, np.isfinite(self.costs[n]))
            self._queue(n)
        self._forget(v, (), np.array(self.names[v][0]))

    def _forget(self, v: int, by: tuple[int, ...], labels: np.ndarray) -> None:
        self.decided.append(Decided(v, by, labels))
        del self.costs[v], self.names[v], self.profiles[v], self.edges[v]

    def _eliminate(self, v: int) -> None:
        by = tuple(self.edges[v])
        sums = self.costs[v].reshape((-1,) + (1,) * len(by))
        for axis, n in enumerate(by):
            shape = [len(self.costs[v])] + [1] * len(by)
            shape[1 + axis] = len(self.costs[n])
            sums = sums + self.edges[v][n].reshape(shape)
        least = sums.min(axis=0)
        labels = np.zeros([self.label_counts[n] for n in by], dtype=np.int64)
        labels[np.ix_(*(self.names[n] for n in by))] = self.names[v][sums.argmin(axis=0)]
        for n in by:
            del self.edges[n][v]
        self._forget(v, by, labels)
        if not by:
            self.constant += float(least)
        elif len(by) == 1:
            self.costs[by[0]] = self.costs[by[0]] + least
        else:
            self._join(by[0], by[1], least)
        for n in by:
            self._queue(n)

    def _fit(self) -> None:
        """Remove slots at which all choices fit, and labels that fit at some slot with none of the others'."""
        if (self.capacity < 0).any():
            raise NoChoice("the least possible load exceeds the limit")
        peak = np.zeros(len(self.capacity) + 1)
        for cuts, usage in self.profiles.values():
            if len(usage):
                most = usage.max(axis=1)
                np.add.at(peak, cuts[:-1], most)
                np.add.at(peak, cuts[1:], -most)
        binding = np.cumsum(peak)[:-1] > self.capacity
        slot = np.concatenate([[0], np.cumsum(binding)]).astype(np.int64)
        self.capacity = self.capacity[binding]
        for v, (before, usage) in self.profiles.items():
            if not len(usage):
                continue
            cuts = np.asarray(slot[before])
            left = np.asarray(cuts[1:] > cuts[:-1])
            if bool(left.all()):
                found = Profile(cuts, usage)
            else:
                found = Profile(np.append(cuts[:-1][left], cuts[-1]), usage[left])
                self._queue(v)
            self.profiles[v] = found
            fits = np.ones(usage.shape[1], bool)
            if len(found.usage):
                room = np.minimum.reduceat(np.append(self.capacity, np.inf), found.cuts)[:-1]
                fits = np.asarray((found.usage <= room[:, None]).all(axis=0))
            self._keep(v, fits)

    def result(self, node_count: int) -> Reduced:
        """Return what is left, its nodes in the order of the original ones."""
        nodes = sorted(self.costs)
        place = {v: i for i, v in enumerate(nodes)}
        counts = [len(self.costs[v]) for v in nodes]
        edges, tables, start = [], [], 0
        for v in nodes:
            for n, table in self.edges[v].items():
                if v < n:
                    edges.append(Edge(place[v], place[n], 0, 0, start, *table.shape))
                    tables.append(table.ravel())
                    start += table.size
        unary = np.concatenate([self.costs[v] for v in nodes]) if nodes else np.zeros(0)
        flat = priced(unary, np.concatenate(tables) if tables else np.zeros(0))
        return Reduced(
            pairwise(counts, unary, edges, np.arange(max(counts, default=0)), flat),
            Loads.of([self.profiles[v] for v in nodes], self.capacity),
            self.constant,
            nodes,
            [self.names[v] for v in nodes],
            self.decided,
            node_count,
        )
