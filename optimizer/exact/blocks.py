"""Local search of a capped pairwise problem by moves of blocks: the labels of a small tree of nodes change at once.

Given the labels of all other nodes, the labels of a tree that cost least are found exactly. Noise on the costs makes a
random choice near to that of a heat bath (Papandreou and Yuille, Perturb-and-MAP random fields, 2011), and a share of
the prices of slots makes room. A move is accepted by its true change of cost and of a penalty on loads above the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.optimizer.exact.capped import Loads
from tapestry.optimizer.exact.pairwise import Pairwise

LARGEST_BLOCK = 12
COOLING = 1e-3  # of the heat at the start of a round, at its end


class Near(NamedTuple):
    """The neighbors of every node: `node[start[i] : start[i + 1]]`, each by an edge."""

    start: np.ndarray
    node: np.ndarray
    edge: np.ndarray

    @classmethod
    def of(cls, problem: Pairwise) -> Near:
        ends = np.concatenate([problem.first, problem.second])
        order = np.argsort(ends, kind="stable")
        start = np.searchsorted(ends[order], np.arange(problem.node_count + 1))
        others = np.concatenate([problem.second, problem.first])[order]
        edges = np.tile(np.arange(problem.edge_count), 2)[order]
        return cls(start.astype(np.int64), others.astype(np.int64), edges.astype(np.int64))


class _Workspace(NamedTuple):
    """Working arrays of the loop."""

    place: np.ndarray  # (nodes,): in the block, else -1
    touches: np.ndarray  # (nodes,): neighbors in the block
    block: np.ndarray
    parent: np.ndarray
    parent_edge: np.ndarray
    chosen: np.ndarray
    own: np.ndarray  # (block, labels): costs of a node and of its edges out of the block
    priced: np.ndarray
    decided: np.ndarray

    @classmethod
    def of(cls, problem: Pairwise) -> _Workspace:
        widest = int(np.diff(problem.label_start).max(initial=1))
        blocks = [np.zeros(LARGEST_BLOCK, np.int64) for _ in range(4)]
        tables = [np.zeros((LARGEST_BLOCK, widest)) for _ in range(2)]
        nodes = problem.node_count
        return cls(
            np.full(nodes, -1),
            np.zeros(nodes, np.int64),
            blocks[0],
            blocks[1],
            blocks[2],
            blocks[3],
            tables[0],
            tables[1],
            np.zeros((LARGEST_BLOCK, widest), np.int64),
        )


class Found(NamedTuple):
    """The best labels within the limit, and their cost; infinite where none were found."""

    labels: np.ndarray
    cost: float


def search(
    problem: Pairwise,
    loads: Loads,
    start: np.ndarray,
    prices: np.ndarray,
    go_on: Callable[[], bool],
    *,
    rng: np.random.Generator,
    known: Found | None = None,
    reported: Callable[[Found], None] = lambda _: None,
) -> Found:
    """Search from `start`, then from the best labels within the limit, round after round, while `go_on()`."""
    near, work = Near.of(problem), _Workspace.of(problem)
    charges = loads.charged(problem.label_start, prices)
    best = Found(start.copy(), np.inf) if known is None else Found(known.labels.copy(), known.cost)
    labels = start.copy()
    nodes = max(problem.node_count, 1)
    dearest = float(prices.max(initial=0.0))
    while go_on():
        cost = problem.energy(labels)
        load = loads.of_labels(labels)
        scale = max(abs(best.cost if np.isfinite(best.cost) else cost), 1.0)
        penalty = max(dearest, 1e-3 * scale / loads.capacity.max(initial=1.0))
        hot = scale / nodes * 10 ** rng.uniform(-2.0, 1.0)
        chunks = int(10 ** rng.uniform(1.0, 2.5))
        for chunk in range(chunks):
            heat = hot * COOLING ** (chunk / chunks)
            kept = best.labels.copy()
            cost, over, least = move(
                rng,
                problem,
                loads,
                near,
                work,
                charges,
                labels,
                load,
                kept,
                cost,
                best.cost,
                5 * nodes,
                heat,
                penalty,
            )
            penalty = penalty * 1.5 if over > 0 else penalty / 1.2
            if least < best.cost:
                best = Found(kept, least)
                reported(best)
            if not go_on():
                break
        if np.isfinite(best.cost):
            labels = best.labels.copy()
    return best


@njit(_nrt=False, inline="always")
def _edge(problem, e, v, x, y):
    """Return the cost of an edge when node `v` has label `x` and its other node `y`."""
    if problem.first[e] != v:
        x, y = y, x
    row = problem.maps[problem.first_map[e] + x]
    column = problem.maps[problem.second_map[e] + y]
    return problem.scale[e] * problem.tables[problem.table_start[e] + row * problem.columns[e] + column]


@njit(_nrt=False)
def _grow(draws, near, work, root, size):
    """Fill the block with a random tree; return the number of its nodes."""
    count = 0
    tries = 0
    v, by, edge = root, -1, -1
    while True:
        work.block[count], work.parent[count], work.parent_edge[count] = v, by, edge
        work.place[v] = count
        for k in range(near.start[v], near.start[v + 1]):
            work.touches[near.node[k]] += 1
        count += 1
        found = False
        while count < size and tries < 4 * size and not found:
            tries += 1
            by = int(draws.random() * count)
            u = work.block[by]
            degree = near.start[u + 1] - near.start[u]
            if degree > 0:
                k = near.start[u] + int(draws.random() * degree)
                v, edge = near.node[k], near.edge[k]
                found = work.place[v] < 0 and work.touches[v] == 1
        if not found:
            return count


@njit(_nrt=False)
def _choose(draws, problem, near, work, charges, labels, count, heat, share):
    """Fill the labels of the block that cost least, with noise and a share of the prices."""
    for b in range(count):
        v = work.block[b]
        start = problem.label_start[v]
        width = problem.label_start[v + 1] - start
        for x in range(width):
            work.own[b, x] = problem.unary[start + x]
        for k in range(near.start[v], near.start[v + 1]):
            u = near.node[k]
            if work.place[u] < 0:
                for x in range(width):
                    work.own[b, x] += _edge(problem, near.edge[k], v, x, labels[u])
        for x in range(width):
            noise = heat * np.log(-np.log(draws.random() + 1e-300) + 1e-300)
            work.priced[b, x] = work.own[b, x] + share * charges[start + x] + noise
    for j in range(count - 1):
        b = count - 1 - j
        v, p = work.block[b], work.parent[b]
        up = work.block[p]
        width = problem.label_start[v + 1] - problem.label_start[v]
        for y in range(problem.label_start[up + 1] - problem.label_start[up]):
            least = np.inf
            for x in range(width):
                found = work.priced[b, x] + _edge(problem, work.parent_edge[b], v, x, y)
                if found < least:
                    least = found
                    work.decided[b, y] = x
            work.priced[p, y] += least
    root = work.block[0]
    chosen = 0
    for x in range(1, problem.label_start[root + 1] - problem.label_start[root]):
        if work.priced[0, x] < work.priced[0, chosen]:
            chosen = x
    work.chosen[0] = chosen
    for b in range(1, count):
        work.chosen[b] = work.decided[b, work.chosen[work.parent[b]]]


@njit(_nrt=False)
def _load(loads, load, v, old, new):
    """Change a node's label in the loads; return by how much the sum of what is above the limit changes."""
    over = 0.0
    for s in range(loads.start[v], loads.start[v + 1]):
        more = loads.usage[loads.at[s] + new] - loads.usage[loads.at[s] + old]
        if more != 0.0:
            for t in range(loads.first[s], loads.last[s]):
                before = load[t] - loads.capacity[t]
                over += max(before + more, 0.0) - max(before, 0.0)
                load[t] += more
    return over


@njit(_nrt=False)
def move(draws, problem, loads, near, work, charges, labels, load, best, cost, least, moves, heat, penalty):
    """Make moves; change labels, load and best labels; return cost, load above the limit, and the best labels' cost."""
    over = 0.0
    for t in range(load.shape[0]):
        over += max(load[t] - loads.capacity[t], 0.0)
    for _ in range(moves):
        size = 1
        while size < work.block.shape[0] and draws.random() < 0.75:
            size += 1
        count = _grow(draws, near, work, int(draws.random() * labels.shape[0]), size)
        share = 2.0 * draws.random() if draws.random() < 0.7 else 0.0
        _choose(draws, problem, near, work, charges, labels, count, heat, share)
        change, more = 0.0, 0.0
        for b in range(count):
            v, new = work.block[b], work.chosen[b]
            change += work.own[b, new] - work.own[b, labels[v]]
            if b > 0:
                p = work.parent[b]
                change += _edge(problem, work.parent_edge[b], v, new, work.chosen[p])
                change -= _edge(problem, work.parent_edge[b], v, labels[v], labels[work.block[p]])
        allowed = heat * -np.log(draws.random() + 1e-300)
        for b in range(count):
            v = work.block[b]
            if work.chosen[b] != labels[v]:
                more += _load(loads, load, v, labels[v], work.chosen[b])
        if change + penalty * more <= allowed:
            cost += change
            over += more
            for b in range(count):
                labels[work.block[b]] = work.chosen[b]
            if over <= 0.0 and cost < least:
                least = cost
                for i in range(labels.shape[0]):
                    best[i] = labels[i]
        else:
            for b in range(count):
                v = work.block[b]
                if work.chosen[b] != labels[v]:
                    _load(loads, load, v, work.chosen[b], labels[v])
        for b in range(count):
            v = work.block[b]
            work.place[v] = -1
            for k in range(near.start[v], near.start[v + 1]):
                work.touches[near.node[k]] = 0
    return cost, over, least
