"""Tests of message passing: against all choices of labels, and the bound against the least cost."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.optimizer.exact.pairwise import Edge, Pairwise, pairwise
from tapestry.optimizer.exact.trws import new_messages, solve


def random_problem(rng: np.random.Generator, *, nodes: int, edges: int) -> Pairwise:
    """Build a problem whose labels share states, and whose edges may join two nodes twice."""
    counts = rng.integers(1, 5, nodes)
    joined, maps, tables = [], [np.zeros(0, np.int64)], [np.zeros(0)]
    for _ in range(edges):
        i, j = sorted(rng.choice(nodes, 2, replace=False))
        rows, columns = rng.integers(1, 4, 2)
        start = sum(map(len, maps))
        joined.append(Edge(i, j, start, start + counts[i], sum(map(len, tables)), rows, columns))
        maps += [rng.integers(0, rows, counts[i]), rng.integers(0, columns, counts[j])]
        tables.append(rng.uniform(-2, 10, rows * columns))
    unary = rng.uniform(-5, 10, counts.sum())
    problem = pairwise(counts.tolist(), unary, joined, np.concatenate(maps), np.concatenate(tables))
    return problem.with_costs(problem.unary, problem.tables, rng.uniform(0, 2, edges))


def by_hand(problem: Pairwise, labels: tuple[int, ...]) -> float:
    """Add up the costs of a choice of labels, edge by edge."""
    total = sum(problem.unary[problem.label_start[i] + x] for i, x in enumerate(labels))
    for e in range(problem.edge_count):
        row = problem.maps[problem.first_map[e] + labels[problem.first[e]]]
        column = problem.maps[problem.second_map[e] + labels[problem.second[e]]]
        total += problem.scale[e] * problem.tables[problem.table_start[e] + row * problem.columns[e] + column]
    return float(total)


def least(problem: Pairwise) -> float:
    return min(by_hand(problem, labels) for labels in product(*map(range, np.diff(problem.label_start))))


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_and_the_cost_is_that_of_the_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 7))
    problem = random_problem(rng, nodes=nodes, edges=int(rng.integers(0, 3 * nodes)))
    found, best = solve(problem), least(problem)
    assert found.energy == pytest.approx(by_hand(problem, tuple(found.labels)))
    assert problem.energy(found.labels) == pytest.approx(found.energy)
    assert found.bound <= best + 1e-9 * abs(best)
    assert found.energy >= best - 1e-9 * abs(best)


@pytest.mark.parametrize("seed", range(20))
def test_trees_are_solved_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, nodes=2, edges=1)
    best = least(problem)
    found = solve(problem)
    assert found.energy == pytest.approx(best)
    assert found.bound == pytest.approx(best)


def test_most_small_problems_are_solved_and_few_bounds_are_loose() -> None:
    rng = np.random.default_rng(7)
    solved, gaps = 0, []
    for _ in range(60):
        problem = random_problem(rng, nodes=6, edges=9)
        found, best = solve(problem), least(problem)
        solved += found.energy <= best + 1e-9
        gaps.append(best - found.bound)
    assert solved >= 57
    assert np.median(gaps) < 1e-6


def test_a_frustrated_cycle_has_a_bound_below_its_least_cost() -> None:
    """Check that the bound is not taken for the cost: of three that all want to differ, two are equal."""
    alike = np.array([1.0, 0.0, 0.0, 1.0])
    edges = [Edge(i, j, 0, 0, 0, 2, 2) for i, j in ((0, 1), (1, 2), (0, 2))]
    problem = pairwise([2, 2, 2], np.zeros(6), edges, np.arange(2), alike)
    found = solve(problem)
    assert found.energy == pytest.approx(1.0)
    assert found.bound == pytest.approx(0.0, abs=1e-9)


def test_messages_of_other_costs_leave_the_bound_valid(rng: np.random.Generator) -> None:
    problem = random_problem(rng, nodes=6, edges=10)
    messages = new_messages(problem)
    solve(problem, messages)
    other = problem.with_costs(rng.permutation(problem.unary), problem.tables[::-1], problem.scale)
    assert solve(other, messages).bound <= least(other) + 1e-9


def test_edges_go_forward_and_costs_are_finite() -> None:
    edge = Edge(1, 0, 0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="later one"):
        pairwise([1, 1], np.zeros(2), [edge], np.zeros(1, np.int64), np.zeros(1))
    with pytest.raises(ValueError, match="finite"):
        pairwise([1, 1], np.array([0.0, np.inf]), [], np.zeros(0, np.int64), np.zeros(0))
